package dataset

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Selection says which cases a run trains on and which it holds out. Pretraining and fine-tuning
// use the same selection, and both divide the labelled cases, so that both hold out the same cases:
// see [Selection.ChooseWith].
type Selection struct {
	// fold to hold out, 1 for the first (nnU-Net counts from 0); left out: hold out a share of the
	// patients
	Fold int `yaml:"fold"`
	// number of folds
	Folds int `yaml:"folds" range:"[2,)"`
	// how cases are divided into folds
	FoldScheme string `yaml:"fold_scheme" oneof:"consecutive shuffled nih"`
	// file of folds in nnU-Net's format (splits_final.json) instead
	Splits string `yaml:"splits"`
	// share of the patients to validate on, where no fold is held out; 0: none
	HoldOut float64 `yaml:"hold_out" range:"[0,1)"`
	// share of the training cases to use; smaller shares are parts of larger ones
	Fraction float64 `yaml:"fraction" range:"(0,1]"`
	// seed of shuffled folds, of the cases held out and of the subsets
	SubsetSeed uint64 `yaml:"subset_seed"`
	// cases to leave out altogether, with labels or without
	Exclude  []string `yaml:"exclude"`
	Patients Patients `yaml:"-"` // of the cases
	// cases whose labels are what a network predicted: they are trained on and never held out
	Predicted []string `yaml:"-"`
}

// Of is the selection for the cases of a store: with their patients, and with those among them
// whose labels are predicted.
func (s Selection) Of(store *prepared.Store) Selection {
	s.Patients, s.Predicted = PatientsOf(store.Records()), store.Predicted()
	return s
}

// DefaultSelection trains on 90 % of the cases and holds out the rest.
func DefaultSelection() Selection {
	return Selection{Folds: 4, FoldScheme: FoldsConsecutive, HoldOut: 0.1, Fraction: 1, SubsetSeed: 1}
}

// Choose divides cases; others of the data set may be among those to leave out. The result depends
// on the names, the patients and the selection alone.
func (s Selection) Choose(ids []string, others ...string) (train, held []string, err error) {
	if err := s.checkExclude(ids, others); err != nil {
		return nil, nil, err
	}
	return s.choose(ids, nil)
}

// WithoutLabels is [Patients.WithoutLabels] but for the cases to leave out.
func (s Selection) WithoutLabels(scans, labelled, held []string) []string {
	return s.Patients.WithoutLabels(scans, slices.Concat(labelled, s.Exclude), held)
}

func (s Selection) checkExclude(labelled, unlabelled []string) error {
	for _, id := range s.Exclude {
		if !slices.Contains(labelled, id) && !slices.Contains(unlabelled, id) {
			return fmt.Errorf("case %s is to be left out, but is not in the data set", id)
		}
	}
	return nil
}

// ChooseWith divides labelled cases and adds unlabelled ones to those to train on, for training
// that needs no labels. It holds out the same labelled cases as Choose, and drops unlabelled scans
// of their patients. With fewer than two labelled cases, predicted ones not counted, it divides all
// cases.
func (s Selection) ChooseWith(labelled, unlabelled []string) (train, held []string, err error) {
	if err := s.checkExclude(labelled, unlabelled); err != nil {
		return nil, nil, err
	}
	ids, _ := s.divided(labelled, nil)
	if drawn, predicted := s.drawn(ids); len(predicted) > 0 && len(drawn) < 2 {
		s.Predicted = nil // labels decide about nothing
		return s.choose(nil, slices.Concat(labelled, unlabelled))
	}
	return s.choose(labelled, unlabelled)
}

func (s Selection) choose(labelled, unlabelled []string) (train, held []string, err error) {
	ids, more := s.divided(labelled, unlabelled)
	switch {
	case s.Splits != "" && s.Fold == 0:
		return nil, nil, fmt.Errorf("%s says how cases are divided, but not which fold is held "+
			"out: name it, 1 for the first (--fold 1)", s.Splits)
	case s.Fold != 0:
		splits, err := s.AllFolds(ids)
		if err != nil {
			return nil, nil, err
		}
		if s.Fold < 0 || s.Fold > len(splits) {
			return nil, nil, fmt.Errorf("there is no fold %d: %s, numbered from 1", s.Fold,
				numbers.Count(len(splits), "fold"))
		}
		train, held = splits[s.Fold-1].Train, splits[s.Fold-1].Val
	case s.HoldOut == 0:
		train = sorted(ids)
	default:
		drawn, predicted := s.drawn(ids)
		if train, held, err = HoldOut(drawn, s.Patients, s.HoldOut, s.SubsetSeed); err != nil {
			return nil, nil, withPredicted(err, predicted, "--hold-out 0 holds none out; ")
		}
		train = s.trainedOn(train, held, predicted)
	}
	torn := map[string]bool{}
	for _, id := range s.Patients.Torn(held, more) {
		torn[id] = true
	}
	more = slices.DeleteFunc(more, func(id string) bool { return torn[id] })
	if len(more) > 0 {
		train = sorted(append(slices.Clone(train), more...))
	}
	if s.Fraction == 1 {
		return train, held, nil
	}
	subsets, err := Nested(train, []float64{s.Fraction}, s.SubsetSeed)
	if err != nil {
		return nil, nil, err
	}
	return subsets[0], held, nil
}

// divided tells which cases are divided into training and held-out ones, and which are all trained
// on: the labelled ones and the others, or all and none.
func (s Selection) divided(labelled, unlabelled []string) (ids, more []string) {
	excluded := map[string]bool{}
	for _, id := range s.Exclude {
		excluded[id] = true
	}
	left := func(ids []string) []string {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return excluded[id] })
	}
	if ids, more = left(labelled), left(unlabelled); len(ids) < 2 {
		return append(ids, more...), nil
	}
	return ids, more
}

// LeftOut lists the cases that the file of folds names neither to train on nor to validate on in
// the fold that is held out. Cases that the user leaves out are none of them.
func (s Selection) LeftOut(labelled, unlabelled []string) ([]string, error) {
	if s.Splits == "" || s.Fold < 1 {
		return nil, nil
	}
	s.Predicted = nil
	ids, _ := s.divided(labelled, unlabelled)
	splits, err := s.AllFolds(ids)
	if err != nil || s.Fold > len(splits) {
		return nil, err
	}
	return splits[s.Fold-1].LeftOut(ids), nil
}

// AllFolds lists the folds: those of the file, or those that the scheme makes. Cases whose labels
// are predicted are tested on in none: the scheme makes folds of the others, and a file that tests
// on one is refused.
func (s Selection) AllFolds(ids []string) ([]Split, error) {
	drawn, predicted := s.drawn(ids)
	if s.Splits != "" {
		splits, err := ReadSplits(s.Splits, ids)
		for n, split := range splits {
			if _, held := s.drawn(split.Val); len(held) > 0 {
				return nil, fmt.Errorf("reading folds from %s: fold %d validates on what voxsaw predicted, which "+
					"nobody drew: %s. Leave these cases to training; or, once somebody has corrected their labels, "+
					"voxsaw prepare --labels-corrected", s.Splits, n+1, safetext.List(held))
			}
		}
		return splits, err
	}
	splits, err := Folds(s.FoldScheme, drawn, s.Patients, s.Folds, s.SubsetSeed)
	if err != nil {
		return nil, withPredicted(err, predicted, "")
	}
	for n, split := range splits {
		splits[n].Train = s.trainedOn(split.Train, split.Val, predicted)
	}
	return splits, nil
}

// drawn tells the cases whose labels somebody drew from those whose labels are predicted.
func (s Selection) drawn(ids []string) (drawn, predicted []string) {
	if len(s.Predicted) == 0 {
		return ids, nil
	}
	is := map[string]bool{}
	for _, id := range s.Predicted {
		is[id] = true
	}
	predicted, drawn = divide(ids, is)
	return drawn, predicted
}

// trainedOn adds to training cases those with predicted labels, but for other scans of patients who
// are held out.
func (s Selection) trainedOn(train, held, predicted []string) []string {
	if len(predicted) == 0 {
		return train
	}
	torn := s.Patients.Torn(held, predicted)
	return sorted(append(slices.Clone(train), slices.DeleteFunc(slices.Clone(predicted), func(id string) bool {
		return slices.Contains(torn, id)
	})...))
}

// NotePredicted says which of the cases are held out in no fold because their labels are predicted;
// "" where none is.
func (s Selection) NotePredicted(ids []string) string {
	_, predicted := s.drawn(ids)
	if len(predicted) == 0 {
		return ""
	}
	return fmt.Sprintf("the labels of %s are predictions of voxsaw, which nobody drew: networks learn from them, and "+
		"none of these cases is held out: %s", numbers.Count(len(predicted), "case"), safetext.List(predicted))
}

// withPredicted adds to an error of too few cases that others have predicted labels.
func withPredicted(err error, predicted []string, instead string) error {
	if len(predicted) == 0 {
		return err
	}
	return fmt.Errorf("%w; the labels of %s more are predictions of voxsaw, which networks learn from and which "+
		"are never held out: %sonce somebody has corrected them, voxsaw prepare --labels-corrected takes them like "+
		"any others", err, numbers.Count(len(predicted), "case"), instead)
}
