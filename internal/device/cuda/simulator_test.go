//go:build gpu

package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The tests run on the simulated GPU: sim/*.cc and the kernels themselves, compiled by g++.

// simulator is the library of the kernels as they are.
var simulator = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "voxsaw-simulated-gpu")
	if err != nil {
		return "", err
	}
	return buildSimulator("sim", folder)
})

// buildSimulator compiles a simulator with the kernels of the folder beside it.
func buildSimulator(sim, into string) (string, error) {
	library := filepath.Join(into, "libcudasim.so")
	if text, err := exec.Command(filepath.Join(sim, "build.sh"), library).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the simulated GPU: %w\n%s", err, text)
	}
	return library, nil
}

// TestMain removes the library in the end.
func TestMain(m *testing.M) {
	code := m.Run()
	if library, err := simulator(); err == nil && os.Getenv("VOXSAW_CUDA_DRIVER") == "" {
		os.RemoveAll(filepath.Dir(library))
	}
	os.Exit(code)
}

// long says whether all is asked for that a CPU can show, and not what CI has the time for.
func long() bool { return os.Getenv("VOXSAW_TEST_LONG") != "" }

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
