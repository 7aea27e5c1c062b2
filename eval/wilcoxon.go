package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// The largest numbers of pairs for which Wilcoxon's P is exact, as in scipy.
const (
	exactPairs     = 50 // where no difference is zero and none equals another in size
	exactPairsTied = 13 // otherwise
)

// Wilcoxon is the two-sided signed-rank test of paired values, as scipy.stats.wilcoxon has it since
// version 1.15. Pairs without a difference are left out of the ranks, and differences of the same
// size share their mean rank. P is exact for up to 50 pairs, or up to 13 where there are zeros or
// ties among the differences; all pairs count here, those without a difference too. Otherwise P is
// the normal approximation, corrected for ties but not for continuity.
//
// Pairs with a value that is not finite are left out. P is NaN where no pair is left, and 1 where
// no pair differs.
func Wilcoxon(a, b []float64) (Test, error) {
	if len(a) != len(b) {
		return Test{}, fmt.Errorf("a paired test needs as many values on both sides, not %d and %d", len(a), len(b))
	}
	var d []float64
	zeros := 0
	for n := range a {
		switch x := a[n] - b[n]; {
		case !numbers.Finite(x):
		case x == 0:
			zeros++
		default:
			d = append(d, x)
		}
	}
	if len(d) == 0 {
		t := Test{P: math.NaN()}
		if zeros > 0 {
			t.P, t.Exact = 1, true
		}
		return t, nil
	}
	r := rankSigned(d)
	t := Test{Statistic: float64(min(r.plus, r.minus)) / 2, Pairs: len(d)}
	most := exactPairs
	if zeros > 0 || r.ties > 0 {
		most = exactPairsTied
	}
	if t.Exact = len(d)+zeros <= most; t.Exact {
		t.P = min(1, 2*signedRankBelow(r.ranks, min(r.plus, r.minus)))
		return t, nil
	}
	n := float64(len(d))
	variance := (n*(n+1)*(2*n+1) - r.ties/2) / 24
	z := (t.Statistic - n*(n+1)/4) / math.Sqrt(variance)
	t.P = math.Erfc(math.Abs(z) / math.Sqrt2)
	return t, nil
}

// signedRanks are the ranks of differences by their size. Ranks are doubled, so that the mean of
// two ranks is a whole number, too.
type signedRanks struct {
	ranks       []int
	plus, minus int     // sums of the ranks of positive and of negative differences
	ties        float64 // sum of t^3 - t over groups of t differences of the same size
}

// rankSigned ranks differences, none of which is zero. It sorts them.
func rankSigned(d []float64) signedRanks {
	slices.SortFunc(d, func(x, y float64) int { return cmp.Compare(math.Abs(x), math.Abs(y)) })
	var r signedRanks
	for start := 0; start < len(d); {
		end := start
		for end < len(d) && math.Abs(d[end]) == math.Abs(d[start]) {
			end++
		}
		rank := start + 1 + end // twice the mean of start+1 .. end
		for _, x := range d[start:end] {
			r.ranks = append(r.ranks, rank)
			if x > 0 {
				r.plus += rank
			} else {
				r.minus += rank
			}
		}
		t := float64(end - start)
		r.ties += t * (t*t - 1)
		start = end
	}
	return r
}

// signedRankBelow is the probability that the sum of the positive ranks is at most w when every
// sign is a fair coin. It counts the ways to get each sum, rank by rank.
func signedRankBelow(ranks []int, w int) float64 {
	total := 0
	for _, rank := range ranks {
		total += rank
	}
	ways := make([]float64, total+1) // exact in a float64 for up to 53 ranks
	ways[0] = 1
	for _, rank := range ranks {
		for s := total; s >= rank; s-- {
			ways[s] += ways[s-rank]
		}
	}
	return sum(ways[:w+1]) / math.Pow(2, float64(len(ranks)))
}
