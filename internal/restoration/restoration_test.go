package restoration

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// roles divides the cases of a store.
func roles(store *prepared.Store, held int) sample.Data {
	d := sample.Data{Store: store}
	for record := range store.Records() {
		d.Train = append(d.Train, record.ID)
	}
	d.Validate, d.Train = d.Train[:held], d.Train[held:]
	return d
}

var names = []string{"mae", "fusion"}

// tiny are settings of a task that a test can afford, before they are resolved.
func tiny(t testing.TB, name string) pretext.Config {
	t.Helper()
	of, err := pretext.Scans.Of(name)
	if err != nil {
		t.Fatal(err)
	}
	c := of.New()
	shared := c.Common()
	*shared.Network = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance"}
	*shared.Crop, *shared.Batch = [3]int{16, 16, 16}, 2
	switch c := c.(type) {
	case *Config[Masked]:
		c.Task.MaskBlock = 4
	case *Config[Fusion]:
		c.Task = Fusion{Coefficients: 3, FewestBoxes: 6, MostBoxes: 10, SmallestBox: 6, LargestBox: 0.7}
	}
	return c
}

func resolved(t testing.TB, c pretext.Config) pretext.Config {
	t.Helper()
	if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
		t.Fatal(err)
	}
	return c
}

// modelOf is the inside of a configuration.
type modelOf interface {
	pretext.Config
	declared
	task() task
	pretrain(context.Context, voxsaw.Device, sample.Data, voxsaw.RunOptions, train.Group) (voxsaw.Summary, error)
}

// Patients never seen are restored better than by simple answers, and a checkpoint scores the same.
func TestPretrainingLearns(t *testing.T) {
	store, dev := traintest.Phantoms(t, 10, [3]int{24, 20, 20}), traintest.CPU(t)
	data := roles(store, 3)
	for _, name := range names {
		c := tiny(t, name)
		options := c.Common().Train
		options.Steps, options.LR = 150, 0.05
		run := filepath.Join(t.TempDir(), name)
		summary, err := resolved(t, c).Pretrain(t.Context(), dev, data, voxsaw.RunOptions{Folder: run, Loaders: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, description, e, err := pretext.Scans.Open(t.Context(), dev, filepath.Join(run, "last.safetensors"),
			pretext.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if description.Kind != name || len(description.TrainedOn) != 7 {
			t.Errorf("a checkpoint of kind %s, trained on %v", description.Kind, description.TrainedOn)
		}
		held, err := sample.Open(store, data.Validate)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Evaluate(t.Context(), held)
		if err != nil || got.Final()[got.Score] != summary.Validation.Score || got.Items != 2*len(held) {
			t.Errorf("%s: %+v, %v; the last validation scored %v", name, got, err, summary.Validation.Score)
		}
		if got.Final()[got.Score] < got.Chance[got.Score]+0.08 {
			t.Errorf("%s: %.3f, by chance %.3f", name, got.Final(), got.Chance)
		}
		picture, err := e.Picture(held[0])
		if err != nil || picture.Image.Bounds().Dx() < 3*tileSize || picture.Image.Bounds().Dy() < 2*tileSize ||
			!strings.Contains(picture.Caption, held[0].Name()) {
			t.Errorf("%q, %v", picture.Caption, err)
		}
	}
}

// newTestLearner compiles a task without an optimiser.
func newTestLearner(t *testing.T, dev voxsaw.Device, c modelOf, store *prepared.Store) *learner {
	t.Helper()
	d, err := device.From(dev)
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(d, 7)
	t.Cleanup(params.Close)
	if err := c.Declare(params); err != nil {
		t.Fatal(err)
	}
	w := pretext.Workbench{Workbench: train.Workbench{Device: d, Params: params, Optimizer: traintest.Keep{}}}
	for record := range store.Records() {
		opened, err := store.Open(record.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.Train = append(w.Train, opened)
	}
	l, err := newLearner(c.task(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// The gradient of the whole loss, through decoder and encoder, is its slope: along the gradient of
// each tensor, and of all together. The residual U-Net has deep supervision.
func TestGradientsAreSlopes(t *testing.T) {
	store, dev := traintest.Phantoms(t, 2, [3]int{20, 20, 20}), traintest.Direct(t)
	for _, network := range []voxsaw.Network{
		{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance", Activation: "elu"},
		{Kind: "resenc", Channels: 4, Levels: 3, Norm: "instance", Activation: "elu", Blocks: []int{1, 1, 1, 1}},
	} {
		for _, name := range names {
			c := tiny(t, name)
			*c.Common().Network = network
			l := newTestLearner(t, dev, resolved(t, c).(modelOf), store)
			b, err := l.Batch(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			traintest.Slopes(t, network.Kind+" "+name, l.Bench.Params, func() float64 {
				result, err := l.Step(0, b)
				if err != nil {
					t.Fatal(err)
				}
				return result.Loss
			}, "encoder.", "decoder.")
		}
	}
}

// The squared error counts masked voxels alone.
func TestVisibleVoxelsDoNotCount(t *testing.T) {
	store, dev := traintest.Phantoms(t, 2, [3]int{20, 20, 20}), traintest.CPU(t)
	l := newTestLearner(t, dev, resolved(t, tiny(t, "mae")).(modelOf), store)
	b, err := l.Batch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	loss, _, err := l.forward(0, b)
	if err != nil {
		t.Fatal(err)
	}
	restored := make([]float32, len(b.targets))
	if err := l.Training.Read(restoredName(0), restored); err != nil {
		t.Fatal(err)
	}
	want, n := 0.0, 0.0
	for i, c := range b.counts {
		if c == 0 {
			b.targets[i] = 1000
			continue
		}
		want += math.Pow(float64(restored[i]-b.targets[i]), 2)
		n++
	}
	if want /= n; math.Abs(loss-want) > 1e-5*want {
		t.Errorf("the loss is %v, want %v", loss, want)
	}
	if again, _, err := l.forward(0, b); err != nil || again != loss {
		t.Errorf("%v, %v, with other targets where nothing is masked; it was %v", again, err, loss)
	}
}

// A voxel that is no number makes the loss none, which the loop reports; no gradient is computed.
func TestLossThatIsNotFinite(t *testing.T) {
	store, dev := traintest.Phantoms(t, 2, [3]int{20, 20, 20}), traintest.CPU(t)
	for _, name := range names {
		l := newTestLearner(t, dev, resolved(t, tiny(t, name)).(modelOf), store)
		b, err := l.Batch(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		b.images[100] = float32(math.NaN())
		result, err := l.Step(0, b)
		if err != nil || !math.IsNaN(result.Loss) {
			t.Errorf("%s: loss %v, %v", name, result.Loss, err)
		}
	}
}

// Crops with much air are not taken where there are others.
func TestMaxAir(t *testing.T) {
	store, dev := traintest.Phantoms(t, 2, [3]int{96, 64, 24}), traintest.CPU(t)
	air := func(limit float64) (share float64) {
		c := tiny(t, "mae")
		*c.Common().MaxAir, *c.Common().Batch = limit, 32
		l := newTestLearner(t, dev, resolved(t, c).(modelOf), store)
		b, err := l.Batch(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range b.targets {
			if v == -1 {
				share += 1 / float64(len(b.targets))
			}
		}
		return share
	}
	if all, few := air(1), air(0.1); few > 0.2 || all < 2*few || all < 0.3 {
		t.Errorf("%.2f of the crops is air with max_air 1, %.2f with 0.1", all, few)
	}
}

// Two ranks, and two micro-batches, leave the weights of the whole batch at once.
func TestTwoRanksEqualOne(t *testing.T) {
	store := traintest.Phantoms(t, 4, [3]int{20, 20, 20})
	for _, name := range names {
		c := tiny(t, name)
		c.Common().Train.Steps, *c.Common().Batch = 3, 4
		m := resolved(t, c).(modelOf)
		folders := []string{filepath.Join(t.TempDir(), "0"), filepath.Join(t.TempDir(), "1"),
			filepath.Join(t.TempDir(), "alone")}
		if _, err := m.Pretrain(t.Context(), traintest.Direct(t), roles(store, 1),
			voxsaw.RunOptions{Folder: folders[2]}); err != nil {
			t.Fatal(err)
		}
		devices := []voxsaw.Device{traintest.Direct(t), traintest.Direct(t)}
		traintest.Both(t, func(rank int, group train.Group) error {
			_, err := m.pretrain(t.Context(), devices[rank], roles(store, 1), voxsaw.RunOptions{Folder: folders[rank]},
				group)
			return err
		})
		last := func(n int) string { return filepath.Join(folders[n], "last.safetensors") }
		traintest.Equal(t, last(0), last(1), 0)
		traintest.Equal(t, last(2), last(0), 2e-4)
		c.Common().Train.Accumulate = 2
		folders = append(folders, filepath.Join(t.TempDir(), "micro-batches"))
		if _, err := resolved(t, c).(modelOf).Pretrain(t.Context(), traintest.Direct(t), roles(store, 1),
			voxsaw.RunOptions{Folder: folders[3]}); err != nil {
			t.Fatal(err)
		}
		traintest.Equal(t, last(2), last(3), 2e-4)
	}
}

// A run that is stopped and resumed leaves the same bits as one that ran through.
func TestResumeIsExact(t *testing.T) {
	store, dev := traintest.Phantoms(t, 4, [3]int{20, 20, 20}), traintest.CPU(t)
	for _, name := range names {
		c := tiny(t, name)
		o := c.Common().Train
		o.Steps, o.ValidateEvery, o.CheckpointEvery = 6, 3, 0
		resolved(t, c)
		traintest.Resumes(t, 4, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
			return c.Pretrain(ctx, dev, roles(store, 2), o)
		}, "last.safetensors", "best.safetensors", "validation.csv")
	}
}

func TestMistakesAreNamed(t *testing.T) {
	shared := func(spoil func(pretext.Common)) func(pretext.Config) {
		return func(c pretext.Config) { spoil(c.Common()) }
	}
	masked := func(spoil func(*Masked)) func(pretext.Config) {
		return func(c pretext.Config) { spoil(&c.(*Config[Masked]).Task) }
	}
	fusion := func(spoil func(*Fusion)) func(pretext.Config) {
		return func(c pretext.Config) { spoil(&c.(*Config[Fusion]).Task) }
	}
	for _, m := range []struct {
		want, task string
		spoil      func(pretext.Config)
	}{
		{"multiples of 2", "mae", shared(func(c pretext.Common) { *c.Crop = [3]int{17, 16, 16} })},
		{"batch is 0", "mae", shared(func(c pretext.Common) { *c.Batch = 0 })},
		{"validate_cases is -1", "mae", shared(func(c pretext.Common) { *c.ValidateCases = -1 })},
		{"max_air is NaN", "fusion", shared(func(c pretext.Common) { *c.MaxAir = math.NaN() })},
		{"no network \"u\"", "fusion", shared(func(c pretext.Common) { c.Network.Kind = "u" })},
		{"there is no schedu", "fusion", shared(func(c pretext.Common) { c.Train.Schedule = "x" })},
		{"mask_share is 1:", "mae", masked(func(m *Masked) { m.MaskShare = 1 })},
		{"masks 0 of the 64", "mae", masked(func(m *Masked) { m.MaskShare = 0.01 })},
		{"mask_share is 1.2", "mae", masked(func(m *Masked) { m.MaskShare = 1.2 })},
		{"mask_block is 0", "mae", masked(func(m *Masked) { m.MaskBlock = 0 })},
		{"multiples of mask_block, which is 5", "mae", masked(func(m *Masked) { m.MaskBlock = 5 })},
		{"coefficients is 1", "fusion", fusion(func(f *Fusion) { f.Coefficients = 1 })},
		{"fewest_boxes is 11, must be from 1 to 10", "fusion", fusion(func(f *Fusion) { f.FewestBoxes = 11 })},
		{"most_boxes is 0", "fusion", fusion(func(f *Fusion) { f.MostBoxes = 0 })},
		{"smallest_box is 0", "fusion", fusion(func(f *Fusion) { f.SmallestBox = 0 })},
		{"largest_box is 2", "fusion", fusion(func(f *Fusion) { f.LargestBox = 2 })},
		{"smallest_box is 12", "fusion", fusion(func(f *Fusion) { f.SmallestBox = 12 })},
	} {
		c := tiny(t, m.task)
		m.spoil(c)
		if err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err == nil ||
			!strings.Contains(err.Error(), m.want) {
			t.Errorf("%s: error %v, want one with %q", m.task, err, m.want)
		}
	}
	puzzles := traintest.Checkpoint(t, "jigsaw")
	of, err := pretext.Scans.Of("mae")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := of.Open(t.Context(), traintest.CPU(t), puzzles, pretext.OpenOptions{}); err == nil ||
		!strings.Contains(err.Error(), `kind "jigsaw"`) {
		t.Errorf("a checkpoint of puzzles: %v", err)
	}
}
