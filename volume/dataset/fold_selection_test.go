package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func names(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("case_%02d", i+1))
	}
	return ids
}

// The protocol of the paper: 82 cases, fold 1 tests on 20, 10 % of the other 62 are 6 and lie
// within the 12 of 20 %.
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
			t.Errorf("fraction %g: %d training and %d held-out cases, want %d and 20", c.fraction, len(train),
				len(held), c.want)
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

// The same selection holds out the same cases with unlabelled ones beside them, whatever their
// names, and trains on no case of these.
func TestUnlabelledCasesDoNotMoveTheHeldOut(t *testing.T) {
	labelled, unlabelled := names(20), []string{"a", "case_03b", "z"}
	for name, change := range map[string]func(*Selection){
		"a fold":            func(s *Selection) { s.Fold = 2 },
		"a shuffled fold":   func(s *Selection) { s.Fold, s.FoldScheme = 2, FoldsShuffled },
		"a share":           func(s *Selection) { s.HoldOut = 0.3 },
		"a case left out":   func(s *Selection) { s.Fold, s.Exclude = 1, []string{"case_03"} },
		"a training subset": func(s *Selection) { s.Fold, s.Fraction = 1, 0.5 },
	} {
		s := DefaultSelection()
		change(&s)
		_, want, err := s.Choose(labelled)
		if err != nil {
			t.Fatal(err)
		}
		train, held, err := s.ChooseWith(labelled, unlabelled)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(held, want) {
			t.Errorf("%s: %v held out, without the unlabelled cases %v", name, held, want)
		}
		if all := int(s.Fraction * float64(len(labelled)+len(unlabelled)-len(held)-len(s.Exclude))); len(train) != all {
			t.Errorf("%s: trains on %d cases, want %d", name, len(train), all)
		}
		if slices.ContainsFunc(held, func(id string) bool { return slices.Contains(train, id) }) {
			t.Errorf("%s: trains on held-out cases", name)
		}
	}
	s := DefaultSelection()
	s.Exclude = []string{"z"}
	if _, _, err := s.ChooseWith(names(1), names(20)[1:]); err == nil {
		t.Error("left out a case that is not there")
	}
	s.Exclude = nil
	if train, held, err := s.ChooseWith(names(1), names(20)[1:]); err != nil || len(train) != 18 || len(held) != 2 {
		t.Errorf("with one labelled case: %d to train on, %d held out, error %v; want all 20 divided", len(train),
			len(held), err)
	}
}

// A scan without labels may be left out of what is learnt from beside labelled cases.
func TestUnlabelledScansAreLeftOut(t *testing.T) {
	labelled, unlabelled := names(20), []string{"a", "b", "c", "z"}
	s := DefaultSelection()
	s.Fold = 1
	train, held, err := s.Choose(labelled)
	if err != nil {
		t.Fatal(err)
	}
	s.Exclude = []string{"b"}
	s.Patients = Patients{held[0]: "one", "c": "one"}
	withoutB, heldB, err := s.Choose(labelled, unlabelled...)
	if err != nil || !slices.Equal(withoutB, train) || !slices.Equal(heldB, held) {
		t.Errorf("%v and %v, %v", withoutB, heldB, err)
	}
	if scans := s.WithoutLabels(unlabelled, withoutB, heldB); !slices.Equal(scans, []string{"a", "z"}) {
		t.Errorf("%v", scans)
	}
	s.Exclude = []string{"y"}
	if _, _, err := s.Choose(labelled, unlabelled...); err == nil {
		t.Error("left out a case that is not there")
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
	s := DefaultSelection()
	s.Fold = 5
	if _, _, err := s.Choose(names(20)); err == nil || err.Error() != "there is no fold 5: 4 folds, numbered from 1" {
		t.Error(err)
	}
}

// Cases with predicted labels are trained on and never held out, whatever divides the others, who
// are divided as if there were no such cases; other scans of held-out patients are left out.
func TestPredictedLabelsAreNeverHeldOut(t *testing.T) {
	drawn, predicted := names(8), []string{"case_03b", "guess_1", "guess_2"}
	for name, change := range map[string]func(*Selection){
		"a fold":          func(s *Selection) { s.Fold = 1 },
		"another":         func(s *Selection) { s.Fold = 2 },
		"a shuffled fold": func(s *Selection) { s.Fold, s.FoldScheme = 2, FoldsShuffled },
		"a share":         func(s *Selection) { s.HoldOut = 0.5 },
	} {
		s := DefaultSelection()
		s.Patients = Patients{"case_03": "p", "case_03b": "p"}
		change(&s)
		train, held, err := s.Choose(drawn)
		if err != nil {
			t.Fatal(err)
		}
		s.Predicted = predicted
		more, same, err := s.Choose(slices.Concat(predicted, drawn))
		if err != nil || !slices.Equal(same, held) {
			t.Errorf("%s: held out %v, was %v, %v", name, same, held, err)
		}
		want := slices.Concat(train, predicted[1:])
		if !slices.Contains(held, "case_03") {
			want = append(want, "case_03b")
		}
		if !slices.Equal(more, sorted(want)) {
			t.Errorf("%s: trains on %v, not %v", name, more, sorted(want))
		}
		if _, same, err := s.ChooseWith(slices.Concat(predicted, drawn), []string{"plain"}); err != nil ||
			!slices.Equal(same, held) {
			t.Errorf("%s: pretraining holds out %v, not %v, %v", name, same, held, err)
		}
	}

	s := DefaultSelection()
	s.Predicted = predicted
	if note := s.NotePredicted(names(3)); note != "" {
		t.Error(note)
	}
	_, _, err := s.Choose(append(names(1), predicted...))
	if err == nil || !strings.Contains(err.Error(), "3 cases more are predictions") ||
		!strings.Contains(err.Error(), "--hold-out 0") {
		t.Error(err)
	}
	// of which a pretraining sees the scans alone
	if train, held, err := s.ChooseWith(predicted, nil); err != nil || len(train) != 2 || len(held) != 1 {
		t.Errorf("pretrains on %v, holds out %v, %v", train, held, err)
	}
	s.HoldOut = 0
	if train, held, err := s.Choose(append(names(1), predicted...)); err != nil || len(train) != 4 || held != nil {
		t.Errorf("trains on %v, holds out %v, %v", train, held, err)
	}

	s.Fold, s.Splits = 1, filepath.Join(t.TempDir(), "splits.json")
	for text, want := range map[string]string{
		`[{"train": ["case_01", "guess_1"], "val": ["case_02"]}]`:                                  "",
		`[{"train": ["case_01"], "val": ["case_02", "guess_1"]}]`:                                  "fold 1 validates on",
		`[{"train": ["case_01"], "val": ["case_02"]}, {"train": ["case_02"], "val": ["guess_2"]}]`: "guess_2",
	} {
		if err := os.WriteFile(s.Splits, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		train, held, err := s.Choose(append(names(2), predicted...))
		if want == "" && (err != nil || !slices.Equal(train, []string{"case_01", "guess_1"}) || len(held) != 1) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: trains on %v, holds out %v, %v", text, train, held, err)
		}
	}
}
