package puzzle3d

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// hard is a puzzle of everything that makes it hard, small enough for a test.
func hard() Config {
	c := tiny()
	c.Network = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 2, Norm: "group", Groups: 2}
	c.Grid = DefaultConfig().Grid
	c.Grids, c.Crop, c.Patch = []string{"2x2x2", "3x2x2", "2x3x2"}, [3]int{18, 18, 12}, [3]int{4, 4, 4}
	c.Head, c.Hidden, c.Rounds, c.AttentionHeads, c.Layers = Attention, 16, 3, 2, 1
	c.Missing, c.Identical, c.SkipAir, c.Intensity, c.MaxAir = 0.3, true, false, 0.1, 0.5
	return c
}

// golden is a store of one case in which a voxel says where it lies, but for air below a plane.
func golden(t *testing.T, air int) (*prepared.Store, func(value float32) [3]int) {
	t.Helper()
	v, _, err := phantom.New(0, phantom.Options{Shape: [3]int{24, 22, 16}})
	if err != nil {
		t.Fatal(err)
	}
	n := v.Shape
	values := make([]float32, n[0]*n[1]*n[2])
	v.Int16, v.Float32 = nil, values
	for at := range values {
		if values[at] = float32(at); at/(n[0]*n[1]) < air {
			values[at] = -1
		}
	}
	how := volume.DefaultPreparation()
	how.Crop, how.Window = volume.CropNone, [2]float64{-1, float64(len(values))}
	dir := filepath.Join(t.TempDir(), "golden")
	w, err := prepared.NewWriter(dir, how)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(prepared.Input{ID: "golden", Image: v}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	// The voxels as they are prepared, whatever the axes and the rounding.
	c := opened(t, store, "golden")[0].(*prepared.Case)
	whole := make([]float32, c.Len())
	if err := c.Crop(whole, [3]int{}, c.Shape); err != nil {
		t.Fatal(err)
	}
	places := map[float32][3]int{}
	for at, value := range whole {
		places[value] = [3]int{at % c.Shape[0], at / c.Shape[0] % c.Shape[1], at / (c.Shape[0] * c.Shape[1])}
	}
	if want := (n[2]-air)*n[0]*n[1] + 1; air > 0 && len(places) != want {
		t.Fatalf("%d different voxels, want %d", len(places), want)
	}
	return store, func(value float32) [3]int { return places[value] }
}

// The targets of a batch: the voxels of a patch say in which cell of the crop it lay.
func TestHardTargets(t *testing.T) {
	store, place := golden(t, 7)
	c := hard()
	c.Intensity, c.MaxAir = 0, 1
	c = resolved(t, c)
	game, err := c.game(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := sampler{config: c, game: game, cases: opened(t, store, "golden"), n: 3}
	drawn, likes := map[int]int{}, 0
	for step := range 30 {
		b, err := s.batch(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		drawn[b.Grid]++
		on, rest := c.on(game.Grids[b.Grid]), b.Patches
		for p := range s.n {
			if err := b.Shuffles[p].Check(); err != nil || len(b.Shuffles[p]) != game.Grids[b.Grid].Cells() {
				t.Errorf("shuffle %v: %v", b.Shuffles[p], err)
			}
			patches := map[int][]float32{}
			for cell, missing := range b.Missing[p] {
				if !missing {
					patches[cell], rest = rest[:c.layout().Values()], rest[c.layout().Values():]
				}
			}
			if n := len(b.Missing[p]); len(patches) != n-int(0.3*float64(n)+0.5) {
				t.Errorf("%d of %d patches are there", len(patches), n)
			}
			inOneCrop(t, on, s.cases[0], patches, place)
			likes += alikeWhereAir(t, b.Alike[p], patches)
		}
		if len(rest) != 0 {
			t.Errorf("%d voxels too many", len(rest))
		}
	}
	if len(drawn) != 3 || likes == 0 {
		t.Errorf("grids drawn: %v; %d pairs of patches were alike", drawn, likes)
	}
}

// air is what the golden case's air becomes.
const air = -1

// inOneCrop says whether there is a crop in whose cells all patches lie.
func inOneCrop(t *testing.T, c Config, from sample.Sample, patches map[int][]float32, place func(float32) [3]int) {
	t.Helper()
	layout := puzzle.Layout{Grid: c.grid(), Crop: c.Crop[:], Patch: c.Patch[:]}
	low, high := [3]int{}, [3]int{} // where the crop may begin
	for axis := range high {
		high[axis] = from.Size()[axis] - c.Crop[axis]
	}
	for cell, patch := range patches {
		first, last := patch[0], patch[len(patch)-1]
		if first == air || last == air {
			continue
		}
		at, end := place(first), place(last)
		var coordinates [3]int
		c.grid().Coordinates(coordinates[:], cell)
		for axis := range at {
			if end[axis] != at[axis]+c.Patch[axis]-1 {
				t.Fatalf("a patch reaches from %v to %v", at, end)
			}
			size := layout.Cell(axis)
			start := at[axis] - (c.Crop[axis]-size*c.Grid[axis])/2 - coordinates[axis]*size
			low[axis], high[axis] = max(low[axis], start-(size-c.Patch[axis])), min(high[axis], start)
		}
	}
	for axis := range low {
		if low[axis] > high[axis] {
			t.Fatalf("grid %v: along axis %d no crop has all patches in their cells", c.grid(), axis)
		}
	}
}

// alikeWhereAir says whether patches are alike where they are wholly air, and only there. It counts
// the pairs.
func alikeWhereAir(t *testing.T, alike []int, patches map[int][]float32) (pairs int) {
	t.Helper()
	blank := func(patch []float32) bool {
		return !slices.ContainsFunc(patch, func(x float32) bool { return x != air })
	}
	for a, one := range patches {
		for b, other := range patches {
			if a == b {
				continue
			}
			if same := alike[a] == alike[b]; same != (blank(one) && blank(other)) {
				t.Fatalf("patches %d and %d are alike: %v", a, b, same)
			} else if same {
				pairs++
			}
		}
	}
	return pairs
}

// Two ranks leave the weights of one that has twice the batch, but for the order of sums, which is
// another.
func TestTwoRanksEqualOneOfHardPuzzles(t *testing.T) {
	store, c := phantoms(t, 3, [3]int{24, 20, 20}), hard()
	c.Batch, c.Train.Steps, c.Train.Clip, c.Binary = 4, 5, 1, true
	c = resolved(t, c)
	twoRanks(t, store, c, 1e-3)
}

// resumes trains with two cases held out, in one go and in two, and wants the same files: see
// [traintest.Resumes].
func resumes(t *testing.T, dev voxsaw.Device, c Config, store *prepared.Store) (through string,
	summary voxsaw.Summary) {
	t.Helper()
	return traintest.Resumes(t, 2, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		return Pretrain(ctx, dev, c, data(store, 2), o)
	}, "last.safetensors", "validation.csv")
}

// A hard run that is stopped and resumed leaves the same bits as one that ran through, and its
// checkpoint solves the puzzles of each grid.
func TestHardRunsResumeAndSolve(t *testing.T) {
	store, dev, c := phantoms(t, 5, [3]int{24, 20, 20}), testDevice(t), hard()
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 6, 3, 0
	c = resolved(t, c)
	through, summary := resumes(t, dev, c, store)
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
	if len(e.Grids) != 3 || e.Grids[1].Grid != "3x2x2" || e.Puzzles != 6 || len(e.Grids[0].Rounds) != 3 ||
		e.Final().Patches != summary.Validation.Score {
		t.Errorf("%+v; the run's last validation scored %v", e, summary.Validation.Score)
	}
	play, err := player.Play(held[0])
	if err != nil {
		t.Fatal(err)
	}
	there := 0
	for _, missing := range play.Missing {
		if !missing {
			there++
		}
	}
	if play.Grid != [4]int{3, 2, 2} || there != 8 || play.Picture().Bounds().Empty() {
		t.Errorf("grid %v, %d patches are there", play.Grid, there)
	}
	for r := range play.Arrangements {
		if wrong := play.Misplaced(r); wrong < 0 || wrong > 8 {
			t.Errorf("round %d: %d of 8 patches are misplaced", r, wrong)
		}
	}
}

// Hard puzzles of patients never seen come out far better than guessing after a short training.
func TestHardPretrainingLearns(t *testing.T) {
	store, dev, c := phantoms(t, 24, [3]int{24, 20, 20}), testDevice(t), hard()
	c.Crop, c.Patch, c.Grids = [3]int{22, 18, 18}, [3]int{8, 4, 4}, []string{"2x2x2", "2x3x2"}
	c.Network.Channels, c.Features, c.Hidden, c.Batch, c.Rounds = 8, 64, 32, 4, 2
	c.Train.Steps, c.Train.LR = 80, 0.03
	c = resolved(t, c)
	run := filepath.Join(t.TempDir(), "run")
	if _, err := Pretrain(t.Context(), dev, c, data(store, 8), voxsaw.RunOptions{Folder: run, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	player, err := Open(t.Context(), dev, filepath.Join(run, "last.safetensors"), PlayOptions{Shuffles: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer player.Close()
	e, err := player.Evaluate(t.Context(), opened(t, store, data(store, 8).Validate...))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range e.Grids {
		got := g.Rounds[len(g.Rounds)-1].Patches
		t.Logf("grid %s: %.2f of the patches in place, chance %.2f, at most %.2f", g.Grid, got, g.Chance.Patches,
			g.Ceiling.Patches)
		if got < 3*g.Chance.Patches {
			t.Errorf("grid %s: %.2f of the patches are in their place; chance is %.3f", g.Grid, got, g.Chance.Patches)
		}
	}
}

// An initialisation of an experiment may take one grid in place of several, or several in place of
// one.
func TestGridsReplaceOneAnother(t *testing.T) {
	for text, want := range map[string]string{"grid: [2, 2, 2]": "[2 2 2 0] []",
		"grids: [2x2x2, 2x2x1]": "[2 2 2 0] [2x2x2 2x2x1]", "rounds: 2": "[3 2 2 0] [2x2x2 3x2x2 2x3x2]"} {
		choice := pretext.Scans.Choice()
		_, before := pretext.Scans.Chosen(&choice)
		before.(*settings).Config = resolved(t, hard())
		before.(*settings).Patch = [3]int{}
		other, err := pretext.Override(&choice, "test", config.NewSection(text))
		if err != nil {
			t.Fatal(err)
		}
		_, after := pretext.Scans.Chosen(&other)
		if err := after.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if c := after.(*settings).Config; fmt.Sprint(c.Grid, c.Grids) != want {
			t.Errorf("%s: grid %v, grids %v", text, c.Grid, c.Grids)
		}
	}
}

// An arm with a smaller crop has patches of its own, which leave a gap between them; patches that
// somebody chose to touch are told.
func TestOtherCropsHaveOtherPatches(t *testing.T) {
	for text, want := range map[string]struct {
		patch int
		told  bool
	}{
		"crop: [96, 96, 96]": {16, false}, "{crop: [96, 96, 96], patch: [32, 32, 32]}": {32, true},
		"rounds: 2": {32, false}, "{patch: [32, 32, 32], grid: [1, 1, 3], crop: [32, 32, 120]}": {32, false},
	} {
		choice := pretext.Scans.Choice()
		_, before := pretext.Scans.Chosen(&choice)
		before.(*settings).Network.Norm = "group" // one voxel may be left of a patch
		before.(*settings).Crop, before.(*settings).Patch = [3]int{120, 120, 120}, [3]int{32, 32, 32}
		other, err := pretext.Override(&choice, "test", config.NewSection(text))
		if err != nil {
			t.Fatal(err)
		}
		_, after := pretext.Scans.Chosen(&other)
		if err := after.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		c := after.(*settings).Config
		if c.Patch != [3]int{want.patch, want.patch, want.patch} {
			t.Errorf("%s: patch %v, want %v", text, c.Patch, want.patch)
		}
		if told := len(c.smallestCells().Notes()) > 0; told != want.told {
			t.Errorf("%s: notes %q", text, c.smallestCells().Notes())
		}
	}
}

func TestHardSettingsNameWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"grids has one grid, 2x2x2":      func(c *Config) { c.Grids = []string{"2x2x2"} },
		"grid is 2x2x2, but grids lists": func(c *Config) { c.Grid = [4]int{2, 2, 2} },
		"\"2x2\" is no grid":             func(c *Config) { c.Grids[1] = "2x2" },
		"\"2x2xa\" is no grid":           func(c *Config) { c.Grids[1] = "2x2xa" },
		"at least one cell":              func(c *Config) { c.Grids[1] = "2x0x2" },
		"listed twice in grids":          func(c *Config) { c.Grids[1] = "2x2x2" },
		"larger than a cell":             func(c *Config) { c.Grids[1] = "2x2x6" },
		"head paper is for one grid":     func(c *Config) { c.Head, c.Layers, c.AttentionHeads = Paper, 0, 0 },
		"layers and attention_heads are": func(c *Config) { c.Head = Symmetric },
		"missing is 1.5":                 func(c *Config) { c.Missing = 1.5 },
		"less than two are left":         func(c *Config) { c.Missing = 0.9 },
		"attention_heads is 3":           func(c *Config) { c.AttentionHeads = 3 },
		"column_sum wants every place":   func(c *Config) { c.ColSum = 1 },
		"leaves less than 32 of 8!":      func(c *Config) { c.Share = 1e-4 },
	} {
		c := hard()
		spoil(&c)
		if _, err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	c := hard()
	c.Layers, c.AttentionHeads, c.Patch = 0, 0, [3]int{}
	c.Crop = [3]int{45, 45, 30}
	c = resolved(t, c)
	if c.Layers != 2 || c.AttentionHeads != 4 || fmt.Sprint(c.Grid, c.Patch) != "[3 2 2 0] [12 12 12]" {
		t.Errorf("%d layers of %d attention heads, grid %v, patch %v", c.Layers, c.AttentionHeads, c.Grid, c.Patch)
	}
}

// Beside puzzles, restoration trains the decoder, too.
func TestDeepSupervisionBesidePuzzles(t *testing.T) {
	c := DefaultConfig()
	c.Network.DeepSupervision, c.Restore = true, 0.5
	if err := c.Idle(); err != nil {
		t.Error(err)
	}
}

// Settings that do nothing beside the others are refused, or told where they have a value by
// default.
func TestPuzzleSettingsThatDoNothing(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"binary_weight and search_once": func(c *Config) { c.BinaryWeight = 1 },
		"and search_once are":           func(c *Config) { c.SearchOnce = true },
		"skip_air is of heads":          func(c *Config) { c.SkipAir, c.Head = true, KWay },
		"dropout is 0.3":                func(c *Config) { c.Network.Dropout = 0.3 },
		"deep_supervision is of the":    func(c *Config) { c.Network.DeepSupervision = true },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Idle(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		if _, err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
			t.Errorf("%s: a run that was begun with it cannot go on: %v", want, err)
		}
	}
	for want, change := range map[string]func(*Config){
		"":                              func(*Config) {},
		"rounds 20 does nothing: head ": func(c *Config) { c.Rounds = 20 },
		"rounds 2 does":                 func(c *Config) { c.Rounds, c.Head = 2, KWay },
		"classes 1000, criterion min":   func(c *Config) { c.Classes = 1000 },
		"criterion mean does nothing":   func(c *Config) { c.Criterion = "mean" },
		"distance 3 does nothing":       func(c *Config) { c.Distance = 3 },
		"hidden 512 does nothing":       func(c *Config) { c.Hidden, c.Head = 512, Paper },
	} {
		c := DefaultConfig()
		change(&c)
		c, err := c.Resolve(traintest.Prepared{How: volume.DefaultPreparation()})
		if err != nil || c.Idle() != nil {
			t.Errorf("%s: %v, %v", want, err, c.Idle())
		}
		notes := strings.Join(c.notes(), "; ")
		if notes != "" != (want != "") || !strings.Contains(notes, want) {
			t.Errorf("notes %q, want %q", notes, want)
		}
	}
	for _, c := range []Config{{Puzzle: voxsaw.Puzzle{Rounds: 1}}, {Puzzle: voxsaw.Puzzle{Rounds: 20, Head: Paper}}} {
		one := DefaultConfig()
		one.Rounds, one.Head = c.Rounds, cmp.Or(c.Head, one.Head)
		if one, err := one.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil ||
			len(one.notes()) > 0 {
			t.Errorf("%d rounds of head %s: %q, %v", one.Rounds, one.Head, one.notes(), err)
		}
	}
}
