package puzzle3d

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/vnet"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func testDevice(t testing.TB) device.Device {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// phantoms is a cache of made-up patients, coarse enough for a test.
func phantoms(t testing.TB, n int, shape [3]int) *prepared.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		v, _, err := phantom.New(uint64(i), phantom.Options{Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Add(prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: v}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	c, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// tiny is a puzzle that a test can train on.
func tiny() Config {
	c := DefaultConfig()
	c.Network = vnet.Config{Preset: "paper", Channels: 4, Levels: 1, Norm: "instance"}
	c.Grid, c.Crop, c.Patch = [3]int{2, 2, 2}, [3]int{16, 12, 12}, [3]int{6, 4, 4}
	c.Features, c.Hidden, c.SkipAir = 12, 10, true
	return c
}

func resolved(t testing.TB, c Config) Config {
	t.Helper()
	c, err := c.Resolve(volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func data(cache *prepared.Store, held int) Data {
	d := Data{Cache: cache}
	for i, info := range slices.Collect(cache.Records()) {
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
		c.Grid = [3]int{want.grid, want.grid, want.grid}
		if c = resolved(t, c); c.Patch != [3]int{want.patch, want.patch, want.patch} {
			t.Errorf("a crop of 120 in a grid of %d has patches of %v, the paper's are %d", want.grid, c.Patch, want.patch)
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
	} {
		c := DefaultConfig()
		spoil(&c)
		if _, err := c.Resolve(volume.DefaultPreparation()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestDataThatCannotBeTrainedOn(t *testing.T) {
	cache, dev, c := phantoms(t, 2, [3]int{14, 14, 14}), testDevice(t), resolved(t, tiny())
	for want, d := range map[string]Data{
		"no cases to pretrain on": {Cache: cache, Validate: []string{"case00"}},
		"is both to train":        {Cache: cache, Train: []string{"case00", "case01"}, Validate: []string{"case01"}},
		"no case \"x\"":           {Cache: cache, Train: []string{"x"}, Validate: []string{"case01"}},
	} {
		if _, err := NewTask(dev, c, d, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	// The crop is 16 long, the cases are 14: padded, said once.
	task, err := NewTask(dev, c, data(cache, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	if notes := task.Notes(); !strings.Contains(notes[0], "case00, case01") || !strings.Contains(notes[0], "padded with air") {
		t.Errorf("notes %q", notes)
	}
	if _, err := task.Batch(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if _, err := NewTask(dev, c, data(cache, 1), 1000); err == nil {
		t.Error("a limit of 1000 bytes was no limit")
	}
}

// Patches must be what lies in the scan where the layout says, in the order of positions with the
// last axis fastest, and D, H, W along k, j, i.
func TestPatchesAreCutWhereTheyShould(t *testing.T) {
	cache, c := phantoms(t, 2, [3]int{20, 18, 16}), resolved(t, tiny())
	cases, err := openCases(cache, []string{"case00", "case01"})
	if err != nil {
		t.Fatal(err)
	}
	whole := make([]float32, cases[1].Len())
	if err := cases[1].Image(whole, [3]int{}, cases[1].Shape); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, c.cells()*c.voxels())
	if err := cutCentre(got, c, cases[1]); err != nil {
		t.Fatal(err)
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
								t.Fatalf("cell (%d, %d, %d): voxel (%d, %d, %d) is %v, want %v", ci, cj, ck, i, j, k, got[next], want)
							}
							next++
						}
					}
				}
			}
		}
	}
	// A batch depends on seed and step alone.
	s := sampler{config: c, cases: cases}
	a, _ := s.batch(t.Context(), 7)
	b, _ := s.batch(t.Context(), 7)
	other, _ := s.batch(t.Context(), 8)
	if !slices.Equal(a.Patches, b.Patches) || !slices.Equal(a.Cases, b.Cases) || a.Shuffles[1].Distance(b.Shuffles[1]) != 0 {
		t.Error("the same step has different batches")
	}
	if slices.Equal(a.Patches, other.Patches) {
		t.Error("two steps have the same batch")
	}
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

// naive is one training step as the paper describes it: in every round the patches themselves are
// put in order and go through the whole network, one puzzle at a time; then one large network sees
// every position that was played, and its loss is differentiated as a whole.
func naive(t *testing.T, dev device.Device, c Config, params *nn.Params, b *Batch) (loss float64, positions int) {
	t.Helper()
	n, size := c.cells(), c.voxels()
	build := func(mode nn.Mode, boards int, order, truth, relations []float32, images []float32) (*nn.Program, []float32, []float32) {
		g := nn.NewGraph(mode, device.Float32)
		f := c.encoder(g, g.Input("patches", boards*n, 1, c.Patch[2], c.Patch[1], c.Patch[0]))
		h := c.head(g, f, boards)
		o := nn.Options{Outputs: map[string]*nn.Node{"unary": h.unary}, Loss: h.loss}
		if c.Binary {
			o.Outputs["pairs"] = h.pairs
		}
		p, err := nn.Compile(dev, g, params, o)
		if err != nil {
			t.Fatal(err)
		}
		inputs := map[string][]float32{"patches": images, "truth": truth}
		if c.Binary {
			inputs["relations"] = relations
		}
		if c.ColSum > 0 {
			inputs["counts"] = slices.Repeat([]float32{1}, boards)
		}
		for name, values := range inputs {
			if err := p.Set(name, values); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Forward(); err != nil {
			t.Fatal(err)
		}
		unary, pairs := make([]float32, boards*n*n), make([]float32, boards*n*n*27)
		if err := p.Read("unary", unary); err != nil {
			t.Fatal(err)
		}
		if c.Binary {
			if err := p.Read("pairs", pairs); err != nil {
				t.Fatal(err)
			}
		}
		return p, unary, pairs
	}
	var images, truth, relations []float32
	for p, shuffle := range b.Shuffles {
		left := shuffle.Clone() // left[s]: where the patch in slot s belongs
		seen := map[string]bool{}
		for round, solved := 0, false; round < c.Rounds && !solved && !seen[fmt.Sprint(left)]; round++ {
			solved = left.Solved()
			seen[fmt.Sprint(left)] = true
			var x, y, z []float32
			for _, patch := range left {
				x = append(x, b.Patches[(p*n+patch)*size:][:size]...)
				if p == 0 && (patch == 1 || patch == 2) { // air
					y = append(y, -1)
				} else {
					y = append(y, float32(patch))
				}
			}
			for i, a := range left {
				for j, b := range left {
					if i == j || y[i] < 0 || y[j] < 0 {
						z = append(z, -1)
					} else {
						z = append(z, float32(c.grid().Relation(a, b)))
					}
				}
			}
			images, truth, relations = append(images, x...), append(truth, y...), append(relations, z...)
			positions++
			_, unary, pairs := build(nn.Train, 1, nil, y, z, x)
			terms := solver.Terms{Unary: make([]float64, n*n)}
			solver.Costs(terms.Unary, unary, n)
			if c.Binary {
				terms.Binary, terms.Relation, terms.Classes = make([]float64, n*n*27), c.grid().RelationTable(), 27
				solver.Costs(terms.Binary, pairs, 27)
			}
			answer := make(puzzle.Configuration, n)
			if _, err := new(solver.Solver).Solve(answer, terms, c.Distance); err != nil {
				t.Fatal(err)
			}
			left = left.Rearranged(answer)
		}
	}
	p, _, _ := build(nn.Train, positions, nil, truth, relations, images)
	if err := p.Backward(); err != nil {
		t.Fatal(err)
	}
	var l [1]float32
	if err := p.Read("loss", l[:]); err != nil {
		t.Fatal(err)
	}
	return float64(l[0]), positions
}

// noise is a batch of puzzles of noise, with two patches of air.
func noise(c Config) *Batch {
	r := seed.Rand(3, "test")
	b := &Batch{Patches: make([]float32, c.Batch*c.cells()*c.voxels())}
	for i := range b.Patches {
		b.Patches[i] = float32(r.NormFloat64())
	}
	for i := range 2 * c.voxels() {
		b.Patches[c.voxels()+i] = -1
	}
	for p := range c.Batch {
		b.Blank = append(b.Blank, c.blank(b.Patches[p*c.cells()*c.voxels():][:c.cells()*c.voxels()])...)
		b.Shuffles = append(b.Shuffles, puzzle.Random(r, c.cells()))
	}
	return b
}

func TestStepEqualsTheNaiveOne(t *testing.T) {
	dev := testDevice(t)
	played := 0
	for _, variant := range []struct {
		head   string
		rounds int
		binary bool
		column float64
	}{{Paper, 4, false, 0}, {Both, 5, true, 0}, {Symmetric, 1, true, 0.3}, {Both, 1, false, 0.5}, {Paper, 3, true, 0}, {Both, 5, true, 0.5}} {
		c := tiny()
		c.Head, c.Rounds, c.Binary, c.ColSum, c.Distance = variant.head, variant.rounds, variant.binary, variant.column, 3
		c = resolved(t, c)
		b := noise(c)
		params := nn.NewParams(dev, 1)
		if err := c.declare(params); err != nil {
			t.Fatal(err)
		}
		tr, err := newTrainer(dev, c, params, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		result, err := tr.step(0, b)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]float32{}
		for _, name := range params.Names() {
			if params.Trained(name) {
				if got[name], err = params.Grad(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		loss, positions := naive(t, dev, c, params, b)
		played += positions
		// Both sum the same float32 products in different orders.
		if math.Abs(result.Loss-loss) > 1e-5*loss {
			t.Errorf("%+v: loss %v, naive %v", variant, result.Loss, loss)
		}
		if c.Rounds > 1 && math.Abs(result.Metrics[1].Value-float64(positions)/float64(c.Batch)) > 1e-9 {
			t.Errorf("%+v: %v rounds a puzzle, naive plays %d positions", variant, result.Metrics[1].Value, positions)
		}
		for name, g := range got {
			want, err := params.Grad(name)
			if err != nil {
				t.Fatal(err)
			}
			var difference, size float64
			for i := range want {
				difference = max(difference, math.Abs(float64(g[i]-want[i])))
				size = max(size, math.Abs(float64(want[i])))
			}
			if difference > 2e-4*size+1e-7 {
				t.Errorf("%+v: gradient of %s differs by %v of %v", variant, name, difference, size)
			}
		}
		differences(t, tr, params, b, got)
	}
	if played < 16 {
		t.Errorf("only %d positions were played: the rounds were not tested", played)
	}
}

// differences holds some gradients against difference quotients of the whole step's loss. Where a
// small change of a parameter changes what is played, the loss jumps and there is nothing to
// compare.
func differences(t *testing.T, tr *trainer, params *nn.Params, b *Batch, gradients map[string][]float32) {
	t.Helper()
	compared := 0
	for name, g := range gradients {
		at := 0
		for i := range g {
			if math.Abs(float64(g[i])) > math.Abs(float64(g[at])) {
				at = i
			}
		}
		// With h = 1e-3 and losses near 2, rounding of float32 is about 2e-7 / 1e-3 = 2e-4 of the
		// quotient, curvature and PReLU's kinks less than 5 %.
		const h = 1e-3
		values, err := params.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		var boards []float32
		jumped := false
		loss := func(d float32) float64 {
			moved := slices.Clone(values)
			moved[at] += d
			if err := params.Write(name, moved); err != nil {
				t.Fatal(err)
			}
			r, err := tr.step(0, b)
			if err != nil {
				t.Fatal(err)
			}
			var now []float32
			for _, h := range tr.heads {
				now = append(now, h.index...)
			}
			jumped = jumped || boards != nil && !slices.Equal(boards, now)
			boards = now
			return r.Loss
		}
		quotient := (loss(h) - loss(-h)) / (2 * h)
		if err := params.Write(name, values); err != nil {
			t.Fatal(err)
		}
		if jumped {
			continue
		}
		compared++
		if want := float64(g[at]); math.Abs(quotient-want) > 0.05*math.Abs(want)+2e-3 {
			t.Errorf("%s[%d]: gradient %v, difference quotient %v", name, at, want, quotient)
		}
	}
	if compared < len(gradients)/2 {
		t.Errorf("only %d of %d gradients could be compared", compared, len(gradients))
	}
}

// Where nothing is held out, nothing is compiled to validate on it, and no checkpoint is the best.
func TestPretrainOnAllCases(t *testing.T) {
	cache, dev, c := phantoms(t, 2, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Train.Steps = 2
	c = resolved(t, c)
	task, err := NewTask(dev, c, data(cache, 0), 0)
	if err != nil || task.player != nil {
		t.Fatalf("player %v, %v", task.player, err)
	}
	if summary, err := train.Run(t.Context(), task, train.Setup{Options: c.Train, SGD: task.sgd}); err != nil || summary.Step != 2 || summary.BestStep != 0 {
		t.Errorf("%+v, %v", summary, err)
	}
	// With cases held out, the encoder that plays them lies in the memory of the one that trains.
	held, err := NewTask(dev, c, data(cache, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	if more := held.params.Total() - task.params.Total(); more > held.player.head.program.Bytes() {
		t.Errorf("validation takes %d bytes more, its head is of %d", more, held.player.head.program.Bytes())
	}
}

// Little memory, and rounds that need larger heads than the first: the encoder leaves room for the
// largest, so that a run that starts does not end where a puzzle takes more rounds.
func TestALimitOfMemoryHoldsForAllRounds(t *testing.T) {
	dev, c := testDevice(t), tiny()
	c.Head, c.Rounds, c.Distance = Paper, 5, 3
	c = resolved(t, c)
	compile := func(memory int64) (*trainer, *nn.Params, error) {
		params := nn.NewParams(dev, 1)
		if err := c.declare(params); err != nil {
			t.Fatal(err)
		}
		tr, err := newTrainer(dev, c, params, nil, memory)
		return tr, params, err
	}
	free, params, err := compile(0)
	if err != nil {
		t.Fatal(err)
	}
	// The least that will do, by steps of a part in a thousand.
	most := params.Total()
	limit, tr := most, free
	for next := most; err == nil; next -= most / 1000 {
		var smaller *trainer
		if smaller, _, err = compile(next); err == nil {
			limit, tr = next, smaller
		}
	}
	if limit == most || tr.encoder.Bytes() >= free.encoder.Bytes() {
		t.Fatalf("a limit saves nothing: %d of %d bytes", limit, most)
	}
	if !errors.As(err, new(*nn.MemoryError)) {
		t.Errorf("a smaller limit: %v", err)
	}
	want, err := free.step(0, noise(c))
	if err != nil {
		t.Fatal(err)
	}
	got, err := tr.step(0, noise(c))
	if err != nil {
		t.Fatalf("in %d of %d bytes: %v", limit, most, err)
	}
	if got.Loss != want.Loss || got.Metrics[1].Value <= 1 {
		t.Errorf("loss %v and %v rounds in little memory, %v and %v otherwise", got.Loss, got.Metrics[1].Value, want.Loss, want.Metrics[1].Value)
	}
}

// A run that is stopped and resumed leaves the same bits as one that ran through; a checkpoint
// opens as a player that scores the same.
func TestResumeIsExactAndCheckpointsSolve(t *testing.T) {
	cache, dev, c := phantoms(t, 5, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Head, c.Rounds, c.Network.Norm, c.ValidateShuffles = Both, 3, "batch", 2
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 8, 4, 0
	c = resolved(t, c)
	run := func(path string, mode train.Mode, ctx context.Context, observer train.Observer) (train.Summary, error) {
		folder, err := train.OpenFolder(path, train.Identity{Kind: Kind, Config: "x: 1\n", Fingerprint: cache.Fingerprint()}, mode)
		if err != nil {
			t.Fatal(err)
		}
		return Pretrain(ctx, dev, c, data(cache, 2), Run{Folder: folder, Observer: observer})
	}
	through, stopped := filepath.Join(t.TempDir(), "through"), filepath.Join(t.TempDir(), "stopped")
	summary, err := run(through, train.New, t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var interrupted *train.InterruptedError
	if _, err := run(stopped, train.New, ctx, stopAt{5, cancel}); !errors.As(err, &interrupted) {
		t.Fatalf("error %v", err)
	}
	if _, err := run(stopped, train.Resume, t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"last.safetensors", "best.safetensors", "validation.csv"} {
		a, err := os.ReadFile(filepath.Join(through, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(stopped, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s of the resumed run differs", name)
		}
	}

	player, report, err := Open(dev, c, filepath.Join(through, "last.safetensors"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Missing) > 0 || len(report.Skipped) > 0 {
		t.Errorf("opening: %v", report)
	}
	held, err := openCases(cache, []string{"case00", "case01"})
	if err != nil {
		t.Fatal(err)
	}
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

	c.Network.Channels = 8
	if _, _, err := Open(dev, c, filepath.Join(through, "last.safetensors"), 0); err == nil || !strings.Contains(err.Error(), "shape") {
		t.Errorf("a checkpoint of 4 channels in a network of 8: %v", err)
	}
	c.Network.Channels, c.Binary = 4, true
	if _, _, err := Open(dev, c, filepath.Join(through, "last.safetensors"), 0); err == nil || !strings.Contains(err.Error(), "puzzle.first") {
		t.Errorf("a checkpoint without binary terms opened with them: %v", err)
	}
}

// A solver that can tell all patches apart reaches 100 %, to the bit, of any number of cases: the
// report says what is possible where it is less.
func TestTheCeilingOfDistinctPatchesIsOne(t *testing.T) {
	cache, dev, c := phantoms(t, 7, [3]int{24, 20, 20}), testDevice(t), resolved(t, tiny())
	params := nn.NewParams(dev, 1)
	if err := c.declare(params); err != nil {
		t.Fatal(err)
	}
	player, err := newPlayer(dev, c, params, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for info := range cache.Records() {
		ids = append(ids, info.ID)
	}
	cases, err := openCases(cache, ids)
	if err != nil {
		t.Fatal(err)
	}
	e, err := player.Evaluate(t.Context(), cases)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Metrics{1, 1, 1}); e.Ceiling != want {
		t.Errorf("ceiling %+v", e.Ceiling)
	}
}

// TrainedOn reads what both ways of pretraining write down, and says nothing of checkpoints of
// other kinds.
func TestCheckpointsSayWhatTheyWereTrainedOn(t *testing.T) {
	for _, c := range []struct {
		kind, config string
		want         []string
	}{
		{Kind, "cases:\n  fold: 1\ntrained_on: [\"0001\", case_2]\n", []string{"0001", "case_2"}},
		{Kind, "cases: [\"0001\", case_2]\nheld: [case_3]\n", []string{"0001", "case_2"}},
		{Kind, "cases:\n  fold: 1\n", nil},
		{"finetune", "trained_on: [case_2]\n", nil},
	} {
		path := filepath.Join(t.TempDir(), "c.safetensors")
		params := nn.NewParams(testDevice(t), 1)
		if err := resolved(t, tiny()).declare(params); err != nil {
			t.Fatal(err)
		}
		if err := train.SaveCheckpoint(path, params, train.Meta{Identity: train.Identity{Kind: c.kind, Config: c.config}}); err != nil {
			t.Fatal(err)
		}
		got, err := TrainedOn(path)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, error %v, want %v", c.config, got, err, c.want)
		}
	}
}

// stopAt cancels a run after a step.
type stopAt struct {
	step   int
	cancel func()
}

func (s stopAt) Started(int, int) {}
func (s stopAt) Stepped(p train.Progress) {
	if p.Step == s.step {
		s.cancel()
	}
}
func (s stopAt) Validated(int, train.Validation, bool) {}
func (s stopAt) Saved(string, int)                     {}
func (s stopAt) Note(string)                           {}

// Puzzles of patients never seen must come out far better than guessing after a short training: 1/8
// of the patches are right by chance.
func TestPretrainingLearns(t *testing.T) {
	cache, dev, c := phantoms(t, 24, [3]int{24, 20, 20}), testDevice(t), tiny()
	c.Crop, c.Patch = [3]int{22, 18, 18}, [3]int{8, 6, 6}
	c.Features, c.Hidden, c.Batch = 64, 32, 4
	c.Train.Steps, c.Train.LR = 60, 0.03
	c = resolved(t, c)
	summary, err := Pretrain(t.Context(), dev, c, data(cache, 8), Run{Loaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Validation.Score < 0.8 {
		t.Errorf("%.2f of the patches are in their place; chance is 0.125", summary.Validation.Score)
	}
}

// Scores that are not numbers must reach the loop as a loss that is not finite, so that it stops
// and names the cases.
func TestNaNReachesTheLoop(t *testing.T) {
	cache, dev, c := phantoms(t, 2, [3]int{20, 20, 20}), testDevice(t), resolved(t, tiny())
	task, err := NewTask(dev, c, data(cache, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	name := "puzzle.position.bias"
	values, err := task.params.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	values[0] = float32(math.NaN())
	if err := task.params.Write(name, values); err != nil {
		t.Fatal(err)
	}
	var diverged *train.DivergedError
	_, err = train.Run(t.Context(), task, train.Setup{Options: c.Train, SGD: task.sgd})
	if !errors.As(err, &diverged) || len(diverged.Cases) != c.Batch || diverged.Cases[0] != "case01" {
		t.Errorf("error %v", err)
	}
}

func TestBenchmark(t *testing.T) {
	c := tiny()
	c.Head = Paper
	timing, err := Benchmark{Config: resolved(t, c), Steps: 2, Warmup: 1}.Run(testDevice(t))
	if err != nil {
		t.Fatal(err)
	}
	if timing.Min <= 0 || timing.Median < timing.Min || timing.FLOPs <= 0 || timing.Bytes <= 0 {
		t.Errorf("timing %+v", timing)
	}
	if _, err := (Benchmark{Config: resolved(t, c)}).Run(testDevice(t)); err == nil {
		t.Error("no steps were timed")
	}
}
