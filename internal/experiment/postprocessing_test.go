package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
)

// A plan states its post-processing. A new study keeps all components unless it says otherwise; one
// that an earlier version began goes on as that one did, under a name.
func TestPostprocessingIsSettled(t *testing.T) {
	before := func(text string) *Plan {
		p := DefaultPlan()
		if err := config.Parse("plan.yaml", []byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if err := p.earlier(); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	curve, none := before("curve: 3\ninference: {largest_component: false}\n"),
		before("curve: 0\ninference: {largest_component: false}\n")
	all := before("curve: 3\ninference: {largest_component: false, all_components: true}\n")
	largest := before("curve: 3\ninference: {largest_component: true}\n")
	for _, c := range []struct {
		says   string // the plan's inference
		before *Plan
		want   string // "-": refused
	}{
		{"{}", nil, "all"}, {"{largest_component: false}", nil, "all"}, {"{components: largest}", nil, "largest"},
		{"{largest_component: true}", nil, "largest"},
		{"{components: validated}", nil, "-"}, {"{components: all, largest_component: true}", nil, "-"},
		{"{}", curve, "validated"}, {"{components: validated}", curve, "validated"}, {"{}", none, "all"},
		{"{components: validated}", none, "-"},
		{"{}", all, "all"}, {"{all_components: true}", all, "all"}, {"{}", largest, "largest"},
		{"{components: all}", curve, "all"}, // which is a change, and refused as one
	} {
		p := DefaultPlan()
		p.Curve = 3
		if err := config.Parse("plan.yaml", []byte("inference: "+c.says+"\n"), &p); err != nil {
			t.Fatal(err)
		}
		got, note, err := p.settled(c.before)
		if (err != nil) != (c.want == "-") || err == nil && got.Inference.Components != c.want {
			t.Errorf("%s, before %+v: %q, %v, want %q", c.says, c.before, got.Inference.Components, err, c.want)
		}
		if (note != "") != (c.want == segment.ComponentsValidated) {
			t.Errorf("%s: told %q", c.says, note)
		}
	}
	p := DefaultPlan()
	p.Curve = 3
	p.Inference.Components = "all"
	if changes, err := p.changes(*curve); err != nil || !strings.Contains(strings.Join(changes, "; "),
		"inference.components: validated in the run, all now") {
		t.Errorf("changes %q, %v", changes, err)
	}
}

// The record of a trial that an earlier version began is compared in the keys of that version. What
// comes out in the same way is the same: without cases to decide by, all components were kept.
func TestRecordsOfEarlierTrials(t *testing.T) {
	var now, later Plan
	now.Inference, later.Inference = segment.DefaultInference(), segment.DefaultInference()
	now.Inits, later.Inits = []Initialisation{{Name: Scratch}}, []Initialisation{{Name: Scratch}}
	trial := func(curve ...string) Trial {
		return Trial{Init: Scratch, Train: []string{"a"}, Test: []string{"b"}, Curve: curve}
	}
	for _, c := range []struct {
		keys, components string
		trial            Trial
		same             bool
	}{
		{"  largest_component: false\n", "validated", trial("c"), true},
		{"  largest_component: false\n", "all", trial("c"), false},
		{"  largest_component: false\n", "all", trial(), true}, {"  largest_component: false\n", "validated", trial(),
			true},
		{"  largest_component: false\n  all_components: true\n", "all", trial("c"), true},
		{"  largest_component: false\n  all_components: true\n", "all", trial(), true},
		{"  largest_component: true\n", "largest", trial("c"), true}, {"  largest_component: true\n", "all", trial(),
			false},
		{"  components: all\n", "all", trial("c"), true}, {"  components: all\n", "largest", trial("c"), false},
	} {
		folder := t.TempDir()
		now.Inference.Components = "all"
		text, err := now.record(folder, segment.Config{}, "", c.trial)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(text), "  components: all")
		end := at + strings.Index(string(text[at:]), "\n") + 1
		old := string(text[:at]) + c.keys + string(text[end:])
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(train.ConfigOf(folder))), []byte(old),
			0o600); err != nil {
			t.Fatal(err)
		}
		later.Inference.Components = c.components
		text, err = later.record(folder, segment.Config{}, "", c.trial)
		if err != nil {
			t.Fatal(err)
		}
		if changes := train.Differences(old, string(text)); (len(changes) == 0) != c.same {
			t.Errorf("recorded %q, now %s, curve %v: changes %q", c.keys, c.components, c.trial.Curve, changes)
		}
	}
}

// Reports say by arm what predictions keep, and warn where that is not the same in all.
func TestUnlikePostprocessingIsSaid(t *testing.T) {
	run := func(init string, fraction float64, fold int, kept string) eval.Trial {
		return eval.Trial{Initialisation: init, Fraction: fraction, Fold: fold, Seed: 1, Components: kept,
			Scores: []eval.Score{{Case: "a", Label: 1, DSC: 0.5}}}
	}
	s := Scored{Baseline: Scratch, Runs: []eval.Trial{run(Scratch, 0.1, 1, "largest of liver"),
		run(Scratch, 0.1, 2, "all"), run(Scratch, 1, 1, "all"), run("hard", 1, 1, "all")}}
	if got := s.Postprocessing().Rows[0]; got[3] != "1 of 2: the largest component of liver, "+
		"all of the others; 1 of 2: all components" {
		t.Errorf("%v", got)
	}
	page, err := s.Report("", "")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := page.Markdown("")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| hard | 100 % | 1 | all components |",
		"predictions were post-processed in 2 ways"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for both, want := range map[[2]string]string{
		{"all", "all"}: "",
		{"", "all"}:    "of 1 of 2 runs it is not recorded",
		{"", ""}:       "of 2 of 2 runs it is not recorded",
	} {
		same := Scored{Baseline: Scratch, Runs: []eval.Trial{run(Scratch, 1, 1, both[0]), run("hard", 1, 1, both[1])}}
		if got := same.unlike(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("kept %q: %q", both, got)
		}
	}
}
