package cli

import "testing"

// Ranks of a host share out a container's quota; without one, and with threads that the user has
// set, each has what it is bound to.
func TestThreadsOfARank(t *testing.T) {
	for _, c := range []struct {
		set                        string
		procs, cores, onHost, want int
	}{
		{"", 16, 16, 4, 16}, // no quota
		{"", 8, 16, 4, 2},
		{"", 8, 16, 3, 2},
		{"", 2, 16, 4, 1},
		{"8", 8, 16, 4, 8},
	} {
		t.Setenv("GOMAXPROCS", c.set)
		if got := ownProcs(c.procs, c.cores, c.onHost); got != c.want {
			t.Errorf("GOMAXPROCS=%q, %d of %d cores, %d ranks: %d threads, want %d", c.set, c.procs, c.cores, c.onHost,
				got, c.want)
		}
	}
}
