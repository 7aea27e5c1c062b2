package jigsaw

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// Missing patches. A share of the patches of each puzzle is left out, as in Jigsaw-ViT (Chen et
// al., Jigsaw-ViT: Learning Jigsaw Puzzles in Vision Transformer, 2022): there is less to go by,
// and neighbours that would give a place away are missing.
//
// A missing patch is not encoded and has no feature: its slot is empty. Every place can be chosen
// for what is left, those of missing patches among them; which places stay empty is not told. So
// the assignment is rectangular ([solver.Terms]). Losses, scores, chance and ceiling are those of
// the patches that are there.

// missing is how many patches of a puzzle are left out.
func (c Config) missing() int { return int(math.Round(c.Missing * float64(c.cells()))) }

// present is how many are there.
func (c Config) present() int { return c.cells() - c.missing() }

func (c Config) checkMissing() error {
	if !(c.Missing >= 0 && c.Missing < 1) {
		return fmt.Errorf("missing is %v, must be a share from 0 to less than 1", c.Missing)
	}
	if c.Missing == 0 {
		return nil
	}
	if c.Orders != nil {
		return fmt.Errorf("missing is %v, but a choice among orders needs every patch: set missing to 0", c.Missing)
	}
	if c.ColSum > 0 {
		return fmt.Errorf("column_sum wants every place taken, missing leaves some empty: set one of them to 0")
	}
	most := 0
	for _, of := range c.games() {
		if of.present() < 2 {
			return fmt.Errorf("missing is %v: of the %d patches of a grid of %v, less than two are left; set it lower",
				c.Missing, of.cells(), of.Grid)
		}
		most = max(most, of.missing())
	}
	if most == 0 {
		return fmt.Errorf("missing is %v, which is less than half a patch of any grid: set it higher, or to 0",
			c.Missing)
	}
	return nil
}

// DrawMissing draws which patches of a puzzle are left out; nil where none is.
func (c Config) DrawMissing(r *rand.Rand) []bool {
	if c.missing() == 0 {
		return nil
	}
	marks := make([]bool, c.cells())
	for _, patch := range r.Perm(len(marks))[:c.missing()] {
		marks[patch] = true
	}
	return marks
}

// Alike gives each of the n patches of a puzzle the number of the first one with the same voxels:
// its own where there is none before it.
func Alike(patches []float32, n int) []int {
	size := len(patches) / n
	voxels := func(p int) []float32 { return patches[p*size:][:size] }
	first := make([]int, n)
	var kinds []int
	for p := range n {
		k := slices.IndexFunc(kinds, func(other int) bool { return slices.Equal(voxels(other), voxels(p)) })
		if k < 0 {
			k, kinds = len(kinds), append(kinds, p)
		}
		first[p] = kinds[k]
	}
	return first
}

// pieces are the patches of one puzzle as a head sees them, by their number.
type pieces struct {
	row     []int  // of its feature; -1 where it is missing
	missing []bool // nil: none
	blank   []bool // it does not count in the cross-entropies
	// the first patch with the same voxels; nil: each is one of its own
	alike []int
}

// newPieces numbers the features of the patches that are there, from first on; with all, missing
// patches have features, too, which nobody looks at.
func (c Config) newPieces(first int, missing []bool, all bool) pieces {
	p := pieces{row: make([]int, c.cells()), missing: missing, blank: make([]bool, c.cells())}
	next := first
	for patch := range p.row {
		there := missing == nil || !missing[patch]
		p.row[patch] = -1
		if there {
			p.row[patch] = next
		}
		if there || all {
			next++
		}
	}
	return p
}

// there says whether a patch is not missing.
func (p pieces) there(patch int) bool { return p.row[patch] >= 0 }

// same says whether one patch is as right as the other: it is the same one, or has the same voxels.
func (p pieces) same(a, b int) bool { return a == b || p.alike != nil && p.alike[a] == p.alike[b] }

// alone says whether no other patch has the same voxels.
func (p pieces) alone(patch int) bool {
	for other := range p.alike {
		if other != patch && p.same(patch, other) {
			return false
		}
	}
	return true
}

// solved says whether every patch that is there lies where it, or one with the same voxels,
// belongs.
func (p pieces) solved(arranged puzzle.Configuration) bool {
	for slot, patch := range arranged {
		if p.there(patch) && !p.same(slot, patch) {
			return false
		}
	}
	return true
}

// groups are the positions of which nobody knows which patch belongs where: those of patches with
// the same voxels.
func (p pieces) groups(alike []int) []puzzle.Group {
	groups := make([]puzzle.Group, len(alike))
	for patch, first := range alike {
		groups[first].Positions++
		if p.there(patch) {
			groups[first].Present++
		}
	}
	return groups
}
