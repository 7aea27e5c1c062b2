package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	_ "github.com/voxsaw/voxsaw/internal/spatial" // tasks to choose from
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	_ "github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func caseNames(n int) (ids []string) {
	for k := range n {
		ids = append(ids, fmt.Sprintf("case_%02d", k+1))
	}
	return ids
}

func contains(large, small []string) bool {
	return !slices.ContainsFunc(small, func(id string) bool { return !slices.Contains(large, id) })
}

func disjoint(a, b []string) bool {
	return !slices.ContainsFunc(a, func(id string) bool { return slices.Contains(b, id) })
}

// Folds and learning curves do without cases whose labels are predicted; all folds train on them.
func TestPredictedLabelsAreNotTestedOn(t *testing.T) {
	p := DefaultPlan()
	p.Fractions, p.Curve, p.CurveCases, p.Inits = []float64{0.2}, 1, 20, []Initialisation{{Name: Scratch}}
	drawn, predicted := caseNames(12), []string{"guess_1", "guess_2", "guess_3"}
	want, err := p.cases(drawn, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.cases(slices.Concat(drawn, predicted), nil, nil, predicted...)
	if err != nil {
		t.Fatal(err)
	}
	for n, f := range c.Folds {
		if !slices.Equal(f.Test, want.Folds[n].Test) || !contains(f.Train, predicted) {
			t.Errorf("fold %d tests on %v and trains on %v", f.Fold, f.Test, f.Train)
		}
	}
	for _, trial := range p.trials(c) {
		if len(trial.Curve) == 0 || !disjoint(trial.Curve, predicted) {
			t.Errorf("%s is validated on %v", trial.Name(), trial.Curve)
		}
	}
	if !strings.Contains(strings.Join(c.doubts, "\n"), "the labels of 3 cases are predictions") {
		t.Errorf("doubts %q", c.doubts)
	}
}

// Whatever the plan, nobody is tested on a case that was trained on, and a smaller fraction is part
// of every larger one.
func TestCasesKeepTheirRoles(t *testing.T) {
	ids := caseNames(23)
	for _, unlabelled := range []float64{0, 0.3} {
		for _, scheme := range []string{"consecutive", "shuffled"} {
			for seed := range uint64(5) {
				p := DefaultPlan()
				p.Unlabelled, p.FoldScheme, p.SubsetSeed = unlabelled, scheme, seed
				p.Fractions = []float64{1, 0.1, 0.5, 0.2} // in any order
				c, err := p.cases(ids, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if (len(c.Unlabelled) > 0) != (unlabelled > 0) || len(c.Folds) != p.Folds {
					t.Fatalf("%d set aside, %d folds", len(c.Unlabelled), len(c.Folds))
				}
				all := slices.Clone(c.Unlabelled)
				for _, f := range c.Folds {
					all = append(all, f.Test...)
					if !disjoint(f.Train, f.Test) || !disjoint(f.Train, c.Unlabelled) || len(f.Train)+len(f.Test)+
						len(c.Unlabelled) != len(ids) {
						t.Errorf("fold %d: trains on %v, tests on %v, set aside %v", f.Fold, f.Train, f.Test,
							c.Unlabelled)
					}
					one, half, fifth, tenth := f.Fractions["1"], f.Fractions["0.5"], f.Fractions["0.2"],
						f.Fractions["0.1"]
					if !slices.Equal(one, f.Train) || !contains(one, half) || !contains(half, fifth) ||
						!contains(fifth, tenth) || len(tenth) == 0 || len(half) <= len(fifth) {
						t.Errorf("fold %d: fractions %v", f.Fold, f.Fractions)
					}
				}
				slices.Sort(all)
				if !slices.Equal(all, ids) {
					t.Errorf("tested once or set aside: %v, want every case once", all)
				}
				// Some of the folds are the same folds.
				p.RunFolds = []int{3}
				if some, err := p.cases(ids, nil, nil); err != nil || len(some.Folds) != 1 ||
					!slices.Equal(some.Folds[0].Test, c.Folds[2].Test) {
					t.Errorf("fold 3 alone: %+v, %v", some.Folds, err)
				}
				for _, trial := range p.trials(c) {
					if !disjoint(trial.Train, trial.Test) || !disjoint(trial.Test, c.Unlabelled) {
						t.Errorf("%s trains on %v and tests on %v", trial.Name(), trial.Train, trial.Test)
					}
				}
			}
		}
	}
	p := DefaultPlan()
	p.RunFolds = []int{5}
	if _, err := p.cases(ids, nil, nil); err == nil || !strings.Contains(err.Error(), "no fold 5") {
		t.Errorf("fold 5 of 4: %v", err)
	}
}

// A replicate draws its own subset and takes an encoder by turns; all its initialisations share
// both, and the cases that learning curves are measured on, which no run of it learns from.
func TestReplicates(t *testing.T) {
	ids := caseNames(40)
	p := DefaultPlan()
	p.Folds, p.Fractions, p.Seeds, p.Subsets, p.Encoders, p.Curve, p.CurveCases = 2, []float64{0.2, 1},
		[]uint64{1, 2, 3, 4}, "own", 3, 5, 6
	c, err := p.cases(ids, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	subsets := map[string][]string{}
	for _, trial := range p.trials(c) {
		fold := c.Folds[trial.Fold-1]
		if !contains(fold.Train, trial.Train) || !disjoint(trial.Train, trial.Curve) ||
			!disjoint(trial.Test, trial.Curve) || !contains(fold.Train, trial.Curve) {
			t.Errorf("%s trains on %v, has its curve on %v", trial.Name(), trial.Train, trial.Curve)
		}
		if want := map[float64]int{0.2: 6, 1: 0}[trial.Fraction]; len(trial.Curve) != want {
			t.Errorf("%s has its curve on %v, want %d cases", trial.Name(), trial.Curve, want)
		}
		key := fmt.Sprint(trial.Fold, trial.Fraction, trial.Seed)
		if before, seen := subsets[key]; seen && !slices.Equal(before, trial.Train) {
			t.Errorf("%s: its initialisations train on %v and %v", trial.Name(), before, trial.Train)
		}
		subsets[key] = trial.Train
	}
	if slices.Equal(subsets["1 0.2 1"], subsets["1 0.2 2"]) {
		t.Error("two seeds have one subset")
	}
	// seeds take draws by turns, and one that has another's is another training
	before := p
	p.Seeds, p.Draws = []uint64{1, 2, 4, 5}, 3
	if c, err = p.cases(ids, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, trial := range p.trials(c) {
		own := map[uint64]uint64{1: 1, 2: 2, 4: 1, 5: 2}[trial.Seed]
		if want := subsets[fmt.Sprint(trial.Fold, trial.Fraction, own)]; !slices.Equal(trial.Train, want) {
			t.Errorf("%s has not the draw of seed %d: %v, want %v", trial.Name(), own, trial.Train, want)
		}
		if p.drawShared(trial.Seed, 0.5) != own || before.drawShared(trial.Seed, 0.5) != 0 {
			t.Errorf("%s is said to have draw %d, and %d without draws", trial.Name(), p.drawShared(trial.Seed, 0.5),
				before.drawShared(trial.Seed, 0.5))
		}
	}
	p = before
	p.Subsets = "shared"
	if c, err = p.cases(ids, nil, nil); err != nil {
		t.Fatal(err)
	}
	shared := map[string][]string{}
	for _, trial := range p.trials(c) {
		key := fmt.Sprint(trial.Fold, trial.Fraction)
		if before, seen := shared[key]; seen && !slices.Equal(before, trial.Train) {
			t.Errorf("shared subsets: %s trains on %v and %v", trial.Name(), before, trial.Train)
		}
		shared[key] = trial.Train
	}
	// Runs of a fold on the same labelled cases have one draw, whatever makes them the same.
	for _, own := range []bool{true, false} {
		for _, draws := range []int{0, 3} {
			if p = before; !own && draws > 0 {
				continue // refused
			}
			if p.Draws = draws; !own {
				p.Subsets = "shared"
			}
			if c, err = p.cases(ids, nil, nil); err != nil {
				t.Fatal(err)
			}
			all := p.trials(c)
			for _, a := range all {
				drawn := p.drawShared(a.Seed, a.Fraction)
				for _, b := range all {
					if a.Fold != b.Fold || a.Fraction != b.Fraction || a.Seed == b.Seed {
						continue
					}
					same := drawn > 0 && drawn == p.drawShared(b.Seed, b.Fraction)
					if want := slices.Equal(a.Train, b.Train); same != want {
						t.Errorf("own %v, draws %d: %s and %s have the same cases: %v, one draw: %v", own, draws,
							a.Name(), b.Name(), want, same)
					}
				}
			}
		}
	}
	p = before
	if got := p.encoderNumbers(); !slices.Equal(got, []int{0, 1, 2}) || p.encoderOf(4) != p.encoderOf(1) {
		t.Errorf("encoders %v", got)
	}
}

func TestCheckRefuses(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"data: name":                          func(p *Plan) { p.Data = "" },
		"fractions is empty":                  func(p *Plan) { p.Fractions = nil },
		"seeds is empty":                      func(p *Plan) { p.Seeds = nil },
		"one initialisation":                  func(p *Plan) { p.Inits = nil },
		"seeds has 1 twice":                   func(p *Plan) { p.Seeds = []uint64{1, 2, 1} },
		"fractions has 0.5 twice":             func(p *Plan) { p.Fractions = []float64{0.5, 0.5} },
		"run_folds has 2 twice":               func(p *Plan) { p.RunFolds = []int{2, 1, 2} },
		"unlabelled is 1":                     func(p *Plan) { p.Unlabelled = 1 },
		"unlabelled is -0.1":                  func(p *Plan) { p.Unlabelled = -0.1 },
		`initialisation ""`:                   func(p *Plan) { p.Inits[1].Name = "" },
		`initialisation "../up"`:              func(p *Plan) { p.Inits[1].Name = "../up" },
		`initialisation ".hidden"`:            func(p *Plan) { p.Inits[1].Name = ".hidden" },
		`two initialisations "scratch"`:       func(p *Plan) { p.Inits = append(p.Inits, p.Inits[0]) },
		"both a checkpoint and settings":      func(p *Plan) { p.Inits[1].Checkpoint = "a.safetensors" },
		"scratch means random weights":        func(p *Plan) { p.Inits[0].Pretrain = config.NewSection("{}\n") },
		"data to pretrain on, but no section": func(p *Plan) { p.Inits[1] = Initialisation{Name: "x", Data: "y"} },
		"encoder is \"scratch\", which is no": func(p *Plan) {
			p.Inits[1] = Initialisation{Name: "x", Encoder: Scratch}
		},
		"encoder is \"nobody\"": func(p *Plan) {
			p.Inits[1] = Initialisation{Name: "x", Encoder: "nobody"}
		},
		"has the encoders of 3x3x3, and":        func(p *Plan) { p.Inits[1].Encoder = "3x3x3" },
		"network differ: the weights would not": func(p *Plan) { p.Finetune.Network.Channels++ },
		"pretrain: ":                            func(p *Plan) { network(p).Norm = "none such" },
		"there is no task \"chess\"": func(p *Plan) {
			p.Inits[1].Pretrain = config.NewSection("task: chess\n")
		},
		"initialisation 3x3x3: pretrain:1": func(p *Plan) {
			p.Inits[1].Pretrain = config.NewSection("gird: [2, 2, 2]\n")
		},
		"finetune: ":                            func(p *Plan) { p.Finetune.Network.Norm = "none such" },
		"subsets is":                            func(p *Plan) { p.Subsets = "mine" },
		"draws is -1":                           func(p *Plan) { p.Subsets, p.Draws = "own", -1 },
		"draws: with subsets: shared":           func(p *Plan) { p.Draws = 2 },
		"several networks cannot be had in one": func(p *Plan) { p.Inits[1].Teachers, p.Inits[1].Networks = 1, 2 },
		"scratch is one network":                func(p *Plan) { p.Inits[0].Networks = 2 },
		"encoders is 0":                         func(p *Plan) { p.Encoders = 0 },
		"curve is 10 points of 0 cases":         func(p *Plan) { p.Curve, p.CurveCases = 10, 0 },
		"network, labels and train.seed are": func(p *Plan) {
			p.Inits[0].Finetune = config.NewSection("network: {channels: 32}\n")
		},
		"initialisation scratch: finetune:1": func(p *Plan) {
			p.Inits[0].Finetune = config.NewSection("stesp: 3\n")
		},
		"finetune:2: train.lr: want more than 0": func(p *Plan) {
			p.Inits[0].Finetune = config.NewSection("train: {lr: -1}\n")
		},
	} {
		p := DefaultPlan()
		p.Data = "prepared"
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		change(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ...%s...", err, want)
		}
	}
}

// network is the one that a plan pretrains.
func network(p *Plan) *voxsaw.Network {
	_, settings := pretext.Scans.Chosen(&p.Pretrain.OneOf)
	return settings.Common().Network
}

// An initialisation has the plan's settings but for those that it gives itself; another task has
// those that all tasks share.
func TestInitialisationsOverrideThePlan(t *testing.T) {
	plan := func() Plan {
		p := DefaultPlan()
		if err := config.Parse("plan", []byte(`
data: prepared
pretrain: {network: {channels: 8, levels: 3}, crop: [96, 96, 96], patch: [16, 16, 16], batch: 3, train: {steps: 7, lr: 0.5}}
finetune: {network: {channels: 8, levels: 3}}
`), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for section, want := range map[string]string{
		"{}": "task: jigsaw grid: [3, 3, 3] crop: [96, 96, 96] " +
			"patch: [16, 16, 16] batch: 3 steps: 7 lr: 0.5",
		"{grid: [2, 2, 2], train: {steps: 9}}": "task: jigsaw grid: [2, 2, 2] crop: [96, 96, 96] " +
			"patch: [32, 32, 32] batch: 3 steps: 9 lr: 0.5",
		"{grid: [2, 2, 2], patch: [16, 16, 16]}": "grid: [2, 2, 2] patch: [16, 16, 16]",
		"{task: rotation}": "task: rotation crop: [96, 96, " +
			"96] batch: 3 rotations: 10 steps: 7 lr: 0.5",
		"{task: rotation, rotations: 24}": "rotations: 24",
	} {
		p := plan()
		if err := config.Parse("plan", []byte("initialisations: [{name: a, pretrain: "+section+"}]"), &p); err != nil {
			t.Fatal(err)
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		chosen, err := p.pretext(p.Inits[0])
		if err != nil {
			t.Fatal(err)
		}
		settings := chosen.Settings()
		if err := settings.Resolve(traintest.Prepared{How: volume.DefaultPreparation()}); err != nil {
			t.Fatal(err)
		}
		text, err := config.Marshal(&chosen)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`\w+: (\[[^]]*\]|\S+)`).FindAllString(want, -1) {
			if !regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(line) + ` #`).Match(text) {
				t.Errorf("%s: no %q in\n%s", section, line, text)
			}
		}
		if !strings.Contains(section, "task") && p.Pretrain.Value().(pretext.Config).Common().Train.Steps != 7 {
			t.Errorf("%s has changed the plan", section)
		}
	}
	p := plan()
	p.Inits = []Initialisation{{Name: "a", Pretrain: config.NewSection("task: rotation\ngrid: [2, 2, 2]\n")}}
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "grid") {
		t.Errorf("a grid for rotations: %v", err)
	}
}

// prepared makes a folder of prepared cases, labelled unless their names begin with "plain", from
// the files that sources names.
func preparedCases(t *testing.T, sources map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	grid := volume.Grid{Shape: [3]int{4, 4, 4}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	for id, path := range sources {
		source, err := prepared.NewSource(path)
		if err != nil {
			t.Fatal(err)
		}
		voxels := make([]int16, grid.Len()) // as many scans as files: folds keep copies together
		for n := range len(source.Hash) / 4 {
			x, err := strconv.ParseUint(source.Hash[4*n:4*n+4], 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			voxels[n] = int16(x)
		}
		scan := prepared.Input{ID: id, Image: &volume.Volume{Grid: grid, Int16: voxels},
			Sources: []prepared.Source{source}}
		if !strings.HasPrefix(id, "plain") {
			scan.Labels = &volume.LabelMap{Grid: grid, Labels: make([]uint16, grid.Len())}
		}
		if _, err := w.Add(scan); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A scan in another file and of another name is known by its voxels.
func TestCopiesOfTestCasesAreKnown(t *testing.T) {
	tested := []prepared.Record{{ID: "a", Scan: "1", Sources: []prepared.Source{{Path: "a.nii", Hash: "x"}}},
		{ID: "old"}, {ID: "visit_1", Scan: "4", Patient: "P7"}}
	others := []prepared.Record{{ID: "copy", Scan: "1", Patient: "P1",
		Sources: []prepared.Source{{Path: "b.nii.gz", Hash: "y"}}},
		{ID: "other", Scan: "2", Patient: "P2"}, {ID: "earlier"}, {ID: "old", Scan: "3"},
		{ID: "visit_2", Scan: "5", Patient: "P7"},    // of a patient who is tested
		{ID: "after copy", Scan: "6", Patient: "P1"}, // of the patient of a copy
		{ID: "held back", Scan: "4", Patient: "P8", Group: "test"},
		{ID: "beside it", Scan: "7", Patient: "P8"}} // of the patient of a copy that is held back
	free, left := apart(slices.Values(others), tested)
	if !slices.Equal(free, []string{"other", "earlier"}) ||
		!slices.Equal(left, []string{"copy", "old", "visit_2", "after copy", "beside it"}) {
		t.Errorf("free %v, left %v", free, left)
	}
}

// An encoder that has seen a test scan, if only as puzzles, would flatter the result.
func TestPretrainingNeverSeesATestCase(t *testing.T) {
	scans := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(scans, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own := map[string]string{"plain": file("plain", "plain")}
	for _, id := range caseNames(4) {
		own[id] = file(id, "scan of "+id)
	}
	p := DefaultPlan()
	p.Data, p.Folds, p.RunFolds = preparedCases(t, own), 2, []int{1}
	p.Inits[1].Data = preparedCases(t, map[string]string{
		"case_01": file("namesake", "another scan"), "copy": file("copy", "scan of case_02"),
		"same_path": own["case_03"],
		"free_1":    file("free_1", "free 1"), "free_2": file("free_2", "free 2"), "plain": own["plain"],
	})
	look := func() Preview {
		t.Helper()
		v, err := Look(p, "")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := look()
	if len(v.Encoders) != 1 {
		t.Fatalf("%d encoders", len(v.Encoders))
	}
	e := v.Encoders[0]
	slices.Sort(e.Cases)
	slices.Sort(e.Left)
	// case_03 is of fold 2, which is not run: the experiment may grow by it.
	if !slices.Equal(e.Cases, []string{"free_1", "free_2", "plain"}) ||
		!slices.Equal(e.Left, []string{"case_01", "copy", "same_path"}) || e.Fold != 0 {
		t.Errorf("pretrains on %v, leaves out %v, fold %d", e.Cases, e.Left, e.Fold)
	}

	p.Inits[1].Data = preparedCases(t, map[string]string{"copy": filepath.Join(scans, "copy"),
		"case_01": filepath.Join(scans, "namesake")})
	if _, err := Look(p, ""); err == nil ||
		!strings.Contains(err.Error(), "initialisation 3x3x3: folds test on all 2 cases of") {
		t.Errorf("a folder of nothing but test cases: %v", err)
	}

	// On the experiment's own cases: those that each fold trains on, and those that never had
	// labels.
	p.Inits[1].Data, p.RunFolds = "", nil
	if v = look(); len(v.Encoders) != 2 {
		t.Fatalf("%d encoders of 2 folds", len(v.Encoders))
	}
	for n, e := range v.Encoders {
		f := v.Cases.Folds[n]
		if e.Fold != f.Fold || !slices.Equal(e.Cases, append(slices.Clone(f.Train), "plain")) ||
			!disjoint(e.Cases, f.Test) {
			t.Errorf("fold %d: pretrains on %v, tests on %v", e.Fold, e.Cases, f.Test)
		}
	}
	p.Unlabelled = 0.5
	if v = look(); len(v.Encoders) != 1 ||
		!slices.Equal(v.Encoders[0].Cases, append(slices.Clone(v.Cases.Unlabelled), "plain")) ||
		v.Encoders[0].Fold != 0 {
		t.Errorf("set aside %v, encoders %+v", v.Cases.Unlabelled, v.Encoders)
	}
}

func TestPlanWarnsOfItsWindow(t *testing.T) {
	p := DefaultPlan()
	for _, window := range [][3]int{{}, p.Finetune.Crop} {
		p.Inference.Window = window
		if warnings, _, err := p.warnings(nil); err != nil || len(warnings) > 0 {
			t.Errorf("window %v: %q, %v", window, warnings, err)
		}
	}
	p.Inference.Window = [3]int{128, 128, 128}
	warnings, _, err := p.warnings(nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "window of inference is 128x128x128") ||
		!strings.Contains(warnings[0], "crops of 64x64x64") {
		t.Errorf("%q, %v", warnings, err)
	}
}
