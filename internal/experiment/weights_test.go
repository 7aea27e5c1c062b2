package experiment

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// weightsAt writes a checkpoint whose weights follow from the seed.
func weightsAt(t *testing.T, path string, seed uint64, learnt checkpoint.Learnt) {
	t.Helper()
	dev, err := device.From(traintest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	g := nn.NewGraph(nn.Train, dev.Activations())
	g.Linear("head", g.Flatten(g.Input("image", 1, 1, 2, 2, 2)), 3, true)
	params := nn.NewParams(dev, seed)
	defer params.Close()
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(path, checkpoint.Description{Kind: "jigsaw", Learnt: learnt}, params); err != nil {
		t.Fatal(err)
	}
}

// A trial records which weights it begins with: with other ones in the file it is another trial.
func TestTrialsRecordTheirFirstWeights(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "best.safetensors")
	var p Plan
	p.Inference = segment.DefaultInference()
	p.Inits = []Initialisation{{Name: "puzzles", Checkpoint: path}}
	trial := Trial{Init: "puzzles", Train: []string{"a"}, Test: []string{"b"}}
	record := func() string {
		text, err := p.record(segment.Config{}, path, trial)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	weightsAt(t, path, 1, checkpoint.Learnt{})
	first := record()
	if changes := train.Differences(first, record()); len(changes) > 0 {
		t.Errorf("the same weights: %q", changes)
	}
	weightsAt(t, path, 2, checkpoint.Learnt{})
	if changes := train.Differences(first, record()); len(changes) != 1 ||
		!strings.HasPrefix(changes[0], "init_digest: ") {
		t.Errorf("other weights: %q", changes)
	}
}

// A checkpoint that has lost the list of what it has learnt from is said to.
func TestLostListsAreWarnedOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "best.safetensors")
	weightsAt(t, path, 1, checkpoint.Learnt{Lost: "the list of teacher.safetensors is gone"})
	p := DefaultPlan()
	p.Inits = []Initialisation{{Name: "puzzles", Checkpoint: path}}
	warnings, seen, err := p.warnings(traintest.Phantoms(t, 2, [3]int{24, 20, 16}))
	if err != nil || !seen || !strings.Contains(strings.Join(warnings, "\n"),
		"the list of teacher.safetensors is gone: nobody can say whether cases that folds test on are among them") {
		t.Errorf("%q, %v", warnings, err)
	}
	p.Inits[0].Teachers = 2 // hours of training before they are refused
	if _, _, err := p.warnings(traintest.Phantoms(t, 2, [3]int{24, 20, 16})); err == nil ||
		!strings.Contains(err.Error(), "copy that file back beside the checkpoint") {
		t.Errorf("teachers of lost lists: %v", err)
	}
}

// Learning curves are measured on no other scan of a patient that the run learns from.
func TestCurvesLeavePatientsOut(t *testing.T) {
	ids, patients := caseNames(60), dataset.Patients{}
	for n, id := range ids {
		patients[id] = ids[n/2*2]
	}
	p := DefaultPlan()
	p.Folds, p.Fractions, p.Curve, p.CurveCases = 2, []float64{0.2}, 5, 30
	c, err := p.cases(ids, nil, patients)
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range p.trials(c) {
		if torn := patients.Torn(trial.Train, trial.Curve); len(torn) > 0 {
			t.Errorf("curves are measured on %v, of patients that are learnt from", torn)
		}
	}
	if slices.ContainsFunc(p.trials(c), func(t Trial) bool { return len(t.Curve) == 0 }) {
		t.Error("there is no curve at all")
	}
}

// A study that a later version began is refused by the number of its format.
func TestLaterStudiesAreRefused(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, subsetsFile), []byte(`{"format": 2, "folds": []}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := divided(out); err == nil || !strings.Contains(err.Error(), "has format 2, this program reads 1") {
		t.Error(err)
	}
}
