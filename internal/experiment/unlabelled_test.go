package experiment

import (
	"errors"
	"testing"
)

// A study whose runs would learn from unlabelled scans is refused before anything runs.
func TestUnlabelledIsNoArm(t *testing.T) {
	p := DefaultPlan()
	if _, err := p.finetune(Initialisation{Name: "scratch"}); err != nil {
		t.Fatal(err)
	}
	p.Finetune.Unlabelled, p.Finetune.Train.Average = true, 0.9
	if _, err := p.finetune(Initialisation{Name: "scratch"}); !errors.Is(err, errUnlabelled) {
		t.Errorf("error %v", err)
	}
}
