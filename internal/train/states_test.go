package train_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/train"
	_ "github.com/voxsaw/voxsaw/vnet"
)

// normed is a small network with batch norm, which learns to segment noise. A voxel of the last
// step's image is bad.
type normed struct {
	*nn.Params
	program     *nn.Program
	supervision *backbone.Supervision
	last        int
	bad         float32
	before      map[string][]float32 // all parameters and states as the last step finds them
}

const voxels = 8 * 8 * 8

func newNormed(t *testing.T, o voxsaw.Training) (*normed, train.Optimizer) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dev, err := cpu.New(cpu.Options{Threads: 2})
	check(err)
	t.Cleanup(func() { dev.Close() })
	settings := voxsaw.DefaultNetwork()
	settings.Channels, settings.Levels, settings.Classes, settings.Norm = 2, 1, 3, "batch"
	network, err := backbone.Of(settings)
	check(err)
	n := &normed{Params: nn.NewParams(dev, 1), last: 3, bad: float32(math.Inf(1))}
	t.Cleanup(n.Close)
	g := nn.NewGraph(nn.Train, dev.Activations())
	n.supervision = backbone.Supervise(g, network.Decoder(g, network.Encoder(g, g.Input("image", 1, 1, 8, 8, 8))), 1,
		[3]int{8, 8, 8}, nn.LossOptions{CE: 1, Dice: 1})
	check(g.Err())
	check(n.Declare(g))
	optimizer, err := train.NewOptimizer(n, o, nil, o.Accumulate > 1)
	check(err)
	t.Cleanup(optimizer.Close)
	n.program, err = nn.Compile(dev, g, n.Params, nn.Options{Loss: n.supervision.Loss, Update: optimizer.Updater()})
	check(err)
	t.Cleanup(n.program.Close)
	return n, optimizer
}

// all reads every parameter and state.
func (n *normed) all() (map[string][]float32, error) {
	values, errs := map[string][]float32{}, []error(nil)
	for _, name := range n.Names() {
		v, err := n.Read(name)
		values[name], errs = v, append(errs, err)
	}
	return values, errors.Join(errs...)
}

// task is normed for the loop.
type task struct{ *normed }

func (t task) Params() train.Params { return t.normed.Params }

func (t task) Batch(_ context.Context, step int) ([]float32, error) {
	r, image := rand.New(rand.NewPCG(1, uint64(step))), make([]float32, voxels)
	for i := range image {
		image[i] = float32(r.NormFloat64())
	}
	if step == t.last {
		image[voxels/2] = t.bad
	}
	return image, nil
}

func (t task) Step(step int, image []float32) (r train.Result, err error) {
	if step == t.last {
		if t.before, err = t.all(); err != nil {
			return r, err
		}
	}
	target, loss := make([]float32, voxels), make([]float32, 1)
	for i := range target {
		target[i] = float32(i % 3)
	}
	err = errors.Join(t.program.Set("image", image), t.supervision.Set(t.program, target), t.program.Forward(),
		t.program.Read("loss", loss))
	r.Loss = float64(loss[0])
	if err != nil || math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
		return r, err
	}
	return r, t.program.Backward()
}

func (task) Validate(context.Context, int) (voxsaw.Validation, error) {
	return voxsaw.Validation{}, nil
}

// TestStepThatIsNotFiniteChangesNothing: a step whose loss is not finite leaves parameters and
// states alone. Its forward pass moved batch norm's running statistics before that was known.
func TestStepThatIsNotFiniteChangesNothing(t *testing.T) {
	for _, clip := range []float64{5, 0} {
		t.Run(fmt.Sprintf("clip %v", clip), func(t *testing.T) {
			o := voxsaw.DefaultTraining()
			o.Steps, o.Warmup, o.Clip, o.ValidateEvery = 5, 0, clip, 0
			n, optimizer := newNormed(t, o)
			first, err := n.all()
			if err != nil {
				t.Fatal(err)
			}
			_, err = train.Train(t.Context(), task{n}, train.Setup{Options: o, Optimizer: optimizer})
			if diverged := new(voxsaw.DivergedError); !errors.As(err, &diverged) || diverged.Step != n.last {
				t.Fatalf("got %v, want that step %d diverged", err, n.last)
			}
			after, err := n.all()
			if err != nil {
				t.Fatal(err)
			}
			states := 0
			for _, name := range slices.Sorted(maps.Keys(after)) {
				if !slices.Equal(after[name], n.before[name]) {
					t.Errorf("%s is %v after the step, %v before it", name, after[name], n.before[name])
				}
				if !n.Trained(name) {
					states++
					if slices.Equal(after[name], first[name]) {
						t.Errorf("%s was not moved by the steps before", name)
					}
				}
			}
			if states == 0 {
				t.Error("the network has no states")
			}
		})
	}
}

// A step whose loss is finite and whose gradient is not spoils the parameters in memory where each
// takes its step within the backward pass, which is so without clipping. It ends the run, no
// checkpoint has such parameters, and the run goes on from the last one as if nothing had happened.
func TestGradientThatIsNotFiniteKeepsTheLastCheckpoint(t *testing.T) {
	for _, clip := range []float64{5, 0} {
		t.Run(fmt.Sprintf("clip %v", clip), func(t *testing.T) {
			o := voxsaw.DefaultTraining()
			o.Steps, o.Warmup, o.Clip, o.ValidateEvery, o.CheckpointEvery = 5, 0, clip, 0, 1
			path := filepath.Join(t.TempDir(), "run")
			id := checkpoint.Description{Kind: "test", Settings: "task: test\n", Run: "train: {}\n",
				TrainedOn: []string{"case"}, Version: "v1", Device: "cpu", Fingerprint: "abc"}
			run := func(path string, mode voxsaw.Mode, bad float32) (*normed, error) {
				n, optimizer := newNormed(t, o)
				n.bad = bad
				folder, err := train.OpenFolder(path, id, mode)
				if err != nil {
					t.Fatal(err)
				}
				_, err = train.Train(t.Context(), task{n}, train.Setup{Options: o, Optimizer: optimizer,
					Folder: folder})
				return n, err
			}
			// Its square is no float32: batch norm makes zeros of all voxels, whose gradient is
			// none.
			n, err := run(path, voxsaw.ModeNew, 1e25)
			if diverged := new(voxsaw.DivergedError); !errors.As(err, &diverged) || diverged.Step != n.last ||
				!numbers.Finite(diverged.Loss) || numbers.Finite(diverged.GradNorm) ||
				diverged.Path != train.Last(path) {
				t.Fatalf("got %v, want that the gradient of step %d diverged", err, n.last)
			}
			if d, err := checkpoint.Read(train.Last(path)); err != nil || d.Step != n.last {
				t.Fatalf("the last checkpoint is of step %d, %v; want %d", d.Step, err, n.last)
			}
			resumed, err := run(path, voxsaw.ModeResume, 0)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := run(filepath.Join(t.TempDir(), "run"), voxsaw.ModeNew, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, errGot := resumed.all()
			want, errWant := whole.all()
			if err := errors.Join(errGot, errWant); err != nil || !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("other weights than those of a run that nothing happened to (%v)", err)
			}
		})
	}
}

// parted is normed on two images a step, one after the other as micro-batches.
type parted struct {
	task
	group  train.Group
	images func(step int) []float32 // one behind the other
}

func (p parted) Batch(_ context.Context, step int) ([]float32, error) { return p.images(step), nil }

func (p parted) MicroBatch(batch []float32, i, n int) []float32 { return train.MicroBatch(batch, i, n) }

func (p parted) Step(_ int, image []float32) (r train.Result, err error) {
	target := make([]float32, voxels)
	for i := range target {
		target[i] = float32(i % 3)
	}
	if err = errors.Join(p.program.Set("image", image), p.supervision.Set(p.program, target),
		p.program.Forward()); err != nil {
		return r, err
	}
	if p.group.Alone() {
		loss := make([]float32, 1)
		err = p.program.Read("loss", loss)
		r.Loss = float64(loss[0])
	} else {
		var losses []float64
		losses, err = p.program.Reduce(p.group.AllReduce)
		for _, l := range losses {
			r.Loss += l
		}
	}
	if err != nil {
		return r, err
	}
	return r, p.group.Backward(p.program)
}

// With batch normalisation of micro-batches a step is the mean of the steps on each micro-batch
// alone, and the running statistics have seen each once, in their order.
func TestPartNormIsTheMeanOfItsParts(t *testing.T) {
	image := func(n uint64) []float32 {
		r, image := rand.New(rand.NewPCG(n, 9)), make([]float32, voxels)
		for i := range image {
			image[i] = float32(r.NormFloat64()) * float32(n)
		}
		return image
	}
	o := voxsaw.DefaultTraining()
	o.Warmup, o.Clip, o.ValidateEvery, o.Momentum, o.WeightDecay, o.Schedule = 0, 0, 0, 0, 0, "constant"
	run := func(steps, accumulate int, lr float64, images func(step int) []float32) (before,
		after map[string][]float32) {
		o := o
		o.Steps, o.Accumulate, o.LR = steps, accumulate, lr
		n, optimizer := newNormed(t, o)
		n.last = -1
		group := train.Group{}.Accumulating(accumulate)
		before, err := n.all()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := train.Train(t.Context(), parted{task{n}, group, images},
			train.Setup{Options: o, Optimizer: optimizer, Group: group}); err != nil {
			t.Fatal(err)
		}
		if after, err = n.all(); err != nil {
			t.Fatal(err)
		}
		return before, after
	}
	const lr = 0.1
	first, both := run(1, 2, lr, func(int) []float32 { return append(image(1), image(2)...) })
	_, one := run(1, 0, lr, func(int) []float32 { return image(1) })
	_, two := run(1, 0, lr, func(int) []float32 { return image(2) })
	_, looked := run(2, 0, 0, func(step int) []float32 { return image(uint64(step + 1)) })
	moved, states := 0, 0
	for name, values := range both {
		for i, v := range values {
			want := (one[name][i] + two[name][i]) / 2
			if strings.Contains(name, "running") {
				want = looked[name][i]
				states++
			} else if v != first[name][i] {
				moved++
			}
			if math.Abs(float64(v-want)) > 1e-5*(1+math.Abs(float64(want))) {
				t.Errorf("%s %d is %v, want %v", name, i, v, want)
			}
		}
	}
	if moved < 100 || states == 0 {
		t.Errorf("%d parameters moved, %d running statistics", moved, states)
	}
}
