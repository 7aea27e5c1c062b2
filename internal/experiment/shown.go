package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: which labels the training cases of a fold show. One that none of them shows cannot be
// learnt: that is said before anything is trained, and its scores are in no mean.

// ShownLabel is in how many cases a label is shown, by fold.
type ShownLabel struct {
	Label string      `json:"label"` // as the plan has it: 2, or 4+5
	Name  string      `json:"name,omitempty"`
	Folds []ShownFold `json:"folds"`
}

// ShownFold is in how many of a fold's cases a label is shown.
type ShownFold struct {
	Fold  int `json:"fold"`
	Train int `json:"train"` // of all training cases
	Test  int `json:"test"`
	// Fractions is in how many training cases of each fraction, or of each fraction and seed.
	Fractions map[string]int `json:"fractions"`
}

// shown counts the cases that show each label. The settings of fine-tuning are resolved.
func (p Plan) shown(c Cases, store *prepared.Store) []ShownLabel {
	all := make([]ShownLabel, len(p.Finetune.Labels))
	for n, label := range p.Finetune.Labels {
		all[n].Label = label
		if n < len(p.Finetune.Names) && p.Finetune.Names[n] != label {
			all[n].Name = p.Finetune.Names[n]
		}
	}
	for _, f := range c.Folds {
		train, test := p.Finetune.ShownIn(store, f.Train), p.Finetune.ShownIn(store, f.Test)
		for n := range all {
			all[n].Folds = append(all[n].Folds, ShownFold{Fold: f.Fold, Train: train[n], Test: test[n],
				Fractions: map[string]int{}})
		}
		for fraction, cases := range f.Fractions {
			for n, count := range p.Finetune.ShownIn(store, cases) {
				all[n].Folds[len(all[n].Folds)-1].Fractions[fraction] = count
			}
		}
	}
	return all
}

// unlearntDoubts says which labels no training case of a fold shows, or of a part of it.
func unlearntDoubts(labels []ShownLabel) (doubts []string) {
	for _, l := range labels {
		name := l.Name
		if name == "" {
			name = "label " + l.Label
		}
		var where []string
		for _, f := range l.Folds {
			if f.Train == 0 {
				where = append(where, fmt.Sprintf("fold %d (%s)", f.Fold,
					numbers.Count(f.Test, "test case that shows it", "test cases that show it")))
				continue
			}
			var parts []string
			for fraction, count := range f.Fractions {
				if count == 0 {
					parts = append(parts, fraction)
				}
			}
			slices.Sort(parts)
			for _, part := range parts {
				where = append(where, fmt.Sprintf("fraction %s of fold %d", part, f.Fold))
			}
		}
		if len(where) > 0 {
			doubts = append(doubts,
				fmt.Sprintf("WARNING: no training case shows %s in %s: networks cannot learn it "+
					"there, and its scores are in no mean of such a run. Divide the cases "+
					"otherwise, or leave it out (finetune.labels)",
					safetext.Text(name), table.List(where, 10)))
		}
	}
	return doubts
}

// markUnlearnt marks the scores of labels that the trial's training cases do not show. Labels that
// are scored as one have a number of their own, and are unlearnt where none of them is shown.
func (r *runner) markUnlearnt(t Trial, scores []eval.Score) []eval.Score {
	labels := r.plan.Finetune.Unlearnt(r.store, t.Train)
	if len(labels) == 0 {
		return scores
	}
	whole := r.plan.Metrics.Merge && noneLearnt(r.plan.Metrics.Labels, len(r.plan.Finetune.Labels),
		r.store.LabelNames(), labels)
	marked := slices.Clone(scores)
	for n, s := range marked {
		marked[n].Unlearnt = whole || !r.plan.Metrics.Merge && slices.Contains(labels, s.Label)
	}
	return marked
}

// noneLearnt says whether the network was shown none of the labels that are scored as one: the
// parts that are wanted, or all of its classes.
func noneLearnt(parts []string, classes int, names map[uint16]string, unlearnt []uint16) bool {
	known := &volume.LabelMap{Names: names}
	for _, part := range parts {
		if label, err := eval.Find(part, known, known); err != nil || !slices.Contains(unlearnt, label) {
			return false
		}
	}
	return len(parts) > 0 || len(unlearnt) == classes
}

// unlearntNotes say below the table of structures which runs a label's row leaves out.
func unlearntNotes(runs []eval.Trial) (notes []string) {
	type label struct {
		number uint16
		name   string
	}
	var order []label
	where := map[label][]string{}
	for _, run := range runs {
		seen := map[label]bool{}
		for _, s := range run.Scores {
			l := label{s.Label, s.Name}
			if !s.Unlearnt || seen[l] {
				continue
			}
			seen[l] = true
			if where[l] == nil {
				order = append(order, l)
			}
			if in := fmt.Sprintf("fold %d, seed %d", run.Fold, run.Seed); !slices.Contains(where[l], in) {
				where[l] = append(where[l], in)
			}
		}
	}
	slices.SortFunc(order, func(a, b label) int { return int(a.number) - int(b.number) })
	for _, l := range order {
		name := l.name
		if strings.TrimSpace(name) == "" {
			name = fmt.Sprintf("label %d", l.number)
		}
		notes = append(notes, fmt.Sprintf("* %s: without the runs of %s, whose training cases do not show it.",
			safetext.Text(name), table.List(where[l], 10)))
	}
	return notes
}
