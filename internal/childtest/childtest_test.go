package childtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The variable makes TestParts and TestShown the children of TestSkips.
const variable = "VOXSAW_TEST_SKIPS"

// child runs a test of this file as a child, and gives its output.
func child(t *testing.T, test, mode string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variable+"="+mode)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestParts skips some of its parts where it is a child.
func TestParts(t *testing.T) {
	if os.Getenv(variable) == "" {
		return
	}
	t.Run("runs", func(t *testing.T) { t.Log("is well") })
	t.Run("family", func(t *testing.T) {
		t.Run("one part", func(t *testing.T) { t.Skip("no tool here") })
		t.Log("what it said before")
		t.Run("another", func(t *testing.T) {})
		t.Skip("no rest")
	})
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Skip("beside others: " + name)
		})
	}
}

// TestShown, where it is a child, shows the skips of a child of its own.
func TestShown(t *testing.T) {
	if os.Getenv(variable) == "show" {
		ShowSkips(t, child(t, "TestParts", "skip"))
	}
}

func TestSkips(t *testing.T) {
	for _, of := range []struct{ test, mode, prefix string }{
		{"TestParts", "skip", "TestParts/"},
		{"TestShown", "show", "TestShown/TestParts/"}, // they have become skips of the parent
	} {
		out := child(t, of.test, of.mode)
		want := map[string]string{"family/one_part": "no tool here", "family": "no rest", "a": "beside others: a", "b": "beside others: b"}
		for _, got := range skips(out) {
			name := strings.TrimPrefix(got.name, of.prefix)
			if reason, ok := want[name]; !ok || !strings.HasSuffix(got.reason, reason) {
				t.Errorf("%s: skipped %s because of %q, want one of %v", of.test, got.name, got.reason, want)
			}
			delete(want, name)
		}
		if len(want) != 0 {
			t.Errorf("%s: of the skips are missing %v in\n%s", of.test, want, out)
		}
	}
}

// TestInChild: what follows InChild runs once, and in another process.
func TestInChild(t *testing.T) {
	const variable = "VOXSAW_TEST_PID"
	file := os.Getenv(variable)
	if file == "" {
		file = filepath.Join(t.TempDir(), "pid")
		t.Setenv(variable, file)
	}
	own := fmt.Sprintln(os.Getpid())
	if InChild(t) {
		if pid, err := os.ReadFile(file); err != nil || string(pid) == own {
			t.Errorf("process %s wrote %q: %v", own, pid, err)
		}
		return
	}
	if err := os.WriteFile(file, []byte(own), 0o666); err != nil {
		t.Fatal(err)
	}
}
