// Package turns is for tests that are too much for every run of CI: each commit has some of them.
// By hand all run. Start at [Has].
package turns

import (
	"os"
	"strconv"
	"testing"
)

// Has reports whether the nth of several parts has its turn, and says so where it has not. All
// have, unless VOXSAW_TEST_COMMIT is a number, which .ci/run makes of the commit, and
// VOXSAW_TEST_LONG is not set. Go test remembers a result for that number.
func Has(t testing.TB, n, parts int) bool {
	t.Helper()
	turn, given := Number(t, "VOXSAW_TEST_COMMIT")
	if !given || os.Getenv("VOXSAW_TEST_LONG") != "" || n%parts == turn%parts {
		return true
	}
	t.Logf("part %d of %d: another commit's turn", n%parts+1, parts)
	return false
}

// Number is that of a variable of the environment; given is false where it is not set.
func Number(t testing.TB, variable string) (n int, given bool) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0, false
	}
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		t.Fatalf("%s is %q, no number", variable, text)
	}
	return int(number), true
}
