package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
)

// ofSteps is a run that is to have so many steps.
func ofSteps(steps int) (voxsaw.Training, checkpoint.Description) {
	o, id := options, identity
	o.Schedule, o.Steps, o.CheckpointEvery, o.ValidateEvery = "constant", steps, 0, 0
	id.Run = fmt.Sprintf("train:\n  steps: %d\n", steps)
	return o, id
}

// unreadable fails to make the batch of a step.
type unreadable struct {
	*pull
	at int
}

func (u unreadable) Batch(ctx context.Context, step int) (targets, error) {
	if step == u.at {
		return nil, errors.New("the scan cannot be read")
	}
	return u.pull.Batch(ctx, step)
}

func trainFor(t *testing.T, path string, steps, failAt int, observer voxsaw.Observer) (voxsaw.Summary, error) {
	t.Helper()
	o, id := ofSteps(steps)
	f := open(t, path, id, voxsaw.ModeResume)
	f.until(steps)
	if f.Finished() {
		return f.Summary()
	}
	m := newModel(t, 3)
	optimizer, err := NewOptimizer(m, o, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer optimizer.Close()
	return Train(t.Context(), unreadable{&pull{model: m}, failAt},
		Setup{Options: o, Folder: f, Optimizer: optimizer, Observer: observer})
}

// A run that has come to its end and is given more steps is unfinished from then on, however it
// ends, and what its end scored is gone. Scores that somebody else has put there stay.
func TestLongerRunIsUnfinished(t *testing.T) {
	path := t.TempDir()
	if s, err := trainFor(t, path, 3, -1, nil); err != nil || s.Step != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, name := range []string{resultsFile, ScoresFile} {
		if err := atomicfile.WriteBytes(filepath.Join(path, name), []byte("of 3 steps\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := atomicfile.Seal(path, ScoresFile); err != nil {
		t.Fatal(err)
	}
	if s, err := trainFor(t, path, 3, -1, nil); err != nil || s.Step != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := os.Stat(filepath.Join(path, ScoresFile)); err != nil {
		t.Errorf("a finished run that is looked at again: %v", err)
	}
	if _, err := trainFor(t, path, 6, 3, nil); err == nil {
		t.Fatal("it went on without the scan")
	}
	if Finished(path) {
		t.Error("a run of 6 steps that has made 3 is finished")
	}
	for _, name := range []string{resultsFile, ScoresFile} {
		if _, err := os.Stat(filepath.Join(path, name)); !os.IsNotExist(err) {
			t.Errorf("%s of 3 steps is there: %v", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, ScoresFile), []byte("mine\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if s, err := trainFor(t, path, 6, -1, nil); err != nil || s.Step != 6 || !Finished(path) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := trainFor(t, path, 9, 6, nil); err == nil {
		t.Fatal("it went on without the scan")
	}
	if _, err := os.Stat(filepath.Join(path, ScoresFile)); err != nil {
		t.Errorf("somebody else's scores: %v", err)
	}
}

// What is said of a run with more steps than it was to have: whether it is what a run of so many
// would be.
func TestLongerIsToldApart(t *testing.T) {
	constant, poly := options, options
	constant.Schedule = "constant"
	const same, other = "are those of a run that was to have so many", "is not that of a run that was to have 60 steps"
	for _, c := range []struct {
		o       voxsaw.Training
		byShare string
		best    int
		want    string
	}{
		{constant, "", 0, same},
		{constant, "", 30, same}, // which is validated in any case
		{poly, "", 0, other},
		{constant, "a loss grows over a third of the steps", 0, "a loss grows over a third"},
		{constant, "a loss grows over a third of the steps", 0, other},
	} {
		c.o.Steps = 60
		got := (&Folder{steps: 30, best: c.best}).longer(c.o, c.byShare)
		if !strings.Contains(got, c.want) || strings.Contains(got, same) != (c.want == same) ||
			strings.Contains(got, "the best so far") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	constant.Steps = 60
	if got := (&Folder{steps: 31, best: 31}).longer(constant, ""); !strings.Contains(got,
		"the best so far are those of step 31, which that run would not have validated") {
		t.Errorf("%q", got)
	}
}

// unscored has nothing to compare with.
type unscored struct{ *pull }

func (unscored) Validate(context.Context, int) (voxsaw.Validation, error) {
	return voxsaw.Validation{Metrics: []voxsaw.Metric{{Name: "distance", Value: math.NaN()}}, Unscored: true}, nil
}

// Where nothing can be scored, no weights are the best, and the last predict.
func TestUnscoredValidationsKeepNoBest(t *testing.T) {
	path := t.TempDir()
	task := unscored{&pull{model: newModel(t, 3)}}
	optimizer, err := NewOptimizer(task.model, options, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	defer optimizer.Close()
	s, err := Train(t.Context(), task, Setup{Options: options, Optimizer: optimizer,
		Folder: open(t, path, identity, voxsaw.ModeNew)})
	if err != nil || s.BestStep != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if got, err := CheckpointOf(path); err != nil || got != Last(path) {
		t.Errorf("predicts with %s, %v", got, err)
	}
	if n, err := CountValidations(path); err != nil || n != 4 {
		t.Errorf("%d validations are logged, %v", n, err)
	}
}

// TestThawedAdamWFollowsPyTorch: parameters that were frozen for some steps go on as those of
// torch.optim.AdamW do whose first gradient comes then; PyTorch counts steps for each parameter.
func TestThawedAdamWFollowsPyTorch(t *testing.T) {
	data, err := os.ReadFile("../../testdata/adamw.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Options struct {
			LR, Beta1, Beta2, Clip float64
			WeightDecay            float64 `json:"weight_decay"`
			DecayAll               bool    `json:"decay_all"`
		}
		Start            [][]float32
		Gradients, After [][][]float32
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	const frozen, again = 7, 11
	for n, c := range cases {
		o := voxsaw.Training{
			Optimizer: "adamw", Steps: 40, LR: c.Options.LR, Momentum: c.Options.Beta1, Beta2: c.Options.Beta2,
			WeightDecay: c.Options.WeightDecay, DecayAll: c.Options.DecayAll, Clip: c.Options.Clip,
			Schedule: "constant",
		}
		m := newModel(t, 3)
		names := []string{"encoder.a", "encoder.b"}
		for i, name := range names {
			if err := m.Write(name, c.Start[i]); err != nil {
				t.Fatal(err)
			}
		}
		groups := []ParamGroup{{Fits: encoders, Factor: func(step int) float64 {
			if step < frozen || step == again {
				return 0
			}
			return 1
		}}}
		s, err := NewOptimizer(m, o, groups, false)
		if err != nil {
			t.Fatal(err)
		}
		upload := func(gradients [][]float32) {
			for i, name := range names {
				if err := m.dev.UploadPlain(m.gradients, m.offsets[name], gradients[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		done := 0 // steps that are PyTorch's
		for step := 0; done < len(c.Gradients); step++ {
			if step == frozen+3 { // as where a run is resumed
				resumed := s.(*optimizer)
				for _, r := range resumed.rates {
					r.taken, r.until = 0, 0
				}
			}
			upload(c.Gradients[done])
			if _, err := s.Take(step, nil); err != nil {
				t.Fatal(err)
			}
			want := c.Start
			if groups[0].Factor(step) > 0 {
				done++
			}
			if done > 0 {
				want = c.After[done-1]
			}
			for i, name := range names {
				got, err := m.Read(name)
				if err != nil {
					t.Fatal(err)
				}
				for j := range got {
					// as in TestAdamWFollowsPyTorch
					d, size := math.Abs(float64(got[j]-want[i][j])), math.Abs(float64(want[i][j]))
					if d > 1e-6*math.Max(1, size) {
						t.Fatalf("case %d step %d: %s[%d] is %v, want %v", n, step, name, j, got[j], want[i][j])
					}
				}
			}
		}
		s.Close()
	}
}
