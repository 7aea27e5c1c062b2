package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/segment"
)

// This file: the post-processing of predictions. A plan states it, the same for all arms; what was
// applied to the predictions of each run is printed with the scores.

// settled is the plan with its post-processing decided: as it says, or as the experiment in its
// folder was begun (nil: none was), or all components are kept.
func (p Plan) settled(before *Plan) (_ Plan, err error) {
	if p.Inference, err = p.Inference.Named(); err != nil {
		return p, fmt.Errorf("inference: %w", err)
	}
	components := &p.Inference.Components
	switch {
	case *components == "" && before != nil:
		*components = before.Inference.Components
	case *components == "":
		*components = segment.ComponentsAll
	}
	if *components != segment.ComponentsAll && *components != segment.ComponentsLargest {
		return p, fmt.Errorf("inference.components: %s needs validation cases, and a plan has none: the cases "+
			"of learning curves measure and decide nothing. Choose all or largest, for all arms alike", *components)
	}
	return p, nil
}

// trialRecord is what decides a trial's result, as its run records it.
type trialRecord struct {
	segment.Config `yaml:",inline"`
	Init           string `yaml:"init"`
	// of a checkpoint that the plan names
	InitDigest    string            `yaml:"init_digest,omitempty"`
	Cases         []string          `yaml:"cases,flow"`
	Curve         []string          `yaml:"curve,flow,omitempty"`
	WithoutLabels []string          `yaml:"without_labels,flow,omitempty"`
	Test          []string          `yaml:"test,flow"`
	Inference     segment.Inference `yaml:"inference"`
	Metrics       eval.Options      `yaml:"metrics"`
	Teachers      int               `yaml:"teachers,omitempty"`
	Agreement     float64           `yaml:"agreement,omitempty"`
	ScoreOn       string            `yaml:"score_on,omitempty"`
	Networks      int               `yaml:"networks,omitempty"`
}

// record is what decides the result of a trial, for its folder.
func (p Plan) record(c segment.Config, init string, t Trial) ([]byte, error) {
	i := p.initialisation(t.Init)
	digest, err := firstWeights(i)
	if err != nil {
		return nil, err
	}
	return config.Marshal(&trialRecord{c, init, digest, checkpoint.ListForConfig(t.Train), t.Curve,
		checkpoint.ListForConfig(t.Unlabelled), t.Test, p.Inference, p.Metrics, i.Teachers, i.Agreement, p.ScoreOn,
		i.Networks})
}

// firstWeights is the digest of the checkpoint that the plan names for an initialisation: a file
// that has other weights by now is another beginning.
func firstWeights(i Initialisation) (string, error) {
	if i.Checkpoint == "" {
		return "", nil
	}
	digest, err := checkpoint.Digest(i.Checkpoint)
	if err != nil {
		return "", fmt.Errorf("initialisation %s: %w", i.Name, err)
	}
	return digest, nil
}

// studyArm is the runs of an initialisation with a share of the training cases.
type studyArm struct {
	initialisation string
	fraction       float64
	runs           int
	kept           []string // what their predictions keep, each once
	of             []int    // runs of each
}

// arms are the post-processing of all runs, by arm, in the order of the runs.
func (s Scored) arms() (all []studyArm) {
	for _, r := range s.Runs {
		at := slices.IndexFunc(
			all,
			func(a studyArm) bool { return a.initialisation == r.Initialisation && a.fraction == r.Fraction },
		)
		if at < 0 {
			at = len(all)
			all = append(all, studyArm{initialisation: r.Initialisation, fraction: r.Fraction})
		}
		a := &all[at]
		k := slices.Index(a.kept, r.Components)
		if k < 0 {
			k = len(a.kept)
			a.kept, a.of = append(a.kept, r.Components), append(a.of, 0)
		}
		a.runs++
		a.of[k]++
	}
	return all
}

// describeComponents is what predictions keep, for a person.
func describeComponents(kept string) string {
	labels, ok := strings.CutPrefix(kept, segment.ComponentsLargest+" of ")
	switch {
	case kept == "":
		return "not recorded"
	case kept == segment.ComponentsAll:
		return "all components"
	case kept == segment.ComponentsLargest:
		return "the largest component of every label"
	case ok:
		return "the largest component of " + labels + ", all of the others"
	}
	return kept
}

// Postprocessing is what was done to predictions, a row for each initialisation and share of the
// training cases.
func (s Scored) Postprocessing() table.Table {
	t := table.Table{Title: "Post-processing: what predictions keep", Columns: []table.Column{
		{Key: "initialisation", Title: "initialisation"}, {Key: "data", Title: "data"}, {Key: "runs", Title: "runs"},
		{Key: "components", Title: "components"},
	}}
	for _, a := range s.arms() {
		var parts []string
		for n, kept := range a.kept {
			text := describeComponents(kept)
			if len(a.kept) > 1 {
				text = fmt.Sprintf("%d of %d: %s", a.of[n], a.runs, text)
			}
			parts = append(parts, text)
		}
		t.Rows = append(t.Rows, []any{a.initialisation, table.Percent(a.fraction), a.runs, strings.Join(parts, "; ")})
	}
	if note := s.unlike(); note != "" {
		t.Notes = []string{note}
	}
	return t
}

// unlike warns of runs whose predictions were post-processed in different ways, or may have been:
// what they differ in is that, too. It is "" where all are known to be alike.
func (s Scored) unlike() string {
	kept := map[string]int{}
	for _, r := range s.Runs {
		kept[r.Components]++
	}
	var notes []string
	if unknown := kept[""]; unknown > 0 {
		notes = append(notes,
			fmt.Sprintf("of %d of %s it is not recorded which components their predictions keep: they may differ in "+
				"that, too", unknown, numbers.Count(len(s.Runs), "run")))
	}
	delete(kept, "")
	if len(kept) > 1 {
		notes = append(notes,
			fmt.Sprintf("predictions were post-processed in %s, so that differences between runs are of that, too: "+
				"a few points of DSC are possible. See the table of post-processing", numbers.Count(len(kept), "way")))
	}
	return strings.Join(notes, ". ")
}
