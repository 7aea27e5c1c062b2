package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
)

// Ctrl-C has its hint wherever an experiment is stopped: in a training, and while test cases are
// scored, where there is nothing to save.
func TestStoppedExperimentsSayHowToGoOn(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("trial a: segmenting case b: %w", context.Canceled),
		fmt.Errorf("trial a: %w", &voxsaw.InterruptedError{Path: "last.safetensors", Step: 3, Cause: context.Canceled}),
	} {
		got := explainStudy(err)
		if _, hint := complaint(got); hint != "the same command goes on from there" ||
			!errors.Is(got, context.Canceled) {
			t.Errorf("%v: hint %q", err, hint)
		}
	}
	if explainStudy(nil) != nil {
		t.Error("nothing went wrong")
	}
	other := errors.New("other")
	if got := explainStudy(other); got != other {
		t.Errorf("%v became %v", other, got)
	}
}

// The plan that the help shows can be run as it is.
func TestExampleStudy(t *testing.T) {
	p := experiment.DefaultPlan()
	if err := config.Parse("study.yaml", []byte(exampleStudy), &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if len(p.Inits) != 2 || p.Inits[1].Name != "puzzles" || p.Data != "prepared" || p.Finetune.Train.Steps != 1000 {
		t.Errorf("%+v", p)
	}
}

// A study that would be refused when it begins, for settings that do nothing, is refused before its
// data sets are looked at and prepared, and where it is planned or written for a cluster.
func TestIdleStudyIsRefusedFirst(t *testing.T) {
	folder := t.TempDir()
	plan := filepath.Join(folder, "plan.yaml")
	if err := os.WriteFile(plan, []byte("data: nowhere\nfinetune: {unlabelled_weight: 0.5}\n"+
		"initialisations: [{name: scratch}]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--plan"}, {"--data-root", folder}, {"--write", "slurm"}, {}} {
		var out bytes.Buffer
		args := append([]string{"crossval", "--config", plan, "--out", filepath.Join(folder, "out")}, flags...)
		if code := Run(args, &out, &out); code != exitUsage ||
			!strings.Contains(out.String(), "initialisation scratch: finetune: unlabelled_weight") {
			t.Errorf("%v: exit code %d: %s", flags, code, out.String())
		}
	}
	// Without a folder it has not begun, also where another study lies in the working directory.
	t.Chdir(folder)
	if err := os.MkdirAll(filepath.Join("trials", "scratch"), 0o777); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := Run([]string{"crossval", "--config", plan, "--plan"}, &out, &out); code != exitUsage ||
		!strings.Contains(out.String(), "initialisation scratch: finetune: unlabelled_weight") {
		t.Errorf("in another study's folder: exit code %d: %s", code, out.String())
	}
}

// What the trainings take is told where there are some: a plan of random arms alone pretrains
// nothing.
func TestNotesOfWhatTrainingsTake(t *testing.T) {
	found := []experiment.Found{{Source: experiment.Source{What: "VOC", Photos: 3}}}
	if notes := foundTable("root", found, experiment.Rehearsal{}).Notes; len(notes) > 0 {
		t.Errorf("nothing is counted, and noted is %q", notes)
	}
	works := map[string]experiment.Work{experiment.OfPretraining: {Trainings: 2, FLOPs: 4e12}}
	notes := foundTable("root", found, experiment.Rehearsal{Works: works, Rate: 2e9}).Notes
	if len(notes) != 3 || notes[0] != "2 pretrainings: 4 TFLOP." || !strings.Contains(notes[1], "at the 2 GFLOP/s") {
		t.Errorf("%q", notes)
	}
}
