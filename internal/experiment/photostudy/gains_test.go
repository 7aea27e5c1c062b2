package photostudy

import (
	"math"
	"testing"

	"github.com/voxsaw/voxsaw/puzzle2d"
)

// A gain is over the seeds that both arms have, and says how many these are.
func TestGainsPairSeeds(t *testing.T) {
	of := func(arm string, seed uint64, right ...float64) Result {
		r := Result{Arm: arm, Seed: seed, Transfer: []Measured{{}}}
		for _, x := range right {
			r.Transfer[0].Draws = append(r.Transfer[0].Draws, puzzle2d.Draw{ClassMean: x})
		}
		return r
	}
	arm := []Result{of("a", 1, 0.5, 0.75), of("a", 2, 0.75, 0.75), of("a", 3, 1, 1)}
	base := []Result{of("random", 4, 0, 0), of("random", 2, 0.5, 0.25)}
	if mean, least, seeds := gains(arm, base, 0); mean != 37.5 || least != 25 || seeds != 1 {
		t.Errorf("%v, at least %v, over %d seeds", mean, least, seeds)
	}
	row := transferRow("set", arm, base, 0)
	if row[2] != 3 || row[8] != 37.5 || row[10] != 1 {
		t.Errorf("%v", row)
	}
	if row := transferRow("set", arm, nil, 0); row[8] != nil || row[10] != nil {
		t.Errorf("a gain over nothing: %v", row)
	}
	if _, least, seeds := gains(arm, base[:1], 0); seeds != 0 || !math.IsInf(least, 1) {
		t.Errorf("%d seeds are paired that none has", seeds)
	}
}
