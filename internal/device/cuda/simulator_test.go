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

// simulator is the library of the kernels as they are. Its folder goes when the tests end.
var simulator = sync.OnceValues(func() (library string, err error) {
	if simulatorFolder, err = os.MkdirTemp("", "voxsaw-simulated-gpu"); err != nil {
		return "", err
	}
	return buildSimulator("sim", simulatorFolder)
})

var simulatorFolder string

// buildSimulator compiles a simulator with the kernels of the folder beside it.
func buildSimulator(sim, into string) (string, error) {
	library := filepath.Join(into, "libcudasim.so")
	if text, err := exec.Command(filepath.Join(sim, "build.sh"), library).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the simulated GPU: %w\n%s", err, text)
	}
	return library, nil
}

// TestMain runs the tests, or, in a process that a test started for it, opens a driver.
func TestMain(m *testing.M) {
	if library := os.Getenv(openVariable); library != "" {
		os.Exit(runOpen(library))
	}
	code := m.Run()
	if simulatorFolder != "" {
		os.RemoveAll(simulatorFolder)
	}
	os.Exit(code)
}

// The variables that say what a process is for, and with what: the suite at a precision, perhaps
// with some of its convolutions alone, or opening a driver.
const (
	suiteVariable = "VOXSAW_TEST_SUITE"
	someVariable  = "VOXSAW_TEST_SUITE_TURN"
	openVariable  = "VOXSAW_TEST_OPEN"
)

// openSimulated opens the simulated GPU in this process, and closes it after the test. A process
// has one driver: whoever wants another one runs the tests in a process of their own.
func openSimulated(t testing.TB, p precision) *Device {
	t.Helper()
	d := openUnclosed(t, p)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// openUnclosed is the same, and leaves closing to the test.
func openUnclosed(t testing.TB, p precision) *Device {
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
	return d.(*Device)
}
