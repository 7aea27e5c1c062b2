package puzzle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Configuration is a permutation: c[s] is the position at which the patch that lies in slot s
// belongs. The truth about a shuffled puzzle is a configuration, and so is an answer to it; a
// solved puzzle has the identity.
type Configuration []int

// Identity is the configuration of a solved puzzle of n patches.
func Identity(n int) Configuration {
	c := make(Configuration, n)
	for i := range c {
		c[i] = i
	}
	return c
}

// Random draws one of the n! configurations, all equally likely.
func Random(r *rand.Rand, n int) Configuration { return r.Perm(n) }

// Check says whether c is a permutation.
func (c Configuration) Check() error {
	seen := make([]bool, len(c))
	for s, p := range c {
		if p < 0 || p >= len(c) || seen[p] {
			return fmt.Errorf("configuration %v: slot %d has position %d, which is taken or outside 0..%d",
				numbers.List([]int(c)), s, p, len(c)-1)
		}
		seen[p] = true
	}
	return nil
}

// Solved says whether every patch lies where it belongs.
func (c Configuration) Solved() bool {
	for s, p := range c {
		if s != p {
			return false
		}
	}
	return true
}

// Rearranged is the truth after every patch has been moved to the slot that the answer names for
// it: a correct answer leaves a solved puzzle.
func (c Configuration) Rearranged(answer Configuration) Configuration {
	next := make(Configuration, len(c))
	for s, p := range answer {
		next[p] = c[s]
	}
	return next
}

// Clone copies the configuration.
func (c Configuration) Clone() Configuration { return slices.Clone(c) }

// Distance is the Hamming distance: how many patches two configurations place differently. It is
// never 1.
func (c Configuration) Distance(d Configuration) int {
	n := 0
	for s := range c {
		if c[s] != d[s] {
			n++
		}
	}
	return n
}

// InShare says whether c belongs to a fixed, pseudo-random share of all configurations: the
// ablation of Wei et al. (2019) that trains on 1 %, 10 % or 100 % of them. Shares are nested, and
// deciding costs the same for 27! configurations as for 8!.
func (c Configuration) InShare(share float64) bool {
	h := uint64(0xcbf29ce484222325) // FNV-1a over the positions, then SplitMix64's finaliser
	for _, p := range c {
		h = (h ^ uint64(p)) * 0x100000001b3
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return float64((h^h>>31)>>11) < share*(1<<53)
}

// CheckShare says whether [RandomInShare] can draw from a share of the configurations of n patches.
func CheckShare(n int, share float64) error {
	if !(share > 0 && share <= 1) {
		return fmt.Errorf("share of configurations %v: must be above 0 and at most 1", share)
	}
	logFactorial, _ := math.Lgamma(float64(n + 1))
	if share < 1 && logFactorial+math.Log(share) < math.Log(32) {
		return fmt.Errorf("share of configurations %v leaves less than 32 of %d!: use a larger share", share, n)
	}
	return nil
}

// RandomInShare draws from the configurations that are [Configuration.InShare] the share, all
// equally likely. The share must pass CheckShare.
func RandomInShare(r *rand.Rand, n int, share float64) Configuration {
	c := Random(r, n)
	for !c.InShare(share) {
		r.Shuffle(n, func(i, j int) { c[i], c[j] = c[j], c[i] })
	}
	return c
}
