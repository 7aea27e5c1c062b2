package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
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
// One that an earlier version began goes on without.
func TestTrialsRecordTheirFirstWeights(t *testing.T) {
	dir := t.TempDir()
	path, folder := filepath.Join(dir, "best.safetensors"), filepath.Join(dir, "trial")
	var p Plan
	p.Inference = segment.DefaultInference()
	p.Inits = []Initialisation{{Name: "puzzles", Checkpoint: path}}
	trial := Trial{Init: "puzzles", Train: []string{"a"}, Test: []string{"b"}}
	record := func() string {
		text, err := p.record(folder, segment.Config{}, path, trial)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	keep := func(text string) {
		if err := os.WriteFile(train.ConfigOf(folder), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	weightsAt(t, path, 1, checkpoint.Learnt{})
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	first := record()
	keep(first)
	if changes := train.Differences(first, record()); len(changes) > 0 {
		t.Errorf("the same weights: %q", changes)
	}
	weightsAt(t, path, 2, checkpoint.Learnt{})
	if changes := train.Differences(first, record()); len(changes) != 1 ||
		!strings.HasPrefix(changes[0], "init_digest: ") {
		t.Errorf("other weights: %q", changes)
	}
	var old []string
	for line := range strings.Lines(first) {
		if !strings.HasPrefix(line, "init_digest: ") {
			old = append(old, line)
		}
	}
	keep(strings.Join(old, ""))
	if changes := train.Differences(strings.Join(old, ""), record()); len(changes) > 0 {
		t.Errorf("a trial of an earlier version: %q", changes)
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

// Learning curves are measured on no other scan of a patient that the run learns from, but for
// experiments that an earlier version began.
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
	torn := func(c Cases) (n int) {
		for _, trial := range p.trials(c) {
			n += len(patients.Torn(trial.Train, trial.Curve))
		}
		return n
	}
	if n := torn(c); n > 0 {
		t.Errorf("%d cases of curves are of patients that are learnt from", n)
	}
	before := c
	before.ByPatient = false
	earlier, changes := c.with(before, nil)
	if torn(before) == 0 || earlier.ByPatient || len(changes) > 0 {
		t.Errorf("of an earlier version: %d cases, %v, changes %q", torn(before), earlier.ByPatient, changes)
	}
	if again, _ := c.with(c, nil); !again.ByPatient {
		t.Error("an experiment that was begun so does not go on so")
	}
	if slices.ContainsFunc(p.trials(c), func(t Trial) bool { return len(t.Curve) == 0 }) {
		t.Error("there is no curve at all")
	}
}

// What is shown before an experiment goes on has the learning curves of the version that began it.
func TestPreviewHasTheCurvesOfTheRun(t *testing.T) {
	p := teachers(t, "curve: 1\ncurve_cases: 1\n")
	out := t.TempDir()
	if err := os.MkdirAll(filepath.Join(out, trialsFolder, Scratch), 0o777); err != nil {
		t.Fatal(err)
	}
	text, err := config.Marshal(&p)
	if err != nil {
		t.Fatal(err)
	}
	for _, earlier := range []bool{false, true} {
		subsets := `{"folds": [], "curves_by_patient": true}`
		if earlier {
			subsets = `{"folds": []}`
		}
		if err := errors.Join(os.WriteFile(filepath.Join(out, planFile), text, 0o666),
			os.WriteFile(filepath.Join(out, subsetsFile), []byte(subsets), 0o666)); err != nil {
			t.Fatal(err)
		}
		v, err := Look(p, out)
		if err != nil || v.Cases.ByPatient == earlier {
			t.Errorf("of an earlier version: %v: by patient %v, %v", earlier, v.Cases.ByPatient, err)
		}
	}
}
