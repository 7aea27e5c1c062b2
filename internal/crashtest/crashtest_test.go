//go:build unix

package crashtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
)

// TestMain makes the tests' own program the command voxsaw where it is called by that name. So what
// go test remembers of these tests holds for this very program, and none is linked beside it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "voxsaw" {
		commandtest.ProcessorClock()
		cli.Main()
	}
	os.Exit(m.Run())
}

// program makes path, whose last part is voxsaw, the command.
func program(t *testing.T, path string) string {
	t.Helper()
	own, err := os.Executable()
	if err == nil {
		err = os.Symlink(own, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Killed or stopped at random moments, several times in a row, every verb ends as if nothing had
// happened.
func TestTorture(t *testing.T) {
	b := work(t)
	t.Run("Kills", b.testKills)
	t.Run("Leftovers", b.testLeftovers)
	t.Run("Faults", b.testFaults)
	t.Run("Folders", b.testFolders)
	t.Run("Order", b.testOrder)
	t.Run("TwoProcesses", b.testTwoProcesses)
	for _, tests := range []map[string]func(t *testing.T){b.callTests(), b.powerTests()} {
		for name, test := range tests {
			t.Run(name, test)
		}
	}
}
