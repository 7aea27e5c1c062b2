// Package classifytest tests pretext tasks whose answer is a class: what must hold of each of them
// is written once.
//
// Start at [Learns]. What is true about its patches, a task tests itself, on [Numbered].
package classifytest

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Tiny is a network that a test can train.
func Tiny() voxsaw.Network {
	return voxsaw.Network{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance"}
}

// Numbered is a store of one case whose voxels say where they lie, and a function that tells where
// a value of it comes from.
func Numbered(t testing.TB, shape [3]int) (of sample.Sample, where func(float32) [3]int) {
	t.Helper()
	const high = 1 << 14
	v := &volume.Volume{Grid: volume.Grid{Shape: shape, Affine: volume.Scaling([3]float64{1, 1, 1})}}
	for at := range shape[0] * shape[1] * shape[2] {
		v.Int16 = append(v.Int16, int16(at))
	}
	how := volume.DefaultPreparation()
	how.Window = [2]float64{0, high}
	return Open(t, traintest.Store(t, how, prepared.Input{ID: "case", Image: v}), "case")[0], func(x float32) [3]int {
		at := int(math.Round((float64(x) + 1) / 2 * high))
		return [3]int{at % shape[0], at / shape[0] % shape[1], at / shape[0] / shape[1]}
	}
}

// Open opens cases.
func Open(t testing.TB, store *prepared.Store, ids ...string) (cases []sample.Sample) {
	t.Helper()
	cases, err := sample.Open(store, ids)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// data holds the first cases out.
func data(store *prepared.Store, held int) sample.Data {
	d := sample.Data{Store: store}
	for record := range store.Records() {
		if len(d.Validate) < held {
			d.Validate = append(d.Validate, record.ID)
		} else {
			d.Train = append(d.Train, record.ID)
		}
	}
	return d
}

// Learns pretrains on phantoms and wants much more than guessing on patients never seen: of each
// measure, the share of right answers is above a bound that guessing passes less than once in a
// thousand times. The checkpoint opens, scores the same and is drawn.
func Learns(t *testing.T, c classify.Config, store *prepared.Store, held int) {
	t.Helper()
	dev, d, run := traintest.Direct(t), data(store, held), filepath.Join(t.TempDir(), "run")
	summary, err := c.Pretrain(t.Context(), dev, d, voxsaw.RunOptions{Folder: run, Loaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(run, "last.safetensors")
	task, description, e, err := pretext.Scans.Open(t.Context(), dev, last, pretext.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	of, err := c.Task(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if task.Name != of.Name || !slices.Equal(description.TrainedOn, d.Train) {
		t.Errorf("task %s, trained on %v", task.Name, description.TrainedOn)
	}
	cases := Open(t, store, d.Validate...)
	got, err := e.Evaluate(t.Context(), cases)
	if err != nil {
		t.Fatal(err)
	}
	if got.Final()[got.Score] != summary.Validation.Score {
		t.Errorf("%+v; the last validation scored %v", got, summary.Validation.Score)
	}
	for k, target := range of.Targets {
		asked := got.Items
		if target.Each {
			asked *= of.Patches
		}
		if share, bound := got.Final()[k], guessed(asked, 1/float64(target.Classes)); share < bound {
			t.Errorf("%s: %.3f of the answers are right; guessing has %.3f and reaches %.3f once in a thousand times",
				target.Name, share, got.Chance[k], bound)
		}
	}
	if picture, err := e.Picture(cases[0]); err != nil || picture.Image.Bounds().Dx() < 100 ||
		!strings.Contains(picture.Caption, cases[0].Name()) {
		t.Errorf("%q, %v", picture.Caption, err)
	}
}

// Resumes wants the same bits of a run that is stopped and resumed as of one that runs through.
func Resumes(t *testing.T, c classify.Config, store *prepared.Store) {
	t.Helper()
	dev, d := traintest.Direct(t), data(store, 1)
	traintest.Resumes(t, 2, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return c.Pretrain(ctx, dev, d, o)
	}, "last.safetensors")
}

// guessed is the share of n guesses that is reached less than once in a thousand times, if each is
// right with probability p: by the binomial distribution.
func guessed(n int, p float64) float64 {
	tail := 0.0
	for k := n; k > 0; k-- {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		if tail += math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p)); tail > 1e-3 {
			return float64(k+1) / float64(n)
		}
	}
	return 0
}

// TwoRanks wants the weights of one rank from two that share its batch, and from two micro-batches,
// but for the order of sums.
func TwoRanks(t *testing.T, c classify.Config, store *prepared.Store) {
	t.Helper()
	d := data(store, 1)
	folder := t.TempDir()
	last := func(name string) string { return filepath.Join(folder, name, "last.safetensors") }
	if _, err := c.Pretrain(t.Context(), traintest.Direct(t), d,
		voxsaw.RunOptions{Folder: filepath.Join(folder, "alone")}); err != nil {
		t.Fatal(err)
	}
	devices := []voxsaw.Device{traintest.Direct(t), traintest.Direct(t)}
	traintest.Both(t, func(rank int, group train.Group) error {
		_, err := classify.Pretrain(t.Context(), devices[rank], c, d,
			voxsaw.RunOptions{Folder: filepath.Join(folder, fmt.Sprint(rank))}, group)
		return err
	})
	traintest.Equal(t, last("0"), last("1"), 0)
	traintest.Equal(t, last("alone"), last("0"), 2e-4)
	c.Base().Train.Accumulate = 2
	if _, err := c.Pretrain(t.Context(), traintest.Direct(t), d,
		voxsaw.RunOptions{Folder: filepath.Join(folder, "micro-batches")}); err != nil {
		t.Fatal(err)
	}
	traintest.Equal(t, last("alone"), last("micro-batches"), 2e-4)
}

// Gradients compares the gradient of the whole loss with its difference quotients: of every
// parameter, the element with the largest gradient. The encoder's parameters must be those that the
// network has elsewhere, so that all of them are carried over.
func Gradients(t *testing.T, c classify.Config, store *prepared.Store) {
	t.Helper()
	dev, err := device.From(traintest.Direct(t))
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(dev, 1)
	defer params.Close()
	if err := classify.Declare(t.Context(), c, params); err != nil {
		t.Fatal(err)
	}
	task, err := c.Task(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	encoder(t, dev, c, task, params)
	// an optimiser that waits for all gradients leaves them where they are
	optimizer, err := train.NewOptimizer(params, c.Base().Train, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	defer optimizer.Close()
	w := pretext.Workbench{Workbench: train.Workbench{Device: dev, Params: params, Optimizer: optimizer},
		Train: Open(t, store, data(store, 0).Train...)}
	l, err := classify.NewLearner(task, c.Base(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Batch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	loss := func() float64 {
		r, err := l.Step(0, b)
		if err != nil {
			t.Fatal(err)
		}
		return r.Loss
	}
	loss()
	gradients := map[string][]float32{}
	for _, name := range params.Names() {
		if params.Trained(name) {
			if gradients[name], err = params.Grad(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, g := range gradients {
		quotients(t, params, loss, name, g)
	}
}

// quotients compares one parameter's gradient.
func quotients(t *testing.T, params *nn.Params, loss func() float64, name string, g []float32) {
	t.Helper()
	at := 0
	for i := range g {
		if math.Abs(float64(g[i])) > math.Abs(float64(g[at])) {
			at = i
		}
	}
	values, err := params.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	moved := func(d float32) float64 {
		v := slices.Clone(values)
		v[at] += d
		if err := params.Write(name, v); err != nil {
			t.Fatal(err)
		}
		return loss()
	}
	// With h = 1e-3 and losses near 3, rounding of float32 is about 3e-7 / 1e-3 = 3e-4 of the
	// quotient, curvature and the kinks of activations less than 5 %.
	const h = 1e-3
	quotient := (moved(h) - moved(-h)) / (2 * h)
	if err := params.Write(name, values); err != nil {
		t.Fatal(err)
	}
	if want := float64(g[at]); math.Abs(quotient-want) > 0.05*math.Abs(want)+2e-3 {
		t.Errorf("%s[%d]: gradient %v, difference quotient %v", name, at, want, quotient)
	}
}

// encoder compares the names and shapes of the encoder's parameters with the network's own.
func encoder(t *testing.T, dev device.Device, c classify.Config, task classify.Task, params *nn.Params) {
	t.Helper()
	b, err := backbone.Of(c.Base().Network)
	if err != nil {
		t.Fatal(err)
	}
	g := nn.NewGraph(nn.Train, dev.Activations())
	b.Encoder(g, g.Input("x", 1, 1, task.Patch[2], task.Patch[1], task.Patch[0]))
	own := nn.NewParams(dev, 1)
	defer own.Close()
	if err := own.Declare(g); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range params.Names() {
		if strings.HasPrefix(name, backbone.EncoderPrefix) {
			got = append(got, name)
		} else if !strings.HasPrefix(name, task.Name+".") {
			t.Errorf("parameter %s is neither the encoder's nor the head's", name)
		}
	}
	want := own.Names()
	slices.Sort(got)
	if slices.Sort(want); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("parameters of the encoder %v, the network has %v", got, want)
	}
	for _, name := range want {
		if !slices.Equal(params.Shape(name), own.Shape(name)) {
			t.Errorf("%s has shape %v, the network's is %v", name, params.Shape(name), own.Shape(name))
		}
	}
}

// Mistakes wants an error with each of the texts from settings that a function has spoilt.
func Mistakes[C classify.Config](t *testing.T, good func() C, mistakes map[string]func(C)) {
	t.Helper()
	for want, spoil := range mistakes {
		c := good()
		spoil(c)
		if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
