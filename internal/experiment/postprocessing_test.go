package experiment

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/config"
)

// A plan states its post-processing. A new study keeps all components unless it says otherwise; one
// that has begun keeps what it has.
func TestPostprocessingIsSettled(t *testing.T) {
	plan := func(text string) *Plan {
		p := DefaultPlan()
		if err := config.Parse("plan.yaml", []byte("curve: 3\ninference: "+text+"\n"), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	all, largest := plan("{components: all}"), plan("{components: largest}")
	validated, silent := plan("{components: validated}"), plan("{}") // as builds before 0.1.0 began
	for _, c := range []struct {
		says   string // the plan's inference
		before *Plan
		want   string // "-": refused
	}{
		{"{}", nil, "all"}, {"{largest_component: false}", nil, "all"}, {"{components: largest}", nil, "largest"},
		{"{largest_component: true}", nil, "largest"},
		{"{components: validated}", nil, "-"}, {"{components: all, largest_component: true}", nil, "-"},
		{"{}", all, "all"}, {"{}", largest, "largest"},
		{"{components: all}", largest, "all"}, // which is a change, and refused as one
		{"{components: validated}", all, "-"}, {"{}", validated, "-"}, {"{}", silent, "-"},
	} {
		got, err := plan(c.says).settled(c.before)
		if (err != nil) != (c.want == "-") || err == nil && got.Inference.Components != c.want {
			t.Errorf("%s, before %+v: %q, %v, want %q", c.says, c.before, got.Inference.Components, err, c.want)
		}
	}
	if changes, err := all.changes(*largest); err != nil || !strings.Contains(strings.Join(changes, "; "),
		"inference.components: largest in the run, all now") {
		t.Errorf("changes %q, %v", changes, err)
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
