//go:build gpu

package cuda

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The tests run on the simulated GPU: sim/*.cc and the kernels themselves, compiled by g++. Objects
// are kept in the user's cache, named by what they were made of.

// compilerFlags: no contraction of products and sums, lest results depend on the processor.
var compilerFlags = []string{"-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-fPIC", "-fvisibility=hidden"}

// simulator is the library of the kernels as they are.
var simulator = sync.OnceValues(func() (string, error) { return buildSimulator("kernels") })

// kernelSources are all.cu's parts.
func kernelSources(folder string) ([]string, error) {
	all, err := os.ReadFile(filepath.Join(folder, "all.cu"))
	if err != nil {
		return nil, err
	}
	var sources []string
	for line := range strings.Lines(string(all)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), `#include "`); ok {
			sources = append(sources, filepath.Join(folder, strings.TrimSuffix(name, `"`)))
		}
	}
	return sources, nil
}

// buildSimulator compiles the simulator with the kernels of a folder that has sim beside it.
func buildSimulator(kernels string) (string, error) {
	sources, err := kernelSources(kernels)
	if err != nil {
		return "", err
	}
	sim := filepath.Join(filepath.Dir(kernels), "sim")
	more, err := filepath.Glob(filepath.Join(sim, "*.cc"))
	if err != nil || len(more) == 0 || len(sources) == 0 {
		return "", fmt.Errorf("%s: no simulator to build: %v", sim, err)
	}
	sources = append(sources, more...)
	headers, err := digestOfHeaders(sim, kernels)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "voxsaw-simulated-gpu")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	objects, failed := make([]string, len(sources)), make([]error, len(sources))
	var group sync.WaitGroup
	for i, source := range sources {
		group.Go(func() { objects[i], failed[i] = compile(cache, source, headers) })
	}
	group.Wait()
	for _, err := range failed {
		if err != nil {
			return "", err
		}
	}
	library := filepath.Join(cache, fmt.Sprintf("%x.so", sha256.Sum256([]byte(strings.Join(objects, "\n"))))[:24]+".so")
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	return library, build(library, append([]string{"-shared"}, objects...)...)
}

// digestOfHeaders is of all that the sources may include.
func digestOfHeaders(folders ...string) (string, error) {
	h := sha256.New()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".h" {
				return err
			}
			data, err := os.ReadFile(path)
			h.Write(data)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// compile makes an object, unless the cache has it.
func compile(cache, source, headers string) (string, error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256([]byte(strings.Join(compilerFlags, " ") + headers + filepath.Base(source) + string(text)))
	object := filepath.Join(cache, fmt.Sprintf("%x.o", key[:12]))
	if _, err := os.Stat(object); err == nil {
		return object, nil
	}
	return object, build(object, append(compilerFlags, "-x", "c++", "-c", source)...)
}

// build runs g++ with an output that appears only when it is whole.
func build(output string, arguments ...string) error {
	f, err := os.CreateTemp(filepath.Dir(output), "*.part")
	if err != nil {
		return err
	}
	f.Close()
	defer os.Remove(f.Name())
	if text, err := exec.Command("g++", append(arguments, "-o", f.Name())...).CombinedOutput(); err != nil {
		return fmt.Errorf("g++: %w\n%s", err, bytes.TrimSpace(text))
	}
	return os.Rename(f.Name(), output)
}

// openSimulated opens the simulated GPU in this process. A process has one driver: whoever wants
// another one runs the tests in a process of their own.
func openSimulated(t testing.TB, p precision) *Device {
	t.Helper()
	library := os.Getenv("VOXSAW_CUDA_DRIVER")
	if library == "" {
		var err error
		if library, err = simulator(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(Options{Precision: string(p), Driver: library})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.(*Device)
}
