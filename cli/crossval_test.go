package cli

import (
	"context"
	"errors"
	"fmt"
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
		if _, hint := complaint(got); hint != "the same command goes on from there" || !errors.Is(got, context.Canceled) {
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
