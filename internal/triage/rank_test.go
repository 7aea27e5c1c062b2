package triage

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/quality"
)

// Of a structure that the mean of the networks lacks and one of them draws, the agreement counts,
// and once where the others have it, too.
func TestAgreementOnWhatIsMissing(t *testing.T) {
	one, two := quality.Structure{Label: 1, Volume: 5}, quality.Structure{Label: 2, Volume: 5}
	lacking := quality.Case{ID: "a", Structures: []quality.Structure{one}, Absent: []quality.Structure{two},
		Agreement: map[uint16]float64{1: 0.8, 2: 0}}
	cases := []quality.Case{lacking}
	for range 2 { // the first time no other case has it; then twenty do
		r := &Ranking{set: quality.NewSet(cases)}
		if got := r.ranked(lacking).Agreement; got != 0.4 {
			t.Errorf("among %d cases: agreement %v", len(cases), got)
		}
		for range 20 {
			cases = append(cases, quality.Case{ID: "b", Structures: []quality.Structure{one, two}})
		}
	}
	neither := lacking
	neither.Agreement = map[uint16]float64{1: 0.8} // no network draws it
	r := &Ranking{set: quality.NewSet([]quality.Case{neither})}
	if got := r.ranked(neither).Agreement; got != 0.8 {
		t.Errorf("of what no network draws: agreement %v", got)
	}
}
