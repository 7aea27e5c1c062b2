package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// Split says which cases a fold trains on and which it is tested on. A list of them is nnU-Net's
// splits_final.json.
type Split struct {
	Train []string `json:"train"`
	Val   []string `json:"val"`
}

// LeftOut lists those of the cases that the fold neither trains nor is tested on.
func (s Split) LeftOut(ids []string) []string {
	named := map[string]bool{}
	for _, id := range slices.Concat(s.Train, s.Val) {
		named[id] = true
	}
	return slices.DeleteFunc(sorted(ids), func(id string) bool { return named[id] })
}

// How [Folds] divides cases.
const (
	FoldsConsecutive = "consecutive"
	FoldsShuffled    = "shuffled"
	FoldsNIH         = "nih"
)

// nihFolds are the last case numbers of the four folds that OrganSegRSTN published for NIH
// Pancreas-CT: 1-20, 21-40, 41-61, 62-82. They stay where they are when the repeated patients 25
// and 70 are left out.
var nihFolds = []int{20, 40, 61, 82}

// Folds divides cases into k folds, each tested on once. Consecutive and shuffled folds divide
// patients: the cases of one are in one fold. How is one of
//
//   - consecutive: in the order of the numbers in their names; where k does not divide them, the
//     last folds have one more, as 20, 20, 21, 21 of 82
//   - shuffled: the same after an order drawn from the seed
//   - nih: by case number 1-20, 21-40, 41-61, 62-82; k must be 4
func Folds(how string, ids []string, patients Patients, k int, number uint64) ([]Split, error) {
	ids = sorted(ids)
	groups := patients.groups(ids)
	switch {
	case k < 2 || k > len(ids):
		return nil, fmt.Errorf("%d folds of %s: there must be at least 2 folds and a case in each", k,
			numbers.Count(len(ids), "case"))
	case k > len(groups) && how != FoldsNIH:
		return nil, fmt.Errorf("%d folds of %s, of %s: there must be a patient in each; voxsaw prepare "+
			"--patient-per-case takes each case for another patient", k, numbers.Count(len(ids),
			"case"), numbers.Count(len(groups), "patient"))
	}
	if same := len(slices.Compact(slices.Clone(ids))); same != len(ids) {
		return nil, fmt.Errorf("%d cases have the same name as another", len(ids)-same)
	}
	fold := map[string]int{} // of each case
	switch how {
	case FoldsConsecutive, FoldsShuffled:
		order := make([]int, len(groups))
		for n := range order {
			order[n] = n
		}
		if how == FoldsShuffled {
			order = seed.Rand(number, "folds").Perm(len(groups))
		}
		// every fold has small patients, the last ones, larger of them, one more
		small, larger := len(groups)/k, len(groups)%k
		at := 0
		for f := range k {
			size := small
			if f >= k-larger {
				size++
			}
			for range size {
				for _, id := range groups[order[at]] {
					fold[id] = f
				}
				at++
			}
		}
	case FoldsNIH:
		if k != len(nihFolds) {
			return nil, fmt.Errorf("the published folds of NIH Pancreas-CT are %d, not %d", len(nihFolds), k)
		}
		for _, id := range ids {
			number, ok := Number(id)
			if !ok || number < 1 || number > nihFolds[len(nihFolds)-1] {
				return nil, fmt.Errorf("case %s is not one of NIH Pancreas-CT, whose names end in 1 "+
					"to 82: use consecutive or shuffled folds", id)
			}
			fold[id], _ = slices.BinarySearch(nihFolds, number)
		}
		for f := range nihFolds {
			if !slices.ContainsFunc(ids, func(id string) bool { return fold[id] == f }) {
				return nil,
					fmt.Errorf("no case here is one of fold %d of NIH Pancreas-CT, whose published folds are its "+
						"cases 1-20, 21-40, 41-61 and 62-82: use consecutive or shuffled folds", f+1)
			}
		}
	default:
		return nil, fmt.Errorf("folds %q: must be consecutive, shuffled or nih", how)
	}
	splits := make([]Split, k)
	for _, id := range ids {
		for f := range splits {
			if f == fold[id] {
				splits[f].Val = append(splits[f].Val, id)
			} else {
				splits[f].Train = append(splits[f].Train, id)
			}
		}
	}
	return splits, nil
}

// Nested draws subsets of the cases, one a fraction, such that each lies in every larger one. Their
// sizes are the fractions of the cases, rounded, at least one: 6, 12 and 62 of 62 for 0.1, 0.2 and
// 1. Names come in the order of their numbers.
func Nested(ids []string, fractions []float64, number uint64) ([][]string, error) {
	ids = sorted(ids)
	if len(ids) == 0 {
		return nil, errors.New("a subset of no cases")
	}
	order := seed.Rand(number, "subset").Perm(len(ids))
	subsets := make([][]string, len(fractions))
	for n, fraction := range fractions {
		if !(fraction > 0 && fraction <= 1) {
			return nil, fmt.Errorf("fraction %g of the cases: must be above 0 and at most 1", fraction)
		}
		size := max(1, int(math.Round(fraction*float64(len(ids)))))
		chosen := slices.Clone(order[:size])
		slices.Sort(chosen)
		for _, at := range chosen {
			subsets[n] = append(subsets[n], ids[at])
		}
	}
	return subsets, nil
}

// HoldOut draws the patients to validate on: the share, rounded, at least one, and never all.
func HoldOut(ids []string, patients Patients, share float64, number uint64) (rest, held []string, err error) {
	ids = sorted(ids)
	groups := patients.groups(ids)
	if !(share > 0 && share < 1) {
		return nil, nil, fmt.Errorf("holding out %g of the cases: must be above 0 and below 1", share)
	}
	if len(ids) < 2 {
		return nil, nil, fmt.Errorf("cannot hold out one of %s", numbers.Count(len(ids), "case"))
	}
	if len(groups) < 2 {
		return nil, nil, fmt.Errorf("cannot hold out one of %s, all of one patient: voxsaw prepare "+
			"--patient-per-case takes each case for another patient", numbers.Count(len(ids), "case"))
	}
	size := min(max(1, int(math.Round(share*float64(len(groups))))), len(groups)-1)
	taken := map[string]bool{}
	for _, at := range seed.Rand(number, "hold-out").Perm(len(groups))[:size] {
		for _, id := range groups[at] {
			taken[id] = true
		}
	}
	held, rest = divide(ids, taken)
	return rest, held, nil
}

// divide tells the cases that are in a set from the others.
func divide(ids []string, set map[string]bool) (in, out []string) {
	for _, id := range ids {
		if set[id] {
			in = append(in, id)
		} else {
			out = append(out, id)
		}
	}
	return in, out
}

// ReadSplits reads nnU-Net's splits_final.json. Every case must be among ids, and none may train
// and validate the same fold.
func ReadSplits(path string, ids []string) ([]Split, error) {
	data, err := smallfile.ReadGiven(path, smallfile.List)
	if err != nil {
		return nil, fmt.Errorf("reading folds: %w", err)
	}
	var splits []Split
	if err := explainJSON(data, json.Unmarshal(data, &splits)); err != nil {
		return nil, fmt.Errorf("reading folds from %s: a list of {\"train\": [...], \"val\": [...]} is needed: %w",
			path, err)
	}
	if len(splits) == 0 {
		return nil, fmt.Errorf("reading folds from %s: there are none", path)
	}
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = true
	}
	for f, s := range splits {
		if len(s.Train) == 0 || len(s.Val) == 0 {
			return nil, fmt.Errorf("reading folds from %s: fold %d has %s to train on and %d to validate", path, f+1,
				numbers.Count(len(s.Train), "case"), len(s.Val))
		}
		seen := map[string]bool{}
		for _, id := range slices.Concat(s.Train, s.Val) {
			switch {
			case !known[id]:
				return nil, fmt.Errorf("reading folds from %s: fold %d names case %s, which is not in the data set",
					path, f+1, id)
			case seen[id]:
				return nil, fmt.Errorf("reading folds from %s: fold %d names case %s twice", path, f+1, id)
			}
			seen[id] = true
		}
	}
	return splits, nil
}

// WriteSplits writes folds as nnU-Net's splits_final.json.
func WriteSplits(path string, splits []Split) error {
	data, err := json.MarshalIndent(splits, "", "    ")
	if err != nil {
		return err
	}
	return atomicfile.Keep(path, append(safetext.JSON(data), '\n'))
}

func sorted(ids []string) []string {
	return slices.SortedFunc(slices.Values(ids), numbers.CompareNatural)
}
