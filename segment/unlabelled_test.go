package segment

import (
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// someLabelled is a store of labelled phantoms a and b, and of c, d and e without labels.
func someLabelled(t *testing.T) sample.Data {
	t.Helper()
	var cases []prepared.Input
	for n, id := range []string{"a", "b", "c", "d", "e"} {
		scan, labels, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		in := prepared.Input{ID: id, Image: scan}
		if n < 2 {
			in.Labels = labels
		}
		cases = append(cases, in)
	}
	return sample.Data{Store: traintest.Store(t, volume.DefaultPreparation(), cases...), Train: []string{"a"},
		Validate: []string{"b"}, Unlabelled: []string{"c", "d"}}
}

func taught(t *testing.T, data sample.Data) Config {
	t.Helper()
	c := tiny()
	c.Batch, c.Unlabelled, c.UnlabelledConfidence, c.UnlabelledRamp, c.Train.Average = 2, true, 0.4, 4, 0.9
	return resolved(t, c, data.Store.(*prepared.Store))
}

// Each voxel of a varied crop is that voxel of the crop as it is which it says it shows; a step
// draws labelled crops of the cases to train on, unlabelled ones of the unlabelled, and no
// other.
func TestUnlabelledCropsKnowTheirVoxels(t *testing.T) {
	data := someLabelled(t)
	c := taught(t, data)
	c.Augment = Augmentation{Mirror: "ij"}
	l, err := compiled(t, testDevice(t), c, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, seen, mirrored := 16*12*8, map[string]int{}, false
	for step := range 12 {
		b, err := l.Batch(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range b.cases {
			seen[id]++
		}
		u := b.unlabelled
		for i, from := range u.from {
			if u.varied[i] != u.plain[i/n*n+int(from)] {
				t.Fatalf("step %d: voxel %d does not show voxel %v", step, i, from)
			}
			mirrored = mirrored || int(from) != i%n
		}
	}
	if !mirrored || len(seen) != 3 || seen["a"] != 24 || seen["c"]+seen["d"] != 24 {
		t.Errorf("mirrored %v, crops of %v", mirrored, seen)
	}
	to := make([]float32, 4*3*2)
	numberVoxels(to, [3]int{-1, 0, 1}, [3]int{4, 3, 2}, [3]int{2, 2, 2})
	if want := []float32{-1, 4, 5, -1, -1, 6, 7, -1}; !slices.Equal(to[:8], want) ||
		slices.Max(to[8:]) != -1 {
		t.Errorf("voxels are numbered %v", to)
	}
}

// A voxel counts where the teacher is sure of it: here in two crops of two classes.
func TestConfidentVoxels(t *testing.T) {
	p := []float32{0.6, 0.1, 0.3, 0.4, 0.9, 0.7, 0.2, 0.2, 0.5, 0.8, 0.5, 0.2}
	got := confident(p, 2, 3, 0.6)
	if want := []float32{0, 1, 1, 1, -1, -1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The gradient of a step is the slope of the loss of labelled crops and of the weighted one of
// unlabelled crops together.
func TestUnlabelledGradient(t *testing.T) {
	data := someLabelled(t)
	c := taught(t, data)
	c.UnlabelledWeight = 3
	d := testDevice(t)
	l, err := compiled(t, d, c, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.program.Close()
	l.teacher.program.Close()
	l.bench.Optimizer = traintest.Keep{}
	if err := errors.Join(l.declare(l.bench.Params), l.compile(l.bench)); err != nil {
		t.Fatal(err)
	}
	b, err := l.Batch(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	first := slices.Clone(b.unlabelled.from)
	var classes []float32
	l.Taught(func(f func() error) error { return f() })
	if classes, err = l.teacher.classes(b.unlabelled.plain, c); err != nil {
		t.Fatal(err)
	}
	if most := slices.Max(classes); most < 0 || len(first) != len(classes) {
		t.Fatalf("the teacher is sure of nothing (%v)", most)
	}
	// the teacher does not change with the weights that are tried
	var targets []float32
	traintest.Slopes(t, "mean teacher", l.bench.Params, func() float64 {
		if err := l.forward(5, b); err != nil {
			t.Fatal(err)
		}
		if targets == nil {
			targets = make([]float32, len(classes))
			n := len(classes) / c.Batch
			for i, from := range b.unlabelled.from {
				if targets[i] = -1; from >= 0 {
					targets[i] = classes[i/n*n+int(from)]
				}
			}
		}
		own, more := make([]float32, 1), make([]float32, 1)
		if err := errors.Join(l.program.Set(unlabelledTarget, targets), l.program.Forward(),
			l.program.Read("loss", own),
			l.program.Read(unlabelledLoss, more), l.program.Backward()); err != nil {
			t.Fatal(err)
		}
		if more[0] <= 0 {
			t.Fatalf("the loss of unlabelled crops is %v", more[0])
		}
		return float64(own[0]) + c.unlabelledRamp(5)*float64(more[0])
	}, "encoder.")
	if w := c.unlabelledRamp(0); math.Abs(w-3*math.Exp(-5)) > 1e-12 || c.unlabelledRamp(4) != 3 {
		t.Errorf("the weight rises from %v to %v", w, c.unlabelledRamp(4))
	}
}

// A run that was interrupted ends with the bytes of one that ran through, and unlabelled scans
// change what is learnt.
func TestUnlabelledRunsResume(t *testing.T) {
	data := someLabelled(t)
	c := taught(t, data)
	c.Train.Steps, c.Train.CheckpointEvery, c.Train.ValidateEvery = 7, 2, 3
	c.UnlabelledConfidence = 0.4
	through, _ := traintest.Resumes(t, 5, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		s, _, err := Finetune(ctx, testDevice(t), c, data, "", o)
		return s, err
	}, "last.safetensors", "best.safetensors", "validation.csv")
	c.Unlabelled, c.UnlabelledWeight, c.UnlabelledRamp, c.UnlabelledConfidence = false, 0, 0, 0
	without := filepath.Join(t.TempDir(), "without")
	if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "", voxsaw.RunOptions{Folder: without}); err != nil {
		t.Fatal(err)
	}
	with, alone := tensors(t, filepath.Join(through, "last.safetensors")), tensors(t, filepath.Join(without,
		"last.safetensors"))
	if len(with) == 0 || maps.EqualFunc(with, alone, slices.Equal[[]float32]) {
		t.Error("the run learnt nothing from unlabelled scans")
	}
}

// What cannot be is refused, with what to do.
func TestUnlabelledRefusals(t *testing.T) {
	data := someLabelled(t)
	for want, change := range map[string]func(*Config, *sample.Data){
		"no scans without labels":  func(_ *Config, d *sample.Data) { d.Unlabelled = nil },
		"case b is among":          func(_ *Config, d *sample.Data) { d.Unlabelled = []string{"b"} },
		"average must be above 0":  func(c *Config, _ *sample.Data) { c.Train.Average = 0 },
		"batch norm or accumulate": func(c *Config, _ *sample.Data) { c.Network.Norm = "batch" },
		"from 0":                   func(c *Config, _ *sample.Data) { c.UnlabelledRamp = -1 },
		`no case "z"`:              func(_ *Config, d *sample.Data) { d.Unlabelled = []string{"z"} },
	} {
		c, d := taught(t, data), data
		change(&c, &d)
		if _, _, err := Finetune(t.Context(), testDevice(t), c, d, "", voxsaw.RunOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
