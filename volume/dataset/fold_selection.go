package dataset

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
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
// of their patients. With fewer than two labelled cases, it divides all cases.
func (s Selection) ChooseWith(labelled, unlabelled []string) (train, held []string, err error) {
	if err := s.checkExclude(labelled, unlabelled); err != nil {
		return nil, nil, err
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
		if train, held, err = HoldOut(ids, s.Patients, s.HoldOut, s.SubsetSeed); err != nil {
			return nil, nil, err
		}
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
	ids, _ := s.divided(labelled, unlabelled)
	splits, err := s.AllFolds(ids)
	if err != nil || s.Fold > len(splits) {
		return nil, err
	}
	return splits[s.Fold-1].LeftOut(ids), nil
}

// AllFolds lists the folds: those of the file, or those that the scheme makes.
func (s Selection) AllFolds(ids []string) ([]Split, error) {
	if s.Splits != "" {
		return ReadSplits(s.Splits, ids)
	}
	return Folds(s.FoldScheme, ids, s.Patients, s.Folds, s.SubsetSeed)
}
