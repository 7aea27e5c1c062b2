package experiment

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
)

// This file: the post-processing of predictions. A plan states it, the same for all arms; what was
// applied to the predictions of each run is printed with the scores.
//
// Earlier versions let the cases of a learning curve decide: of a label whose DSC that raised on
// them, a run's predictions kept the largest component alone. Runs that learn from all training
// cases of a fold have no such cases. A folder that was begun so goes on so, under the name
// components: validated, and its tables say which arms differ.

// settled is the plan with its post-processing decided: as it says, or as the experiment in its
// folder was begun (nil: none was), or all components are kept. A note says what is to be known of
// it.
func (p Plan) settled(before *Plan) (_ Plan, note string, err error) {
	if p.Inference, err = p.Inference.Named(); err != nil {
		return p, "", fmt.Errorf("inference: %w", err)
	}
	switch components := &p.Inference.Components; {
	case before != nil && *components == "":
		*components = before.Inference.Components
	case *components == "":
		*components = segment.ComponentsAll
	}
	if p.Inference.Components != segment.ComponentsValidated {
		return p, "", nil
	}
	if before == nil || before.Inference.Components != segment.ComponentsValidated {
		return p, "",
			fmt.Errorf("inference.components: validated needs validation cases, and a plan has none: the cases of " +
				"learning curves measure and decide nothing. Choose all or largest, for all arms alike")
	}
	return p,
		"WARNING: an earlier version began this experiment: predictions keep only the largest component of " +
			"those labels whose DSC that raised on the cases of the run's learning curve, so that arms and " +
			"shares may differ in it (the tables say what was applied). It goes on so; in a folder of its own, " +
			"the same plan keeps all components in every arm", nil
}

// earlier gives the plan of an earlier version, which did not state the post-processing, the name
// of what was done.
func (p *Plan) earlier() (err error) {
	if p.Inference, err = p.Inference.Named(); err != nil || p.Inference.Components != "" {
		return err
	}
	p.Inference.Components = segment.ComponentsAll
	if p.Curve > 0 {
		p.Inference.Components = segment.ComponentsValidated
	}
	return nil
}

// trialRecord is what decides a trial's result, as its run records it.
type trialRecord[I any] struct {
	segment.Config `yaml:",inline"`
	Init           string `yaml:"init"`
	// of a checkpoint that the plan names
	InitDigest    string       `yaml:"init_digest,omitempty"`
	Cases         []string     `yaml:"cases,flow"`
	Curve         []string     `yaml:"curve,flow,omitempty"`
	WithoutLabels []string     `yaml:"without_labels,flow,omitempty"`
	Test          []string     `yaml:"test,flow"`
	Inference     I            `yaml:"inference"`
	Metrics       eval.Options `yaml:"metrics"`
	Teachers      int          `yaml:"teachers,omitempty"`
	Agreement     float64      `yaml:"agreement,omitempty"`
	ScoreOn       string       `yaml:"score_on,omitempty"`
	Networks      int          `yaml:"networks,omitempty"`
}

// earlierInference is the settings of inference under the keys of earlier versions.
type earlierInference struct {
	Window  [3]int  `yaml:"window,flow"`
	Overlap float64 `yaml:"overlap"`
	Batch   int     `yaml:"batch"`
	Largest bool    `yaml:"largest_component"`
	Whole   bool    `yaml:"all_components,omitempty"`
	Mirror  string  `yaml:"mirror,omitempty"`
}

func (r trialRecord[I]) text() ([]byte, error) { return config.Marshal(&r) }

// record is what decides the result of a trial, for its folder. A run that an earlier version began
// there keeps the keys of that version.
func (p Plan) record(folder string, c segment.Config, init string, t Trial) ([]byte, error) {
	i := p.initialisation(t.Init)
	digest, err := firstWeights(folder, i)
	if err != nil {
		return nil, err
	}
	now := trialRecord[segment.Inference]{c, init, digest, checkpoint.ListForConfig(t.Train), t.Curve,
		checkpoint.ListForConfig(t.Unlabelled), t.Test, p.Inference, p.Metrics, i.Teachers, i.Agreement, p.ScoreOn,
		i.Networks}
	path := train.ConfigOf(folder)
	if _, err := os.Stat(path); err == nil && !config.Gives(path, "", "score_on") {
		now.ScoreOn = "" // the plan's record alone says it
	}
	if !config.Gives(path, "", "inference.largest_component") {
		return now.text()
	}
	of := p.Inference
	older := earlierInference{of.Window, of.Overlap, of.Batch, of.Components == segment.ComponentsLargest,
		of.Components == segment.ComponentsAll, of.Mirror}
	if len(t.Curve) == 0 && !older.Largest {
		// nothing decided there: with and without the key, all components were kept
		older.Whole = config.Gives(path, "", "inference.all_components")
	}
	return trialRecord[earlierInference]{c, init, digest, now.Cases, t.Curve, now.WithoutLabels, t.Test, older,
		p.Metrics, i.Teachers, i.Agreement, now.ScoreOn, i.Networks}.text()
}

// firstWeights is the digest of the checkpoint that the plan names for an initialisation: a file
// that has other weights by now is another beginning. A run of an earlier version, which did not
// note it, goes on without.
func firstWeights(folder string, i Initialisation) (string, error) {
	path := train.ConfigOf(folder)
	if _, err := os.Stat(path); i.Checkpoint == "" || err == nil && !config.Gives(path, "", "init_digest") {
		return "", nil
	}
	digest, err := checkpoint.Digest(i.Checkpoint)
	if err != nil {
		return "", fmt.Errorf("initialisation %s: %w", i.Name, err)
	}
	return digest, nil
}

// components says what predictions of a finished trial keep: "all", "largest", or "largest of
// liver, spleen"; "" where the checkpoint that said it is gone.
func (r *Result) components(t Trial, out string) string {
	if what := r.Plan.Inference.Components; what != segment.ComponentsValidated {
		return what
	}
	d, err := checkpoint.Read(train.Last(t.Folder(out)))
	switch {
	case err != nil:
		return ""
	case d.Largest == "":
		return segment.ComponentsAll
	}
	return segment.ComponentsLargest + " of " + r.Plan.Finetune.DescribeLabels(d.Largest)
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
				"that, too. voxsaw crossval --finished adds it to the scores.csv of an earlier version", unknown,
				numbers.Count(len(s.Runs), "run")))
	}
	delete(kept, "")
	if len(kept) > 1 {
		notes = append(notes,
			fmt.Sprintf("predictions were post-processed in %s, so that differences between runs are of that, too: "+
				"a few points of DSC are possible. See the table of post-processing", numbers.Count(len(kept), "way")))
	}
	return strings.Join(notes, ". ")
}
