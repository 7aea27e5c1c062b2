package cli

import (
	"path/filepath"
	"slices"
	"testing"
)

// Runs of one name are called by as many parts of their paths as tell them apart: charts give a
// name one colour and one entry of the legend.
func TestNamesApart(t *testing.T) {
	t.Chdir(t.TempDir())
	here := filepath.Base(mustAbs(t, "."))
	for _, c := range [][2][]string{
		{{"runs/a", "runs/b/"}, {"a", "b"}},
		{{"out/round-1/student", "out/round-2/student", "out/teacher"},
			{"round-1/student", "round-2/student", "teacher"}},
		{{"a/x/run", "b/x/run", "a/y/run"}, {"a/x/run", "b/x/run", "y/run"}},
		{{"."}, {here}},
		{{"run", "a/run"}, {here + "/run", "a/run"}},
	} {
		if got := namesApart(c[0]); !slices.Equal(got, c[1]) {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
	if same := namesApart([]string{"run", "run"}); same[0] != same[1] {
		t.Errorf("%q", same)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}
