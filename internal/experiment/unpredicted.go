package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
)

// Warnings say which labels nobody drew in some test cases, which are not scored there, how many
// scores have no DSC, which labels runs predicted nowhere, which initialisations have other runs
// than the others, and whether runs were computed, or predictions post-processed, in unlike ways.
func (s Scored) Warnings() []string {
	all := slices.Concat(s.undrawn(), s.undefined(), s.unpredicted(), s.uneven())
	for _, note := range []string{s.unlike(), s.devices()} {
		if note != "" {
			all = append(all, note)
		}
	}
	return all
}

// devices warns of runs that unlike devices, or GPUs that multiply in unlike ways, have trained.
func (s Scored) devices() string {
	runs := map[string]int{}
	for _, r := range s.Runs {
		if r.Device != "" {
			runs[r.Device]++
		}
	}
	if len(runs) < 2 {
		return ""
	}
	var by []string
	for _, device := range slices.Sorted(maps.Keys(runs)) {
		by = append(by, fmt.Sprintf("%d by %s", runs[device], device))
	}
	return "runs were computed in unlike ways, so that differences between them are of that, too: " + table.List(by, 0)
}

// uneven says where initialisations have runs of other folds and seeds, as in a study that is not
// finished: their means are then over other patients, or other draws.
func (s Scored) uneven() (all []string) {
	type replicate struct {
		fold int
		seed uint64
	}
	runs := map[float64]map[string]map[replicate]bool{}
	for _, r := range s.Runs {
		if runs[r.Fraction] == nil {
			runs[r.Fraction] = map[string]map[replicate]bool{}
		}
		if runs[r.Fraction][r.Initialisation] == nil {
			runs[r.Fraction][r.Initialisation] = map[replicate]bool{}
		}
		runs[r.Fraction][r.Initialisation][replicate{r.Fold, r.Seed}] = true
	}
	for _, fraction := range slices.Sorted(maps.Keys(runs)) {
		var counts []string
		alike, first := true, map[replicate]bool(nil)
		for _, name := range s.Initialisations() {
			of := runs[fraction][name]
			if of == nil {
				continue
			}
			if first == nil {
				first = of
			}
			alike = alike && maps.Equal(first, of)
			counts = append(counts, fmt.Sprintf("%s %d", name, len(of)))
		}
		if !alike {
			all = append(all, fmt.Sprintf("%s of the training cases: initialisations have runs of unlike folds and "+
				"seeds (%s): the mean of each, over all labels and of a structure, is over its own runs; compare by "+
				"the differences, which are over pairs of runs", table.Percent(fraction), table.List(counts, 0)))
		}
	}
	return all
}

// undrawn says in how many test cases labels were not drawn.
func (s Scored) undrawn() []string {
	var scores []eval.Score
	seen := map[string]bool{}
	for _, run := range s.Runs {
		for _, s := range run.Scores {
			if key := fmt.Sprintf("%d %s", s.Label, s.Case); !seen[key] { // each run says the same
				seen[key] = true
				scores = append(scores, s)
			}
		}
	}
	if text := table.Undrawn(eval.ByLabel(scores)); text != "" {
		return []string{text}
	}
	return nil
}

// undefined says how many scores have no DSC though there is something to measure, or nobody knows:
// another program's table may have such, and no mean has them.
func (s Scored) undefined() []string {
	var first string
	undefined, all := 0, 0
	for _, run := range s.Runs {
		for _, s := range run.Scores {
			all++
			nothing := s.Predicted == 0 && s.Reference == 0
			if !math.IsNaN(s.DSC) || !s.Counts() || nothing {
				continue
			}
			undefined++
			first = cmp.Or(first, fmt.Sprintf("%s, fold %d, seed %d, case %s, label %d", run.Initialisation, run.Fold,
				run.Seed, s.Case, s.Label))
		}
	}
	if undefined == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the DSC is not a number in %d of %s, which are in no mean (the first: %s)", undefined,
		numbers.Count(all, "score"), first)}
}

// unpredicted says which labels runs predicted in no voxel of any test case, though references show
// them: their mean over the labels says little then.
func (s Scored) unpredicted() (all []string) {
	type label struct {
		number uint16
		name   string
	}
	var order []label
	nowhere := map[label][]string{} // the runs
	for _, run := range s.Runs {
		there, found := map[label]bool{}, map[label]bool{}
		for _, s := range run.Scores {
			l := label{s.Label, s.Name}
			there[l] = there[l] || s.Reference > 0 && !s.Unlearnt
			found[l] = found[l] || s.Predicted > 0
		}
		for l := range there {
			if !there[l] || found[l] {
				continue
			}
			if nowhere[l] == nil {
				order = append(order, l)
			}
			nowhere[l] = append(nowhere[l], fmt.Sprintf("%s (%s of the cases, fold %d, seed %d)", run.Initialisation,
				table.Percent(run.Fraction), run.Fold, run.Seed))
		}
	}
	slices.SortFunc(order, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
	})
	for _, l := range order {
		name := l.name
		if name == "" || name == strconv.Itoa(int(l.number)) {
			name = fmt.Sprintf("label %d", l.number)
		}
		all = append(all,
			fmt.Sprintf("%s was predicted in no voxel of any test case in %d of %s, though references show "+
				"it: %s. These networks have not learnt it: train longer (finetune.train.steps), with a "+
				"larger crop, or with more cases that show it",
				name, len(nowhere[l]), numbers.Count(len(s.Runs), "run"), table.List(nowhere[l], 3)))
	}
	return all
}
