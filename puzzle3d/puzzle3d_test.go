package puzzle3d

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

var testDevice, phantoms = traintest.CPU, traintest.Phantoms

// tiny is a puzzle that a test can train on.
func tiny() Config {
	c := DefaultConfig()
	c.Network = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance"}
	c.Grid, c.Crop, c.Patch = [4]int{2, 2, 2}, [3]int{16, 12, 12}, [3]int{6, 4, 4}
	c.Features, c.Hidden, c.SkipAir = 12, 10, true
	return c
}

func resolved(t testing.TB, c Config) Config {
	t.Helper()
	c, err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func data(store *prepared.Store, held int) sample.Data {
	d := sample.Data{Store: store}
	for i, info := range slices.Collect(store.Records()) {
		if i < held {
			d.Validate = append(d.Validate, info.ID)
		} else {
			d.Train = append(d.Train, info.ID)
		}
	}
	return d
}

func TestThePapersPuzzlesComeFromTheirGrid(t *testing.T) {
	for _, want := range []struct{ grid, patch int }{{3, 32}, {2, 48}} {
		c := DefaultConfig()
		c.Grid = [4]int{want.grid, want.grid, want.grid}
		if c = resolved(t, c); c.Patch != [3]int{want.patch, want.patch, want.patch} {
			t.Errorf("a crop of 120 in a grid of %d has patches of %v, the paper's are %d", want.grid, c.Patch,
				want.patch)
		}
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"at least one cell":      func(c *Config) { c.Grid[1] = 0 },
		"larger than a cell":     func(c *Config) { c.Patch = [3]int{48, 48, 48} },
		"multiples of 16":        func(c *Config) { c.Patch = [3]int{24, 24, 24} },
		"crop larger":            func(c *Config) { c.Crop = [3]int{40, 40, 40} },
		"head \"symetric\"":      func(c *Config) { c.Head = "symetric" },
		"distance is 4":          func(c *Config) { c.Distance = 4 },
		"share":                  func(c *Config) { c.Share = 0 },
		"batch is 0":             func(c *Config) { c.Batch = 0 },
		"rounds is 0":            func(c *Config) { c.Rounds = 0 },
		"column_sum is -1":       func(c *Config) { c.ColSum = -1 },
		"max_air is 2":           func(c *Config) { c.MaxAir = 2 },
		"intensity is 1":         func(c *Config) { c.Intensity = 1 },
		"too large":              func(c *Config) { c.Crop[0] = 1 << 20 },
		"there is no schedule":   func(c *Config) { c.Train.Schedule = "x" },
		"network preset":         func(c *Config) { c.Network.Preset = "x" },
		"validate_shuffles is 0": func(c *Config) { c.ValidateShuffles = 0 },
		"classes: 1 of the 27!":  func(c *Config) { c.Head, c.Classes = KWay, 1 },
		"criterion \"far\"":      func(c *Config) { c.Head, c.Criterion = KWay, "far" },
		"100 orders alone":       func(c *Config) { c.Head, c.Share = KWay, 0.5 },
		"set binary to false":    func(c *Config) { c.Head, c.Binary = KWay, true },
	} {
		c := DefaultConfig()
		spoil(&c)
		if _, err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestDataThatCannotBeTrainedOn(t *testing.T) {
	store, dev, c := phantoms(t, 2, [3]int{14, 14, 14}), testDevice(t), tiny()
	c.Train.Steps = 1
	c = resolved(t, c)
	for want, d := range map[string]sample.Data{
		"nothing to train on": {Store: store, Validate: []string{"case00"}},
		"is both to train":    {Store: store, Train: []string{"case00", "case01"}, Validate: []string{"case01"}},
		"no case \"x\"":       {Store: store, Train: []string{"x"}, Validate: []string{"case01"}},
	} {
		if _, err := Pretrain(t.Context(), dev, c, d, voxsaw.RunOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	// The crop is 16 long, the cases are 14: padded, said once.
	watch := &observer{}
	if _, err := Pretrain(t.Context(), dev, c, data(store, 1), voxsaw.RunOptions{Observer: watch}); err != nil {
		t.Fatal(err)
	}
	if notes := watch.notes; len(notes) != 4 || !strings.Contains(notes[0], "case00, case01") ||
		!strings.Contains(notes[0], "padded with air") {
		t.Errorf("notes %q", notes)
	}
	if _, err := Pretrain(t.Context(), dev, c, data(store, 1), voxsaw.RunOptions{Memory: 1000}); !errors.As(err,
		new(*nn.MemoryError)) {
		t.Errorf("a limit of 1000 bytes: %v", err)
	}
}

func opened(t testing.TB, store *prepared.Store, ids ...string) []sample.Sample {
	t.Helper()
	cases, err := sample.Open(store, ids)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Patches must be what lies in the scan where the layout says, in the order of positions with the
// last axis fastest, and D, H, W along k, j, i.
func TestPatchesAreCutWhereTheyShould(t *testing.T) {
	store, c := phantoms(t, 2, [3]int{20, 18, 16}), resolved(t, tiny())
	cases := opened(t, store, "case00", "case01")
	whole := make([]float32, cases[1].(*prepared.Case).Len())
	if err := cases[1].Crop(whole, [3]int{}, cases[1].Size()); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 8*c.layout().Values())
	if name, err := (held{c, cases}).Cut(1, c.grid(), got); err != nil || name != "case01" {
		t.Fatalf("%s, %v", name, err)
	}
	next := 0
	for ci := range 2 {
		for cj := range 2 {
			for ck := range 2 {
				// The crop of 16x12x12 starts at (2, 3, 2); cells are 8x6x6, and patches of 6x4x4
				// in their middle start 1 further.
				i0, j0, k0 := 2+8*ci+1, 3+6*cj+1, 2+6*ck+1
				for k := range 4 {
					for j := range 4 {
						for i := range 6 {
							if want := whole[i0+i+20*(j0+j+18*(k0+k))]; got[next] != want {
								t.Fatalf("cell (%d, %d, %d): voxel (%d, %d, %d) is %v, want %v", ci, cj, ck, i, j, k,
									got[next], want)
							}
							next++
						}
					}
				}
			}
		}
	}
	// A batch depends on seed and step alone.
	game, err := c.game(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := sampler{config: c, game: game, cases: cases, n: 2}
	a, _ := s.batch(t.Context(), 7)
	b, _ := s.batch(t.Context(), 7)
	other, _ := s.batch(t.Context(), 8)
	if !slices.Equal(a.Patches, b.Patches) || !slices.Equal(a.Cases, b.Cases) ||
		a.Shuffles[1].Distance(b.Shuffles[1]) != 0 {
		t.Error("the same step has different batches")
	}
	if slices.Equal(a.Patches, other.Patches) {
		t.Error("two steps have the same batch")
	}
	// The puzzles of two ranks are those of one.
	s.first, s.n = 1, 1
	if second, _ := s.batch(t.Context(), 7); !slices.Equal(second.Patches, a.Patches[len(a.Patches)/2:]) ||
		second.Cases[0] != a.Cases[1] || second.Shuffles[0].Distance(a.Shuffles[1]) != 0 {
		t.Error("the second puzzle is another on a rank of its own")
	}
	s.first, s.n = 0, 2
	s.config.Intensity = 0.1
	if varied, _ := s.batch(t.Context(), 7); slices.Equal(a.Patches, varied.Patches) {
		t.Error("the augmentation does nothing")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.batch(ended, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Where nothing is held out no checkpoint is the best.
func TestPretrainOnAllCases(t *testing.T) {
	store, dev, c := phantoms(t, 2, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Train.Steps = 2
	summary, err := Pretrain(t.Context(), dev, resolved(t, c), data(store, 0), voxsaw.RunOptions{})
	if err != nil || summary.Step != 2 || summary.BestStep != 0 {
		t.Errorf("%+v, %v", summary, err)
	}
}

// A run is told to the byte what it needs: with so much it runs as without a limit, with a byte
// less it saves some.
func TestNeedOfAPretraining(t *testing.T) {
	store, dev, c := phantoms(t, 1, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Train.Steps = 1
	of := data(store, 0)
	need, err := EstimateMemory(t.Context(), dev, c, of, voxsaw.RunOptions{Folder: filepath.Join(t.TempDir(), "run")})
	if err != nil || need.Bytes <= 0 {
		t.Fatalf("%+v, %v", need, err)
	}
	step := func(memory int64) []string {
		o := &observer{}
		if _, err := Pretrain(t.Context(), dev, c, of, voxsaw.RunOptions{Memory: memory, Observer: o}); err != nil {
			return []string{err.Error()}
		}
		return o.notes
	}
	if free, just, less := step(0), step(need.Bytes), step(need.Bytes-1); !slices.Equal(free, just) ||
		slices.Equal(free, less) {
		t.Errorf("without a limit %q; with what is needed %q; with a byte less %q", free, just, less)
	}
}

// Two ranks, and two micro-batches, leave the weights and the velocities of the whole batch at
// once, but for the order of sums, which is another.
func TestTwoRanksEqualOne(t *testing.T) {
	store, c := phantoms(t, 3, [3]int{24, 20, 20}), tiny()
	c.Head, c.Rounds, c.Binary, c.Batch, c.Train.Steps, c.Train.Clip = Both, 3, true, 4, 4, 1
	twoRanks(t, store, resolved(t, c), 2e-4)
	c.Head, c.Binary, c.Classes, c.SkipAir = KWay, false, 10, false
	twoRanks(t, store, resolved(t, c), 2e-4)
}

func twoRanks(t *testing.T, store *prepared.Store, c Config, tolerance float64) {
	t.Helper()
	alone := filepath.Join(t.TempDir(), "alone")
	if _, err := Pretrain(t.Context(), testDevice(t), c, data(store, 1), voxsaw.RunOptions{Folder: alone}); err != nil {
		t.Fatal(err)
	}
	folders := []string{filepath.Join(t.TempDir(), "0"), filepath.Join(t.TempDir(), "1")}
	devices := []voxsaw.Device{testDevice(t), testDevice(t)}
	traintest.Both(t, func(rank int, group train.Group) error {
		_, err := pretrain(t.Context(), devices[rank], c, data(store, 1), voxsaw.RunOptions{Folder: folders[rank]},
			group)
		return err
	})
	traintest.Equal(t, filepath.Join(folders[0], "last.safetensors"), filepath.Join(folders[1], "last.safetensors"), 0)
	traintest.Equal(t, filepath.Join(alone, "last.safetensors"), filepath.Join(folders[0], "last.safetensors"),
		tolerance)
	divided, micro := c, filepath.Join(t.TempDir(), "micro-batches")
	divided.Train.Accumulate = 2
	if _, err := Pretrain(t.Context(), devices[0], divided, data(store, 1),
		voxsaw.RunOptions{Folder: micro}); err != nil {
		t.Fatal(err)
	}
	traintest.Equal(t, filepath.Join(alone, "last.safetensors"), filepath.Join(micro, "last.safetensors"), tolerance)
	c.Batch = 3
	if _, err := pretrain(t.Context(), devices[0], c, data(store, 1), voxsaw.RunOptions{},
		traintest.Alike(2)); err == nil || !strings.Contains(err.Error(), "multiple of 2") {
		t.Errorf("a batch of 3 on two ranks: %v", err)
	}
}

// A run that is stopped and resumed leaves the same bits as one that ran through; a checkpoint
// opens as a player that scores the same.
func TestResumeIsExactAndCheckpointsSolve(t *testing.T) {
	store, dev, c := phantoms(t, 5, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Head, c.Rounds, c.Network.Norm, c.ValidateShuffles = Both, 3, "batch", 2
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 8, 4, 0
	c = resolved(t, c)
	run := func(path string, mode voxsaw.Mode, ctx context.Context, watch *observer) (voxsaw.Summary, error) {
		return Pretrain(ctx, dev, c, data(store, 2), voxsaw.RunOptions{Folder: path, Mode: mode, Observer: watch})
	}
	through, stopped := filepath.Join(t.TempDir(), "through"), filepath.Join(t.TempDir(), "stopped")
	summary, err := run(through, voxsaw.ModeNew, t.Context(), &observer{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var interrupted *voxsaw.InterruptedError
	if _, err := run(stopped, voxsaw.ModeNew, ctx, &observer{step: 5, cancel: cancel}); !errors.As(err, &interrupted) {
		t.Fatalf("error %v", err)
	}
	var changed *voxsaw.ChangedError
	other := c
	other.Train.LR *= 2
	if _, err := Pretrain(t.Context(), dev, other, data(store, 2),
		voxsaw.RunOptions{Folder: stopped, Mode: voxsaw.ModeResume}); !errors.As(err, &changed) {
		t.Errorf("another learning rate: %v", err)
	}
	if _, err := Pretrain(t.Context(), dev, c, data(store, 1),
		voxsaw.RunOptions{Folder: stopped, Mode: voxsaw.ModeResume}); !errors.As(err, &changed) {
		t.Errorf("other cases: %v", err)
	}
	if _, err := run(stopped, voxsaw.ModeResume, t.Context(), &observer{}); err != nil {
		t.Fatal(err)
	}
	if again, err := run(stopped, voxsaw.ModeResume, t.Context(),
		&observer{step: 1, cancel: func() { t.Error("a finished run took a step") }}); err != nil || again.Step != 8 ||
		math.Abs(again.Validation.Score-summary.Validation.Score) > 1e-6 {
		t.Errorf("a finished run: %+v, %v", again, err)
	}
	traintest.SameFiles(t, through, stopped, "last.safetensors", "best.safetensors", "validation.csv")

	player, err := Open(t.Context(), dev, filepath.Join(through, "last.safetensors"), PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer player.Close()
	if !reflect.DeepEqual(player.Config(), c) {
		t.Errorf("configuration %+v, trained with %+v", player.Config(), c)
	}
	held := opened(t, store, "case00", "case01")
	e, err := player.Evaluate(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	if e.Cases != 2 || e.Puzzles != 4 || len(e.Rounds) != 3 || e.Final().Patches != summary.Validation.Score {
		t.Errorf("evaluation %+v; the run's last validation scored %v", e, summary.Validation.Score)
	}
	if c := e.Ceiling; c.Patches < e.Final().Patches || c.Patches > 1 || c.Near < c.Correct {
		t.Errorf("ceiling %+v, final %+v", c, e.Final())
	}
	if _, err := player.Evaluate(t.Context(), nil); err == nil {
		t.Error("no cases were evaluated")
	}
	more, err := Open(t.Context(), dev, filepath.Join(through, "best.safetensors"), PlayOptions{Rounds: 2, Shuffles: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	if e, err := more.Evaluate(t.Context(), held); err != nil || e.Puzzles != 6 || len(e.Rounds) != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := Open(t.Context(), dev, traintest.Checkpoint(t, checkpoint.Segmentation),
		PlayOptions{}); err == nil || !strings.Contains(err.Error(), "kind") {
		t.Errorf("a checkpoint of fine-tuning: %v", err)
	}
}

// A solver that can tell all patches apart reaches 100 %, to the bit, of any number of cases: the
// report says what is possible where it is less.
func TestTheCeilingOfDistinctPatchesIsOne(t *testing.T) {
	store, dev, c := phantoms(t, 7, [3]int{24, 20, 20}), testDevice(t), resolved(t, tiny())
	c.Train.Steps = 1
	run := filepath.Join(t.TempDir(), "run")
	if _, err := Pretrain(t.Context(), dev, c, data(store, 1), voxsaw.RunOptions{Folder: run}); err != nil {
		t.Fatal(err)
	}
	player, err := Open(t.Context(), dev, filepath.Join(run, "last.safetensors"), PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer player.Close()
	var ids []string
	for info := range store.Records() {
		ids = append(ids, info.ID)
	}
	e, err := player.Evaluate(t.Context(), opened(t, store, ids...))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Metrics{Correct: 1, Near: 1, Patches: 1}); e.Ceiling != want {
		t.Errorf("ceiling %+v", e.Ceiling)
	}
}

// observer keeps notes, and cancels a run after a step.
type observer struct {
	notes  []string
	step   int
	cancel func()
}

func (o *observer) Started(int, int) {}
func (o *observer) Stepped(p voxsaw.Progress) {
	if p.Step == o.step {
		o.cancel()
	}
}
func (o *observer) Validated(int, voxsaw.Validation, bool) {}
func (o *observer) Saved(string, int)                      {}
func (o *observer) Note(text string)                       { o.notes = append(o.notes, text) }

// Puzzles of patients never seen must come out far better than guessing after a short training: 1/8
// of the patches are right by chance.
func TestPretrainingLearns(t *testing.T) {
	store, dev, c := phantoms(t, 24, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Crop, c.Patch = [3]int{22, 18, 18}, [3]int{8, 6, 6}
	c.Features, c.Hidden, c.Batch = 64, 32, 4
	c.Train.Steps, c.Train.LR = 60, 0.03
	c = resolved(t, c)
	summary, err := Pretrain(t.Context(), dev, c, data(store, 8), voxsaw.RunOptions{Loaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Validation.Score < 0.8 {
		t.Errorf("%.2f of the patches are in their place; chance is 0.125", summary.Validation.Score)
	}
}

// Thousands of orders take minutes to choose. Settings are checked without them, and a training
// that is stopped meanwhile ends at once.
func TestChoiceOfOrdersEnds(t *testing.T) {
	store, dev, c := phantoms(t, 3, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Head, c.Classes, c.SkipAir = KWay, 10000, false
	c.Grid, c.Crop, c.Patch = [4]int{3, 3, 3}, [3]int{24, 18, 18}, [3]int{8, 6, 6}
	began := time.Now()
	c = resolved(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Pretrain(ctx, dev, c, data(store, 1), voxsaw.RunOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("ended after %v", took)
	}
}

// A choice among K orders is learnt, too: of patients never seen, far more orders are told than by
// guessing. All puzzles are made with the K orders, in training and afterwards, and resuming is
// exact.
func TestKWayLearns(t *testing.T) {
	const classes = 12
	store, dev, c := phantoms(t, 24, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Head, c.Classes, c.SkipAir = KWay, classes, false
	c.Crop, c.Patch = [3]int{22, 18, 18}, [3]int{8, 6, 6}
	c.Features, c.Hidden, c.Batch, c.ValidateShuffles = 32, 64, 8, 4
	c.Train.Steps, c.Train.LR = 120, 0.03
	c = resolved(t, c)
	game, err := c.game(t.Context())
	if err != nil || len(game.Orders) != classes {
		t.Fatalf("%d orders, %v", len(game.Orders), err)
	}
	through, stopped := filepath.Join(t.TempDir(), "through"), filepath.Join(t.TempDir(), "stopped")
	summary, err := Pretrain(t.Context(), dev, c, data(store, 8), voxsaw.RunOptions{Folder: through, Loaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	player, err := Open(t.Context(), dev, filepath.Join(through, "last.safetensors"), PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer player.Close()
	held := opened(t, store, data(store, 8).Validate...)
	e, err := player.Evaluate(t.Context(), held)
	if err != nil || e.Puzzles != 32 || len(e.Rounds) != 1 || e.Final().Patches != summary.Validation.Score ||
		e.Chance.Correct != 1.0/classes {
		t.Errorf("%+v, %v; the last validation scored %v", e, err, summary.Validation.Score)
	}
	// guessing 10 or more of 32 with a chance of 1/12 happens less than once in 1000 times
	if told := e.Final().Correct * float64(e.Puzzles); told < 10 {
		t.Errorf("%v of %d orders are told", told, e.Puzzles)
	}
	play, err := player.Play(held[0])
	if err != nil {
		t.Fatal(err)
	}
	shuffle := puzzle.Configuration(play.Arrangements[0])
	if game.Orders.Finder()(shuffle) < 0 || len(play.Arrangements) > 2 {
		t.Errorf("arrangements %v", play.Arrangements)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var interrupted *voxsaw.InterruptedError
	if _, err := Pretrain(ctx, dev, c, data(store, 8),
		voxsaw.RunOptions{Folder: stopped, Observer: &observer{step: 7, cancel: cancel}}); !errors.As(err,
		&interrupted) {
		t.Fatalf("error %v", err)
	}
	if _, err := Pretrain(t.Context(), dev, c, data(store, 8),
		voxsaw.RunOptions{Folder: stopped, Mode: voxsaw.ModeResume}); err != nil {
		t.Fatal(err)
	}
	traintest.Equal(t, filepath.Join(through, "last.safetensors"), filepath.Join(stopped, "last.safetensors"), 0)
}

// A loss that is no number stops the run, and names the cases.
func TestNaNReachesTheLoop(t *testing.T) {
	store, dev, c := phantoms(t, 2, [3]int{20, 20, 20}), testDevice(t), tiny()
	c.Train.LR, c.Train.Clip, c.Train.Warmup, c.Train.Steps = 1e30, 0, 0, 20
	c = resolved(t, c)
	var diverged *voxsaw.DivergedError
	_, err := Pretrain(t.Context(), dev, c, data(store, 1), voxsaw.RunOptions{})
	if !errors.As(err, &diverged) || len(diverged.Cases) != c.Batch || diverged.Cases[0] != "case01" {
		t.Errorf("error %v", err)
	}
}

// A learning rate that kills the ReLUs of a head stops the run, and one that it learns with does
// not.
func TestDeadHeadStopsTheRun(t *testing.T) {
	store, dev := phantoms(t, 2, [3]int{20, 20, 20}), testDevice(t)
	for _, rate := range []float64{0.3, 0.001} {
		c := tiny()
		c.Head, c.Rounds, c.Classes, c.SkipAir = "kway", 1, 10, false
		c.Train.LR, c.Train.Clip, c.Train.Warmup, c.Train.Steps = rate, 0, 0, 150
		_, err := Pretrain(t.Context(), dev, resolved(t, c), data(store, 1), voxsaw.RunOptions{})
		var vanished *voxsaw.VanishedError
		if died := errors.As(err, &vanished); died != (rate == 0.3) ||
			died && (vanished.Share < 0.99 || vanished.Rate != rate) || !died && err != nil {
			t.Errorf("with a learning rate of %g: error %v", rate, err)
		}
	}
}

// A crop much larger than the patient is mostly air, with a note before training.
func TestPuzzlesOfAirAreNamed(t *testing.T) {
	store := phantoms(t, 2, [3]int{24, 20, 16})
	for _, c := range []struct {
		crop [3]int
		air  bool
	}{{[3]int{96, 96, 96}, true}, {[3]int{24, 18, 16}, false}} {
		config := tiny()
		config.Crop, config.Patch, config.Grid = c.crop, [3]int{}, [4]int{3, 3, 2}
		config.Train.Steps = 1
		o := &observer{}
		_, err := Pretrain(t.Context(), testDevice(t), resolved(t, config), data(store, 0),
			voxsaw.RunOptions{Folder: t.TempDir(), Mode: voxsaw.ModeForce, Observer: o})
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(o.notes, func(note string) bool {
			return strings.Contains(note, "mostly air: 17 of 18 patches") && strings.Contains(note, "at most 12 %") &&
				strings.Contains(note, "larger than 2 of 2 cases")
		})
		if said != c.air {
			t.Errorf("crop %v: notes %q", c.crop, o.notes)
		}
	}
}
