package puzzle2d

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"

	_ "github.com/voxsaw/voxsaw/internal/device/cpu" // the device to train on
	"github.com/voxsaw/voxsaw/sample"
)

// prepare prepares made-up photographs of two classes, a quarter of them held out.
func prepare(t testing.TB, n, width, height int) *photos.Store {
	t.Helper()
	dir := t.TempDir()
	for k := range n {
		class := []string{"dark", "light"}[k%2]
		writePNG(t, filepath.Join(dir, "photos", class, fmt.Sprintf("%02d.png", k)),
			photograph(width, height, uint8(60+100*(k%2)+k)))
	}
	return storeOf(t, filepath.Join(dir, "photos"), 0.25, width, height)
}

// storeOf prepares the photographs of a folder, of which a share is held out, to a size.
func storeOf(t testing.TB, folder string, holdOut float64, width, height int) *photos.Store {
	t.Helper()
	set, err := photos.Find(folder, holdOut, 1)
	if err != nil {
		t.Fatal(err)
	}
	o, prepared := photos.DefaultOptions(), t.TempDir()
	o.Size = [2]int{width, height}
	if _, err := photos.Prepare(t.Context(), set, prepared, o, nil); err != nil {
		t.Fatal(err)
	}
	store, err := photos.Open(prepared)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// small is a training that a test can wait for.
func small() Config {
	c := DefaultConfig()
	c.Network = Network{Backbone: "resnet18", Width: 0.0625}
	c.Grid, c.Cell, c.Patch, c.Batch = [2]int{3, 3}, 20, 16, 4
	c.Features, c.Hidden, c.Rounds, c.Head, c.Mirror = 32, 32, 3, HeadSymmetric, false
	c.Train.Steps, c.Train.LR, c.Train.ValidateEvery, c.Train.CheckpointEvery, c.Train.Warmup = 40, 0.05, 40, 20, 5
	return c
}

func open(t testing.TB) voxsaw.Device {
	t.Helper()
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// Photographs whose colours tell where a pixel lies are puzzles that can be learnt in seconds; with
// binary terms, with the paper's head, and as one of K orders.
func TestPretrainLearns(t *testing.T) {
	store, dev := prepare(t, 16, 60, 60), open(t)
	data := Split(store)
	for _, variant := range []func(*Config){
		func(c *Config) {},
		func(c *Config) {
			c.Head, c.Grid, c.Cell, c.Binary = HeadPaper, [2]int{2, 2}, 30, true
			c.Train.Steps = 120
		},
		func(c *Config) { c.Head, c.Grid, c.Cell, c.Classes, c.Train.Steps = HeadKWay, [2]int{2, 2}, 30, 6, 120 },
		func(c *Config) {
			c.Head, c.Grids, c.Missing, c.Binary, c.Rounds = HeadAttention, []string{"2x2", "3x3"}, 0.25, false, 2
			c.Train.Optimizer, c.Train.LR, c.Train.Steps = "adamw", 0.003, 160
		},
	} {
		c := small()
		variant(&c)
		c, err := c.Resolve(data.Store)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "run")
		summary, err := Pretrain(context.Background(), dev, c, data, voxsaw.RunOptions{Folder: out})
		if err != nil {
			t.Fatal(err)
		}
		chance, _, patches := c.grid().Chance()
		if c.Head == HeadKWay {
			chance, patches = 1./6, 0.3
		}
		if summary.Validation.Score < patches+0.4 {
			t.Errorf("head %s: %v of the patches in place after %d steps, %v by chance", c.Head,
				summary.Validation.Score, summary.Step, patches)
		}
		p, err := Open(t.Context(), dev, filepath.Join(out, "last.safetensors"), PlayOptions{Shuffles: 2})
		if err != nil {
			t.Fatal(err)
		}
		held, err := sample.Open(store, data.Validate)
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Evaluate(context.Background(), held)
		if err != nil {
			t.Fatal(err)
		}
		if e.Photos != len(data.Validate) || e.Puzzles != 2*e.Photos*max(1, len(c.Grids)) ||
			e.Final().Patches < patches+0.3 || len(c.Grids) == 0 && e.Chance.Correct != chance {
			t.Errorf("head %s: %+v", c.Head, e)
		}
		if len(e.Grids) != len(c.Grids) {
			t.Errorf("%d evaluations of %d grids", len(e.Grids), len(c.Grids))
		}
		play, err := p.Play(held[0])
		if err != nil {
			t.Fatal(err)
		}
		checkPlay(t, held[0], play)
		p.Close()
	}
}

// checkPlay holds what is drawn of a puzzle against the photograph.
func checkPlay(t *testing.T, photo sample.Sample, p Play) {
	t.Helper()
	pixels := make([]float32, 3*60*60)
	if err := photo.Crop(pixels, [3]int{}, [3]int{60, 60, 1}); err != nil {
		t.Fatal(err)
	}
	cell := 60 / p.Grid[1]
	margin := (cell - p.Patch) / 2
	for n := range p.Grid[0] * p.Grid[1] {
		top, left := n/p.Grid[1]*cell+margin, n%p.Grid[1]*cell+margin
		for colour, got := range p.Patches[n*p.Patch*p.Patch*3:][:3] {
			if want := pixels[colour*60*60+60*top+left]; float32(got) != want {
				t.Errorf("patch %d begins with colour %d of %v, the photograph has %v", n, colour, got, want)
			}
		}
	}
	for _, a := range p.Arrangements {
		if err := puzzle.Configuration(a).Check(); err != nil {
			t.Error(err)
		}
	}
	picture := p.Picture()
	red := 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if r, g, b, _ := picture.At(x, y).RGBA(); r>>8 == 229 && g>>8 == 57 && b>>8 == 53 {
				red++
			}
		}
	}
	if (red > 0) != (p.Misplaced(0) > 0) {
		t.Errorf("%d red pixels, %d patches misplaced at first", red, p.Misplaced(0))
	}
	_ = picture.(*image.RGBA)
}

// interrupter stops a run after a step.
type interrupter struct {
	after int
	stop  context.CancelFunc
}

func (o interrupter) Started(int, int) {}
func (o interrupter) Stepped(p voxsaw.Progress) {
	if p.Step == o.after {
		o.stop()
	}
}
func (o interrupter) Validated(int, voxsaw.Validation, bool) {}
func (o interrupter) Saved(string, int)                      {}
func (o interrupter) Note(string)                            {}

// Micro-batches leave the weights of the whole batch, with one of the networks that no batch norm
// is in, and run forward once more. Those with batch norm are refused.
func TestMicroBatchesEqualTheBatch(t *testing.T) {
	store, dev := prepare(t, 8, 128, 128), open(t)
	data := Split(store)
	c := small()
	c.Network = Network{Backbone: "alexnet", Width: 0.0625}
	c.Grid, c.Cell, c.Patch, c.Rounds, c.Train.Steps, c.Train.LR = [2]int{2, 2}, 64, 64, 2, 6, 0.05
	run := func(accumulate int) (folder string, flops float64) {
		c := c
		c.Train.Accumulate = accumulate
		c, err := c.Resolve(data.Store)
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(t.TempDir(), "run")
		s, err := Pretrain(t.Context(), dev, c, data, voxsaw.RunOptions{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(folder, "last.safetensors"), s.FLOPs
	}
	whole, flops := run(0)
	for _, n := range []int{2, 4} {
		parts, more := run(n)
		traintest.Close(t, whole, parts, 1e-6)
		// forward is a third, but for the first layer, which has no gradient of its input
		if more < 1.32*flops || more > 1.45*flops {
			t.Errorf("%d micro-batches: %.0f FLOP, %.0f at once", n, more, flops)
		}
	}
	resnet := small()
	resnet.Train.Accumulate = 2
	resnet, err := resnet.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Pretrain(t.Context(), dev, resnet, data, voxsaw.RunOptions{}); err == nil ||
		!strings.Contains(err.Error(),
			"several micro-batches cannot share: take the backbone alexnet, which has none, or "+
				"train without accumulate, or set part_norm") {
		t.Errorf("batch norm: %v", err)
	}
	resnet.Train.PartNorm = true
	if _, err := Pretrain(t.Context(), dev, resnet, data, voxsaw.RunOptions{}); err != nil {
		t.Errorf("batch norm of micro-batches: %v", err)
	}
}

// Two ranks leave the weights of one, and both tell its validation, of puzzles with missing patches
// on several grids.
func TestTwoRanksEqualOne(t *testing.T) {
	data := Split(prepare(t, 8, 192, 128))
	c := small()
	c.Network = Network{Backbone: "alexnet", Width: 0.0625}
	c.Grids, c.Cell, c.Patch, c.Missing, c.Identical, c.Train.Steps = []string{"2x2", "2x3"}, 64, 64, 0.25, true, 6
	// weights that differ in their last digit arrange patches that are nearly alike in another way
	const nearTies = true
	twoRanks(t, nearTies, func(dev voxsaw.Device, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return Pretrain(t.Context(), dev, c, data, o)
	})
	data.Validate = slices.Repeat(data.Validate, 3) // more than go through the network at once
	k := DefaultClassification(Rotation)
	k.Network, k.Train, k.Crop, k.Batch, k.Train.ValidateEvery = c.Network, c.Train, 128, 4, 3
	twoRanks(t, !nearTies, func(dev voxsaw.Device, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return TrainClassifier(t.Context(), dev, k, data, o)
	})
}

// twoRanks compares a run of two ranks with that of one: weights, loss of the held-out photographs
// and, unless near ties decide on it, their score.
func twoRanks(t *testing.T, nearTies bool, training func(voxsaw.Device, voxsaw.RunOptions) (voxsaw.Summary, error)) {
	t.Helper()
	out, ranks := t.TempDir(), traintest.Of(2)
	alone, together := filepath.Join(out, "alone"), filepath.Join(out, "together")
	want, err := training(open(t), voxsaw.RunOptions{Folder: alone})
	if err != nil {
		t.Fatal(err)
	}
	devices := []voxsaw.Device{open(t), open(t)}
	traintest.Both(t, func(rank int, _ train.Group) error {
		got, err := training(devices[rank], voxsaw.RunOptions{Folder: []string{together, ""}[rank], Ranks: ranks[rank]})
		w, g := want.Validation, got.Validation
		if err == nil && (g.Score != w.Score && !nearTies || math.Abs(g.Metrics[0].Value-w.Metrics[0].Value) > 1e-5) {
			t.Errorf("rank %d: %v %v, of one rank %v %v", rank, g.Score, g.Metrics, w.Score, w.Metrics)
		}
		return err
	})
	traintest.Close(t, filepath.Join(alone, "last.safetensors"), filepath.Join(together, "last.safetensors"), 1e-6)
}

// A run that is stopped and resumed leaves the same bytes; with other settings it is not resumed.
func TestResume(t *testing.T) {
	store, dev := prepare(t, 8, 60, 60), open(t)
	data := Split(store)
	c := small()
	c.Mirror, c.Input.Gray, c.Train.Steps, c.Train.ValidateEvery = true, 0.5, 12, 6
	c, err := c.Resolve(data.Store)
	if err != nil {
		t.Fatal(err)
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if _, err := Pretrain(context.Background(), dev, c, data, voxsaw.RunOptions{Folder: whole}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	_, err = Pretrain(ctx, dev, c, data, voxsaw.RunOptions{Folder: parts, Observer: interrupter{5, stop}})
	if !errors.As(err, new(*voxsaw.InterruptedError)) {
		t.Fatalf("stopped after 5 steps: %v", err)
	}
	other := c
	other.Mirror = false
	if _, err := Pretrain(context.Background(), dev, other, data,
		voxsaw.RunOptions{Folder: parts, Mode: voxsaw.ModeResume}); !errors.As(err, new(*voxsaw.ChangedError)) {
		t.Errorf("other settings: %v", err)
	}
	if _, err := Pretrain(context.Background(), dev, c, data,
		voxsaw.RunOptions{Folder: parts, Mode: voxsaw.ModeResume}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"last.safetensors", "best.safetensors"} {
		a, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(parts, name))
		if err != nil || !slices.Equal(a, b) {
			t.Errorf("%s differs (%v)", name, err)
		}
	}
}

// The rivals learn: classes that differ in brightness, by which angle a photograph was turned, and
// where one patch lies, seen from another. Their features tell the classes apart.
func TestClassificationsLearn(t *testing.T) {
	store, dev := prepare(t, 16, 60, 60), open(t)
	data := Split(store)
	for _, task := range []string{Labels, Rotation, Position} {
		c := DefaultClassification(task)
		c.Network, c.Batch, c.Mirror = small().Network, 8, false
		if task == Position {
			c.Cell, c.Patch = 20, 16
		} else {
			c.Crop = 48
		}
		c.Train = small().Train
		c.Train.Steps, c.Train.ValidateEvery = 120, 120
		c, err := c.Resolve(data.Store)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), task)
		summary, err := TrainClassifier(context.Background(), dev, c, data, voxsaw.RunOptions{Folder: out})
		if err != nil {
			t.Fatal(err)
		}
		if chance := 1 / float64(len(c.Classes)); summary.Validation.Score < chance+0.4 {
			t.Errorf("%s: %v right, %v by chance", task, summary.Validation.Score, chance)
		}
		f, err := OpenFeatures(dev, filepath.Join(out, "last.safetensors"), FeatureOptions{Side: 48, Batch: 3})
		if err != nil {
			t.Fatal(err)
		}
		draws, err := Transfer{PerClass: 2, C: []float64{1}, Seeds: 2}.Run(context.Background(), f, data)
		if err != nil {
			t.Fatal(err)
		}
		if len(draws) != 2 || draws[0].Fitted != 4 || draws[0].Tested != len(data.Validate) {
			t.Errorf("%s: %+v", task, draws)
		}
		if task == Labels && draws[0].Accuracy < 1 {
			t.Errorf("features of labels tell %v of the photographs", draws[0].Accuracy)
		}
		f.Close()
	}
}

// The features of a photograph do not depend on the others in its batch, nor on where it stands
// there.
func TestFeaturesOfEachPhotograph(t *testing.T) {
	store, dev := prepare(t, 8, 60, 60), open(t)
	in, err := DefaultConfig().Input.Of(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range []string{"", LayerConv5, "layer2"} {
		f, err := OpenFeatures(dev, "", FeatureOptions{Random: small().Network, Seed: 3, Input: in, Side: 48, Batch: 3,
			Layer: layer})
		if err != nil {
			t.Fatal(err)
		}
		shown, err := sample.Open(store, slices.Concat(Split(store).Train, Split(store).Validate))
		if err != nil {
			t.Fatal(err)
		}
		all, err := f.Extract(context.Background(), shown)
		if err != nil {
			t.Fatal(err)
		}
		some, err := f.Extract(context.Background(), []sample.Sample{shown[6], shown[1]})
		if err != nil {
			t.Fatal(err)
		}
		w := f.Width()
		if !slices.Equal(all[6*w:7*w], some[:w]) || !slices.Equal(all[w:2*w], some[w:]) ||
			slices.Equal(all[:w], some[:w]) {
			t.Errorf("layer %q: the features of a photograph change with its company", layer)
		}
		f.Close()
	}
}

// The rows of the paper's table are what its text says.
func TestPaper(t *testing.T) {
	for _, name := range PaperNames() {
		for _, backbone := range []string{"alexnet", "resnet18", "resnet50"} {
			c := DefaultConfig()
			c.Network.Backbone = backbone
			c, open, err := Paper(c, name)
			if err != nil {
				t.Fatal(err)
			}
			if c.Patch != 64 || c.Cell != 85 || c.Rounds != 20 || c.Batch != 256 || c.Mirror == (name == "U") ||
				c.Binary != strings.HasPrefix(name, "UBM") || c.Head != HeadPaper ||
				(c.Grid[0] == 2) != (name == "UBM-2x2") || c.BinaryWeight != 1 || !c.LinearFeatures ||
				!c.SearchOnce || !c.PaperRounds || !c.SumLoss ||
				math.Abs(c.Train.LR*float64(c.grid().Cells())-0.01) > 1e-12 ||
				math.Abs(c.Train.WeightDecay/float64(c.grid().Cells())-0.0005) > 1e-12 {
				t.Errorf("%s: %+v", name, c)
			}
			if len(open) < 8 {
				t.Errorf("%s: only %d choices are named", name, len(open))
			}
		}
	}
	if _, _, err := Paper(DefaultConfig(), "V"); err == nil {
		t.Error("a row that the paper does not have")
	}
}

// The same orders are those of a K-way head and of --only-classes.
func TestOrdersOfASeed(t *testing.T) {
	c := small()
	c.Head, c.Classes = HeadKWay, 20
	game, err := c.game(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plain := small()
	only, err := plain.orders(t.Context(), 20)
	if err != nil || !slices.EqualFunc(only, game.Orders, slices.Equal) {
		t.Errorf("%v, %v", only, err)
	}
	path := filepath.Join(t.TempDir(), "orders.bin")
	file := []byte{3, 0, 0, 0, 9, 0, 0, 0}
	for _, o := range game.Orders[:3] {
		for _, p := range o {
			file = append(file, byte(p+1), 0, 0, 0)
		}
	}
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := c.ReadOrders(path); err != nil {
		t.Fatal(err)
	}
	game, err = c.game(t.Context())
	if err != nil || !slices.EqualFunc(game.Orders, only[:3], slices.Equal) || c.Classes != 3 {
		t.Errorf("%v, %v", game.Orders, err)
	}
	if err := os.WriteFile(path, file[:20], 0o666); err != nil {
		t.Fatal(err)
	}
	if err := c.ReadOrders(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is cut off: %v", err)
	}
}

func TestConfigRefuses(t *testing.T) {
	store := prepare(t, 8, 60, 60)
	data := Split(store)
	for want, change := range map[string]func(*Config){
		"prepare them larger": func(c *Config) { c.Cell = 21 },
		"larger than a cell":  func(c *Config) { c.Patch = 21 },
		"patch 0x0 is empty":  func(c *Config) { c.Patch = 0 },
		"mean":                func(c *Config) { c.Input.Mean = "none" },
		"gray":                func(c *Config) { c.Input.Gray = 1.5 },
		"there is no network": func(c *Config) { c.Network.Backbone = "vgg" },
		"head":                func(c *Config) { c.Head = "none" },
		"of the 9! configura": func(c *Config) { c.Head, c.Classes = HeadKWay, 1 },
	} {
		c := small()
		change(&c)
		if _, err := c.Resolve(data.Store); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Features at chance are said to be so; what beats chance by more than the photographs' number
// leaves to luck is not.
func TestAtChance(t *testing.T) {
	draws := func(right float64) []Draw {
		return []Draw{{Tested: 100, ClassMean: right}, {Tested: 100, ClassMean: right}}
	}
	for right, want := range map[float64]bool{0.02: true, 0.1: true, 0.15: true, 0.17: false, 0.9: false} {
		if got := AtChance(draws(right), 0.1); (got != "") != want {
			t.Errorf("%v right of 10 classes: %q", right, got)
		}
	}
	if got := AtChance(nil, 0.1); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
