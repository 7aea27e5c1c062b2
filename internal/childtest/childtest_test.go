package childtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is what go test -v printed of a test with skipped parts, two of them in parallel.
const recorded = `=== RUN   TestParts
=== RUN   TestParts/runs
    parts_test.go:9: is well
=== RUN   TestParts/family
=== RUN   TestParts/family/one_part
    parts_test.go:11: no tool here
=== NAME  TestParts/family
    parts_test.go:12: what it said before
=== RUN   TestParts/family/another
=== NAME  TestParts/family
    parts_test.go:14: no rest
=== RUN   TestParts/a
=== PAUSE TestParts/a
=== RUN   TestParts/b
=== PAUSE TestParts/b
=== CONT  TestParts/a
=== CONT  TestParts/b
=== NAME  TestParts/a
    parts_test.go:19: beside others: a
=== NAME  TestParts/b
    parts_test.go:19: beside others: b
--- PASS: TestParts (0.00s)
    --- PASS: TestParts/runs (0.00s)
    --- SKIP: TestParts/family (0.00s)
        --- SKIP: TestParts/family/one_part (0.00s)
        --- PASS: TestParts/family/another (0.00s)
    --- SKIP: TestParts/a (0.00s)
    --- SKIP: TestParts/b (0.00s)
PASS
`

// The variable makes TestShown the child of TestSkips.
const variable = "VOXSAW_TEST_SKIPS"

// TestShown, where it is a child, shows the skips that were recorded.
func TestShown(t *testing.T) {
	if os.Getenv(variable) != "" {
		ShowSkips(t, recorded)
	}
}

// Skips are found in what was recorded, and again in what a process prints that has shown them,
// which is how the Go at hand prints its own.
func TestSkips(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestShown$")
	cmd.Env = append(os.Environ(), variable+"=1")
	shown, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	for prefix, out := range map[string]string{"TestParts/": recorded, "TestShown/TestParts/": string(shown)} {
		want := map[string]string{"family/one_part": "no tool here", "family": "no rest", "a": "beside others: a",
			"b": "beside others: b"}
		for _, got := range skips(out) {
			name := strings.TrimPrefix(got.name, prefix)
			if reason, ok := want[name]; !ok || !strings.HasSuffix(got.reason, reason) {
				t.Errorf("skipped %s because of %q, want one of %v", got.name, got.reason, want)
			}
			delete(want, name)
		}
		if len(want) != 0 {
			t.Errorf("%s: of the skips are missing %v in\n%s", prefix, want, out)
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
