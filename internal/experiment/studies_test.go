package experiment

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
)

// scoredRun is a run that was tested on cases, each with one label.
func scoredRun(initialisation string, fraction, dsc float64, cases ...string) eval.Trial {
	r := eval.Trial{Initialisation: initialisation, Fraction: fraction, Fold: 1, Seed: 2}
	for _, id := range cases {
		r.Scores = append(r.Scores, eval.Score{Case: id, Label: 1, Name: "liver", DSC: dsc, HD: math.NaN()})
	}
	return r
}

// adviceOf is the hint of an error, "" where it has none.
func adviceOf(err error) string {
	var advised interface{ Advice() string }
	if errors.As(err, &advised) {
		return advised.Advice()
	}
	return ""
}

func TestStudiesCountARunOnce(t *testing.T) {
	var s Studies
	a := []eval.Trial{scoredRun("scratch", 1, 0.5, "x"), scoredRun("jigsaw", 1, 0.6, "x")}
	if err := errors.Join(s.Add("", "a.csv", a), s.Add("", "b.csv", a[:1])); err != nil {
		t.Fatal(err)
	}
	if len(s.Runs) != 2 || len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0], "b.csv: 1 run that another file has") {
		t.Errorf("%d runs, notes %q", len(s.Runs), s.Notes)
	}
	other := []eval.Trial{scoredRun("scratch", 1, math.Nextafter(0.5, 1), "x")}
	err := s.Add("", "c.csv", other)
	if err == nil || !strings.HasPrefix(err.Error(), "a.csv and c.csv have other scores of scratch, fold 1") ||
		adviceOf(err) != "if these are two experiments, name them: a=a.csv b=c.csv" {
		t.Errorf("another score in its last bit: %v, %q", err, adviceOf(err))
	}
	if err := s.Add("long", "c.csv", other); err != nil || s.Runs[2].Initialisation != "long/scratch" {
		t.Errorf("of a named experiment: %v, %+v", err, s.Runs)
	}
	if a[0].Initialisation != "scratch" {
		t.Errorf("the caller's run is called %s now", a[0].Initialisation)
	}
}

func TestSameTests(t *testing.T) {
	base := scoredRun("scratch", 1, 0.5, "x", "y")
	renamed, relabelled := scoredRun("jigsaw", 1, 0.6, "x", "y"), scoredRun("jigsaw", 1, 0.6, "x", "y")
	renamed.Scores[0].Name = "spleen"
	relabelled.Scores[0].Label, relabelled.Scores[0].Name = 3, "spleen"
	for name, c := range map[string]struct {
		run               eval.Trial
		label             int
		note, err, advice string
	}{
		"the same": {run: scoredRun("jigsaw", 1, 0.6, "y", "x")},
		"one in two": {run: scoredRun("jigsaw", 1, 0.6, "y", "z"), note: "on 2 cases, scratch " +
			"on 2, of which 1 are the same"},
		"none": {run: scoredRun("jigsaw", 1, 0.6, "z"), err: "no test case of jigsaw",
			advice: "compare runs whose folds"},
		"other labels": {run: relabelled, note: "scored on labels 1, 3, scratch on 1"},
		"label 1":      {run: relabelled, label: 1},
		"other names": {run: renamed, err: "label 1 is liver in some runs and spleen in others",
			advice: "number their structures alike"},
		"a share that nothing pairs": {run: scoredRun("scratch", 0.1, 0.4, "z"),
			note: "for scratch with 100 % of the training cases: no run with 10 %"},
	} {
		notes, err := Scored{Baseline: "scratch", Runs: []eval.Trial{base, c.run}}.SameTests("dsc", c.label)
		text := ""
		if err != nil {
			text = err.Error()
		}
		all := strings.Join(notes, "\n")
		if !strings.Contains(text, c.err) || (c.err == "") != (err == nil) ||
			!strings.Contains(adviceOf(err), c.advice) {
			t.Errorf("%s: error %v, %q", name, err, adviceOf(err))
		}
		if !strings.Contains(all, c.note) || c.note == "" && all != "" {
			t.Errorf("%s: notes %q, want %q", name, all, c.note)
		}
	}
}

// NSD of two tolerances is two metrics.
func TestSameTolerance(t *testing.T) {
	one, other := scoredRun("scratch", 1, 0.5, "x"), scoredRun("jigsaw", 1, 0.6, "x")
	one.Scores[0].NSD, one.Scores[0].Tolerance, other.Scores[0].NSD = 0.5, 2, 0.9
	for tolerance, ok := range map[float64]bool{2: true, 3: false, math.NaN(): true} {
		other.Scores[0].Tolerance = tolerance
		s := Scored{Baseline: "scratch", Runs: []eval.Trial{one, other}}
		if _, err := s.SameTests("nsd", 0); (err == nil) != ok || err != nil &&
			!strings.Contains(err.Error(), "tolerances of 2, 3 mm") {
			t.Errorf("tolerance %v: %v", tolerance, err)
		}
		notes, err := s.SameTests("dsc", 0)
		if err != nil || (len(notes) == 0) != ok {
			t.Errorf("tolerance %v: %q, %v", tolerance, notes, err)
		}
		section, err := s.otherMeasures()
		if err != nil || strings.Contains(fmt.Sprint(section), "NSD") != ok {
			t.Errorf("tolerance %v: %v, %v", tolerance, section, err)
		}
	}
}

// Labels that are scored as one are unlearnt where none of them is shown.
func TestNoneLearnt(t *testing.T) {
	names := map[uint16]string{1: "liver", 2: "tumour", 3: "spleen"}
	for _, c := range []struct {
		parts    []string
		unlearnt []uint16
		want     bool
	}{{nil, []uint16{1}, false}, {nil, []uint16{1, 2, 3}, true}, {[]string{"2", "Spleen"}, []uint16{1, 2}, false},
		{[]string{"2", "Spleen"}, []uint16{2, 3}, true}, {[]string{"2", "3"}, []uint16{1}, false},
		{[]string{"kidney"}, []uint16{1, 2, 3}, false}} {
		if got := noneLearnt(c.parts, 3, names, c.unlearnt); got != c.want {
			t.Errorf("%v of %v: %v", c.parts, c.unlearnt, got)
		}
	}
}
