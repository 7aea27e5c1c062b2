package puzzle3d

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// both are hard puzzles with masked restoration beside them.
func both() Config {
	c := hard()
	c.Restore, c.RestoreCrop, c.MaskBlock = 2, [3]int{16, 16, 12}, 4
	return c
}

// newTestLearner compiles a training without an optimiser.
func newTestLearner(t *testing.T, c Config, store *prepared.Store) (*learner, *nn.Params) {
	t.Helper()
	d, err := device.From(traintest.Direct(t))
	if err != nil {
		t.Fatal(err)
	}
	game, err := c.game(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	network, restoring, err := c.learns()
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(d, 7)
	t.Cleanup(params.Close)
	if err := game.Declare(network, params); err != nil {
		t.Fatal(err)
	}
	w := pretext.Workbench{Workbench: train.Workbench{Device: d, Params: params, Optimizer: traintest.Keep{}},
		Train: opened(t, store, data(store, 0).Train...)}
	l, err := newLearner(c, game, network, restoring, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, params
}

// The gradient of the whole loss, through head, encoder and decoder, is its slope, on every grid.
func TestRestorationBesidePuzzlesHasSlopes(t *testing.T) {
	c := both()
	// what a second round sees depends on the answer, which jumps
	c.Network.Activation, c.Rounds = "elu", 1
	slopesOnGrids(t, c, 3)
	// deep supervision
	c.Network = voxsaw.Network{Kind: "resenc", Channels: 4, Levels: 2, Norm: "group", Groups: 2, Activation: "elu",
		Blocks: []int{1, 1, 1}}
	slopesOnGrids(t, c, 1)
}

// slopesOnGrids tests the gradients of the first steps on so many grids.
func slopesOnGrids(t *testing.T, c Config, grids int) {
	t.Helper()
	l, params := newTestLearner(t, resolved(t, c), phantoms(t, 2, [3]int{24, 20, 20}))
	tested := map[int]bool{}
	for step := 0; len(tested) < grids && step < 50; step++ {
		b, err := l.Batch(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		if tested[b.Grid] {
			continue
		}
		tested[b.Grid] = true
		traintest.Slopes(t, c.Network.Kind+" "+c.Grids[b.Grid], params, func() float64 { return stepOf(t, l, b).Loss },
			"encoder.", "decoder.", "puzzle.")
	}
	if len(tested) < grids {
		t.Errorf("grids %v were drawn", tested)
	}
}

func stepOf(t *testing.T, l *learner, b *jigsaw.Batch) train.Result {
	t.Helper()
	r, err := l.Step(0, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The loss is that of the puzzles, which are the same as without restoration, and the weighted
// squared error.
func TestRestorationIsAddedToThePuzzles(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 20})
	loss := func(weight float64) (train.Result, *jigsaw.Batch) {
		c := both()
		if c.Restore = weight; weight == 0 {
			c = hard()
		}
		l, _ := newTestLearner(t, resolved(t, c), store)
		b, err := l.Batch(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		return stepOf(t, l, b), b
	}
	alone, puzzles := loss(0)
	light, _ := loss(0.5)
	heavy, same := loss(3)
	if !slices.Equal(puzzles.Patches, same.Patches) {
		t.Error("restoration changes the puzzles")
	}
	mse := light.Metrics[len(light.Metrics)-1]
	if mse.Name != "mse" || mse.Value <= 0 {
		t.Fatalf("metrics %v", light.Metrics)
	}
	for weight, got := range map[float64]float64{0.5: light.Loss, 3: heavy.Loss} {
		if want := alone.Loss + weight*mse.Value; math.Abs(got-want) > 1e-5*want {
			t.Errorf("weight %v: the loss is %v, want %v + %v x %v", weight, got, alone.Loss, weight, mse.Value)
		}
	}
}

// notFinite is an addition whose loss is no number.
type notFinite struct{ jigsaw.Addition }

func (notFinite) Compare(*nn.Program, train.Group) (float64, []voxsaw.Metric, error) {
	return math.NaN(), nil, nil
}

// A loss of restoration that is no number makes that of the step none: the step ends before the
// backward pass.
func TestRestorationThatIsNotFinite(t *testing.T) {
	l, _ := newTestLearner(t, resolved(t, both()), phantoms(t, 2, [3]int{24, 20, 20}))
	b, err := l.Batch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	b.Beside = notFinite{b.Beside}
	if r := stepOf(t, l, b); !math.IsNaN(r.Loss) || r.Metrics != nil {
		t.Errorf("loss %v, metrics %v", r.Loss, r.Metrics)
	}
}

// Two ranks leave the weights of one that has twice the batch, but for the order of sums: what that
// does grows with each step, from 1e-5 after two to 1e-3 after four.
func TestTwoRanksEqualOneWithRestoration(t *testing.T) {
	store, c := phantoms(t, 3, [3]int{24, 20, 20}), both()
	c.Batch, c.Train.Steps, c.Train.Clip = 4, 2, 1
	twoRanks(t, store, resolved(t, c), 2e-4)
	// parameters are updated within the backward pass
	c.Train.Clip, c.Train.Steps, c.Train.LR = 0, 2, 1e-3
	twoRanks(t, store, resolved(t, c), 1e-3)
}

// A run is resumed to the bit, and its checkpoint opens with both tasks' measures.
func TestRestorationResumesAndIsMeasured(t *testing.T) {
	store, dev, c := phantoms(t, 5, [3]int{24, 20, 20}), testDevice(t), both()
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 4, 2, 0
	through, summary := resumes(t, dev, resolved(t, c), store)
	_, _, e, err := pretext.Scans.Open(
		t.Context(),
		dev,
		filepath.Join(through, "last.safetensors"),
		pretext.OpenOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got, err := e.Evaluate(t.Context(), opened(t, store, "case00", "case01"))
	if err != nil {
		t.Fatal(err)
	}
	n := len(got.Measures)
	last := summary.Validation.Metrics[len(summary.Validation.Metrics)-1]
	if got.Measures[n-1].Key != "explained" || last.Name != "explained" || got.Final()[n-1] != last.Value ||
		got.Final()[got.Score] != summary.Validation.Score {
		t.Errorf("%+v; the last validation was %+v", got, summary.Validation)
	}
	for _, row := range append(got.Rounds, got.Chance, got.Ceiling) {
		if row != nil && len(row) != n {
			t.Errorf("%d numbers for %d measures", len(row), n)
		}
	}
}

// Patients never seen: both tasks are done better than by chance after a short training.
func TestPuzzlesAndRestorationAreLearnt(t *testing.T) {
	if !turns.Has(t, 1, 2) {
		return
	}
	store, dev, c := phantoms(t, 16, [3]int{24, 20, 20}), testDevice(t), both()
	c.Crop, c.Patch, c.Grids = [3]int{22, 18, 18}, [3]int{8, 4, 4}, []string{"2x2x2", "2x3x2"}
	c.Network.Channels, c.Features, c.Hidden, c.Batch, c.Rounds = 8, 64, 32, 4, 2
	c.Train.Steps, c.Train.LR = 80, 0.03
	run := filepath.Join(t.TempDir(), "run")
	if _, err := Pretrain(t.Context(), dev, resolved(t, c), data(store, 6),
		voxsaw.RunOptions{Folder: run, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	_, _, e, err := pretext.Scans.Open(t.Context(), dev, filepath.Join(run, "last.safetensors"),
		pretext.OpenOptions{Items: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got, err := e.Evaluate(t.Context(), opened(t, store, data(store, 6).Validate...))
	if err != nil {
		t.Fatal(err)
	}
	patches, explained := got.Score, len(got.Measures)-1
	t.Logf("%.2f of the patches in place, chance %.2f; %.2f of the variance explained, chance %.2f",
		got.Final()[patches], got.Chance[patches], got.Final()[explained], got.Chance[explained])
	if got.Final()[patches] < 2*got.Chance[patches] || got.Final()[explained] < got.Chance[explained]+0.08 {
		t.Errorf("%v, by chance %v", got.Final(), got.Chance)
	}
}

// The arithmetic of a step is that of both tasks, as PyTorch counts it. Micro-batches run forward
// once more.
func TestFLOPsWithRestoration(t *testing.T) {
	store, dev := phantoms(t, 2, [3]int{72, 36, 36}), testDevice(t)
	c := tiny()
	c.Network.Levels, c.Crop, c.Patch, c.Features, c.Hidden, c.Train.Steps = 4, [3]int{72, 36, 36}, [3]int{32, 16, 16},
		24, 12, 1
	c.Restore, c.RestoreCrop = 1, [3]int{32, 32, 32}
	c = resolved(t, c)
	look, puzzles := traintest.FLOPs(t, "..", "jigsaw")
	forward, restored := traintest.FLOPs(t, "..", "mae")
	training := func(o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return Pretrain(t.Context(), dev, c, data(store, 0), o)
	}
	traintest.Counts(t, puzzles+restored, training)
	c.Train.Accumulate = 2
	traintest.Counts(t, look+forward+puzzles+restored, training)
}

func TestRestoreSettingsNameWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"restore is -1":           func(c *Config) { c.Restore = -1 },
		"restore is +Inf":         func(c *Config) { c.Restore = math.Inf(1) },
		"set restore, the weight": func(c *Config) { c.Restore = 0 },
		"restore: crop":           func(c *Config) { c.RestoreCrop = [3]int{15, 16, 12} },
		"multiples of mask_block": func(c *Config) { c.MaskBlock = 5 },
		"restore: mask_share":     func(c *Config) { c.MaskShare = 1.5 },
		"restore: norm batch would": func(c *Config) {
			c.Network = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 2, Norm: "batch"}
		},
	} {
		c := both()
		spoil(&c)
		if _, err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	c := hard()
	c.Restore = 1
	if c = resolved(t, c); c.RestoreCrop != [3]int{64, 64, 64} || c.MaskShare != 0.75 || c.MaskBlock != 16 {
		t.Errorf("crops of %v, %v masked in blocks of %d", c.RestoreCrop, c.MaskShare, c.MaskBlock)
	}
}
