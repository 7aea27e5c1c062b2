// Package childtest runs tests in processes of their own, and shows what was skipped there: nobody
// else reads the output of such a process while its tests pass.
//
// Start at [InChild], for a test that changes limits of its process, or at [ShowSkips], for a test
// that starts its processes itself.
package childtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// InChild runs the test that calls it once more, alone, in a process of its own. It reports whether
// this is the parent, which then has nothing left to do.
func InChild(t *testing.T) (parent bool) {
	t.Helper()
	const key = "VOXSAW_TEST_CHILD"
	if os.Getenv(key) == t.Name() {
		return false
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), key+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return true
	}
	ShowSkips(t, string(out))
	return true
}

// ShowSkips makes each test that a process skipped a skipped subtest of this one, with its reason,
// so that scripts/skips counts it as any other. It wants the output of a process under -test.v. A
// process in which no test ran is an error.
func ShowSkips(t *testing.T, output string) {
	t.Helper()
	if !strings.Contains(output, "=== RUN ") {
		t.Errorf("no test ran in the process:\n%s", output)
	}
	for _, s := range skips(output) {
		t.Run(s.name, func(t *testing.T) { t.Skip(s.reason) })
	}
}

// A skip is a test that was skipped, and what it had said.
type skip struct{ name, reason string }

// skips reads the output of tests under -test.v: "=== RUN", "=== CONT" and "=== NAME" say whose
// lines follow, "--- SKIP" that a test was skipped.
func skips(output string) (list []skip) {
	said, current := map[string][]string{}, ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if words := strings.Fields(line); strings.HasPrefix(line, "=== ") && len(words) == 3 {
			current = words[2]
			continue
		}
		if result, ok := strings.CutPrefix(line, "--- "); ok {
			if name, ok := strings.CutPrefix(result, "SKIP: "); ok {
				name, _, _ = strings.Cut(name, " (")
				list = append(list, skip{name, strings.Join(said[name], " ")})
			}
			continue
		}
		said[current] = append(said[current], line)
	}
	return list
}
