package experiment

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/table"
)

// A study may have runs of all initialisations but the one that the others are compared with, or
// one pair alone of one of them: the report is made all the same, and says whom the model is
// without.
func TestReportOfStudyUnderWay(t *testing.T) {
	run := func(initialisation string, seed uint64, dsc float64) eval.Trial {
		return eval.Trial{Initialisation: initialisation, Fraction: 0.1, Fold: 1, Seed: seed, Scores: []eval.Score{
			{Case: "a", Label: 1, DSC: dsc}, {Case: "b", Label: 1, DSC: dsc + 0.1 + 0.01*float64(seed)},
		}}
	}
	others := []eval.Trial{run("long", 1, 0.5), run("longer", 1, 0.51), run("longer", 2, 0.52), run("longest", 1, 0.53)}
	model := "linear mixed model"
	for _, c := range []struct {
		runs  []eval.Trial
		model bool
	}{
		{nil, false}, {others, false}, {append(others, run("scratch", 1, 0.4)), false},
		{append(others, run("scratch", 1, 0.4), run("scratch", 2, 0.43)), true},
	} {
		page, err := Scored{Runs: c.runs, Baseline: Scratch}.Report("", "")
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := page.Markdown("")
		if err != nil {
			t.Fatal(err)
		}
		if without := strings.Contains(string(text),
			"Without long and longest: of fewer than two pairs"); strings.Contains(string(text), model) != c.model ||
			without != c.model {
			t.Errorf("%d runs:\n%s", len(c.runs), text)
		}
	}
}

// A label that no test case of a run was given, though references show it, is noted; one that is in
// no reference is not.
func TestLabelsPredictedNowhere(t *testing.T) {
	score := func(name string, label uint16, predicted, reference float64) eval.Score {
		return eval.Score{Case: "c", Label: label, Name: name, Predicted: predicted, Reference: reference}
	}
	r := Scored{Runs: []eval.Trial{
		{Initialisation: "scratch", Fraction: 0.1, Fold: 1, Seed: 1, Components: "all",
			Scores: []eval.Score{score("liver", 1, 3, 4), score("cord", 2, 0, 1), score("cord", 2, 0, 0),
				score("", 3, 0, 0), score("", 4, 0, 1)}},
		{Initialisation: "scratch", Fraction: 0.1, Fold: 2, Seed: 1, Components: "all",
			Scores: []eval.Score{score("liver", 1, 3, 4), score("cord", 2, 0, 1), score("cord", 2, 0, 1),
				score("", 4, 1, 1)}},
	}}
	got := r.Warnings()
	if len(got) != 2 || !strings.HasPrefix(got[0],
		"cord was predicted in no voxel of any test case in 2 of 2 runs, though references show it: scratch (10 % of "+
			"the cases, fold 1, seed 1) and scratch (10 % of the cases, fold 2, seed 1). These") ||
		!strings.HasPrefix(got[1], "label 4 was") {
		t.Errorf("%q", got)
	}
}

// Runs of unlike devices or precisions are told, also by what a table of scores says of them.
func TestUnlikeDevices(t *testing.T) {
	runs := []eval.Trial{{Initialisation: "scratch", Fraction: 0.1, Fold: 1, Seed: 1, Device: "cuda bf16"},
		{Initialisation: "hard", Fraction: 0.1, Fold: 1, Seed: 1, Device: "cuda fp32"},
		{Initialisation: "hard", Fraction: 0.1, Fold: 1, Seed: 2}}
	for n := range runs {
		runs[n].Scores = []eval.Score{{Case: "a", Label: 1}}
	}
	var file bytes.Buffer
	if err := table.Runs(runs).CSV(&file); err != nil {
		t.Fatal(err)
	}
	back, _, err := table.ReadRuns(&file)
	if err != nil {
		t.Fatal(err)
	}
	if got := (Scored{Runs: back}).devices(); !strings.Contains(got, "1 by cuda bf16 and 1 by cuda fp32") {
		t.Errorf("%q", got)
	}
	if got := (Scored{Runs: back[1:]}).devices(); got != "" {
		t.Errorf("%q", got)
	}
}

// An initialisation with other runs than the others has a mean of its own runs: a note says so.
func TestUnlikeRuns(t *testing.T) {
	run := func(initialisation string, fold int, seed uint64) eval.Trial {
		return eval.Trial{Initialisation: initialisation, Fraction: 0.1, Fold: fold, Seed: seed}
	}
	s := Scored{Runs: []eval.Trial{run("scratch", 1, 1), run("hard", 1, 1), run("scratch", 2, 1), run("hard", 2, 1)}}
	if got := s.uneven(); got != nil {
		t.Errorf("%q", got)
	}
	s.Runs[3].Seed = 2 // as many, and others
	got := s.uneven()
	if len(got) != 1 || !strings.HasPrefix(got[0],
		"10 % of the training cases: initialisations have runs of unlike folds and seeds (scratch 2 and hard 2)") {
		t.Errorf("%q", got)
	}
}

// Seeds that share their labelled cases repeat the training alone: a report says so.
func TestSharedSubsetsAreTold(t *testing.T) {
	const told = "a fold counts once in intervals and p, which do not tell of other labelled cases"
	r := Result{Plan: DefaultPlan()}
	if about := r.Scored().About; !strings.Contains(about, told) {
		t.Errorf("%q", about)
	}
	r.Plan.Subsets = subsetsOwn
	if about := r.Scored().About; strings.Contains(about, told) {
		t.Errorf("%q", about)
	}
}

// A score without a number, as another program's table may have one, is in no mean, with a note;
// where there is nothing to measure, it is not.
func TestScoresWithoutNumber(t *testing.T) {
	nan := math.NaN()
	score := func(dsc, predicted, reference float64) eval.Score {
		return eval.Score{Case: "c", Label: 1, DSC: dsc, Predicted: predicted, Reference: reference}
	}
	of := func(scores ...eval.Score) string {
		run := eval.Trial{Initialisation: "scratch", Fold: 2, Seed: 3, Components: "all", Scores: scores}
		return strings.Join(Scored{Runs: []eval.Trial{run}}.undefined(), " ")
	}
	if got := of(score(0.5, 1, 2), score(nan, 0, 0), score(nan, 1, nan)); got != "" {
		t.Errorf("%q", got)
	}
	const want = "the DSC is not a number in 2 of 3 scores, which are in no mean (the first: " +
		"scratch, fold 2, seed 3, case c, label 1)"
	if got := of(score(0.5, 1, 2), score(nan, 1, 2), score(nan, nan, nan)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The case in the middle is that by the mean over the structures that a case has and that could be
// learnt.
func TestMedianCase(t *testing.T) {
	scores := []eval.Score{{Case: "a", Label: 1, DSC: 0.9}, {Case: "a", Label: 2, DSC: math.NaN()},
		{Case: "b", Label: 1, DSC: 0.8}, {Case: "b", Label: 2, DSC: 0.8}, {Case: "b", Label: 3, Unlearnt: true},
		{Case: "c", Label: 1, DSC: 0.6}, {Case: "c", Label: 2, DSC: 0.6}, {Case: "none", Label: 1, DSC: math.NaN()},
		{Case: "neither", Label: 1, DSC: math.NaN()}}
	if got := median(scores); got != "b" {
		t.Errorf("the median case is %s, want b", got)
	}
	if got := median(scores[len(scores)-1:]); got != "neither" {
		t.Errorf("of cases without a mean: %s", got)
	}
}
