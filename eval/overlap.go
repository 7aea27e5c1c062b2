package eval

import (
	"errors"
	"math"
	"slices"
)

// coefficient is the Dice coefficient of two sets, from the sizes of both and of their
// intersection; NaN where both are empty.
func coefficient(both, predicted, reference int) float64 {
	return 2 * float64(both) / float64(predicted+reference) // 0/0 is NaN
}

// Ignored is the class of labels whose voxels are left out.
const Ignored = math.MaxUint16

// Dice is the Dice coefficient 2 |P and R| / (|P| + |R|) of every class from 0 to classes: element
// c of the result is that of class c, NaN where neither side shows it. predicted holds the class of
// each voxel, reference its label, and classOf[label] says which class a label belongs to:
// [Ignored] leaves its voxels out. With a nil classOf the labels are the classes. classes is the
// largest class that occurs.
//
// [Compare] gives the same number with all others; this is the quick way, for a network that is
// validated while it trains.
func Dice(predicted, reference, classOf []uint16, classes int) []float64 {
	both, sum := make([]int, classes+1), make([]int, classes+1)
	for i, p := range predicted {
		r := reference[i]
		if classOf != nil {
			if r = classOf[r]; r == Ignored {
				continue
			}
		}
		sum[p]++
		sum[r]++
		if p == r {
			both[p]++
		}
	}
	dice := make([]float64, classes+1)
	for c := range dice {
		dice[c] = coefficient(both[c], sum[c], 0)
	}
	return dice
}

// leaveOut gives labels without those of voxels that the reference ignores: they become background
// in both.
func leaveOut(p, r []uint16, ignored []uint16) (prediction, reference []uint16) {
	prediction, reference = slices.Clone(p), slices.Clone(r)
	for n, label := range r {
		if slices.Contains(ignored, label) {
			prediction[n], reference[n] = 0, 0
		}
	}
	return prediction, reference
}

// region is what one walk over both arrays finds out about a label.
type region struct {
	label                      uint16
	predicted, reference, both int
	lo, hi                     [3]int // the box around both, hi excluded
	undrawn                    bool   // nobody drew it in the reference
	emptied                    bool   // other structures have all its voxels there
}

func (g *region) grow(i, j, k int) {
	if g.predicted+g.reference == 0 {
		g.lo, g.hi = [3]int{i, j, k}, [3]int{i + 1, j + 1, k + 1}
		return
	}
	g.lo[0], g.hi[0] = min(g.lo[0], i), max(g.hi[0], i+1)
	g.lo[1], g.hi[1] = min(g.lo[1], j), max(g.hi[1], j+1)
	g.hi[2] = k + 1 // k never decreases
}

// tally finds the labels asked for, or all, in one walk.
func tally(p, r []uint16, shape [3]int, labels []int) ([]region, error) {
	if len(p) != len(r) {
		return nil, errors.New("prediction and reference hold different numbers of voxels")
	}
	all := make([]region, math.MaxUint16+1)
	n := 0
	for k := range shape[2] {
		for j := range shape[1] {
			for i := range shape[0] {
				a, b := p[n], r[n]
				n++
				if a == 0 && b == 0 {
					continue
				}
				if a != 0 {
					all[a].grow(i, j, k)
					all[a].predicted++
				}
				if b != 0 {
					all[b].grow(i, j, k)
					all[b].reference++
				}
				if a == b {
					all[a].both++
				}
			}
		}
	}
	var found []region
	for l := 1; l < len(all); l++ {
		all[l].label = uint16(l)
		if slices.Contains(labels, l) || len(labels) == 0 && all[l].predicted+all[l].reference > 0 {
			found = append(found, all[l])
		}
	}
	return found, nil
}
