package dataset

import (
	"fmt"
	"slices"
	"testing"
)

func names(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("case_%02d", i+1))
	}
	return ids
}

// The protocol of the paper: 82 cases, fold 1 tests on 20, 10 % of the other 62 are 6 and lie within the 12 of 20 %.
func TestSelectionFollowsThePaper(t *testing.T) {
	s := DefaultSelection()
	s.Fold = 1
	var smaller []string
	for _, c := range []struct {
		fraction float64
		want     int
	}{{0.1, 6}, {0.2, 12}, {1, 62}} {
		s.Fraction = c.fraction
		train, held, err := s.Choose(names(82))
		if err != nil {
			t.Fatal(err)
		}
		if len(train) != c.want || len(held) != 20 {
			t.Errorf("fraction %g: %d training and %d held-out cases, want %d and 20", c.fraction, len(train), len(held), c.want)
		}
		for _, id := range smaller {
			if !slices.Contains(train, id) {
				t.Errorf("fraction %g lacks %s of the smaller one", c.fraction, id)
			}
		}
		for _, id := range held {
			if slices.Contains(train, id) {
				t.Errorf("%s is trained and tested on", id)
			}
		}
		smaller = train
	}
}

func TestSelectionRefuses(t *testing.T) {
	for name, change := range map[string]func(*Selection){
		"a fold that is not there":   func(s *Selection) { s.Fold = 5 },
		"a negative fold":            func(s *Selection) { s.Fold = -1 },
		"a share above one":          func(s *Selection) { s.HoldOut = 1.5 },
		"no fraction":                func(s *Selection) { s.Fraction = 0 },
		"a case that is not there":   func(s *Selection) { s.Exclude = []string{"case_99"} },
		"an unknown scheme of folds": func(s *Selection) { s.Fold, s.FoldScheme = 1, "random" },
	} {
		s := DefaultSelection()
		change(&s)
		if _, _, err := s.Choose(names(20)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
