package turns

import "testing"

// Each part has its turn once in as many commits as there are parts; by hand, all have.
func TestHas(t *testing.T) {
	count := func() (has [3]int) {
		for n := range 6 {
			if Has(t, n, 3) {
				has[n%3]++
			}
		}
		return has
	}
	t.Setenv("VOXSAW_TEST_LONG", "")
	for commit, want := range map[string][3]int{"": {2, 2, 2}, "0": {2, 0, 0}, "4": {0, 2, 0}, "8": {0, 0, 2}} {
		t.Setenv("VOXSAW_TEST_COMMIT", commit)
		if got := count(); got != want {
			t.Errorf("commit %q: %v, want %v", commit, got, want)
		}
	}
	t.Setenv("VOXSAW_TEST_LONG", "1")
	if got := count(); got != [3]int{2, 2, 2} {
		t.Errorf("the long form: %v", got)
	}
}
