package photostudy

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// Each arm is compared with random weights of its own network, where the plan has them.
func TestRandomOfTheSameNetwork(t *testing.T) {
	section := config.NewSection
	p := DefaultPlan()
	p.Photos = "photos"
	p.Arms = []Arm{
		{Name: "random", Random: true},
		{Name: "puzzles", Pretrain: section("{}\n")},
		{Name: "random 50", Random: true, Pretrain: section("{network: {backbone: resnet50}}\n")},
		{Name: "puzzles 50", Pretrain: section("{network: {backbone: resnet50}, binary: false}\n")},
		{Name: "alexnet", Pretrain: section("{network: {backbone: alexnet}}\n")},
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"random", "random", "random 50", "random 50", "random"} {
		if got := p.randomFor(p.Arms[n]); got != want {
			t.Errorf("%s is compared with %s, want %s", p.Arms[n].Name, got, want)
		}
	}
	for want, spoil := range map[string]func(*Plan){
		`there is no score "precise"`: func(p *Plan) { p.Arms[1].Published = map[string]float64{"precise": 1} },
		"data is \"elsewhere\", which the plan has nowhere else": func(p *Plan) {
			p.Sources = []experiment.Source{{Data: "elsewhere", Holds: []string{"train"}}}
		},
		"holds is empty":              func(p *Plan) { p.Sources = []experiment.Source{{Data: "photos"}} },
		"finetune voc: data":          func(p *Plan) { p.Finetune = []Finetune{{Name: "voc"}} },
		"its name becomes a folder's": func(p *Plan) { p.Finetune = []Finetune{{Name: "a/b", Data: "voc"}} },
		"proposals are for task detect": func(p *Plan) {
			p.Finetune = []Finetune{{Name: "voc", Data: "voc", Proposals: "boxes.csv",
				Settings: section("{task: classify}\n")}}
		},
		"no arm is random": func(p *Plan) {
			p.Finetune = []Finetune{{Name: "voc", Data: "voc", Settings: section("{task: classify}\n")}}
			p.Arms = []Arm{{Name: "puzzles", Pretrain: section("{}\n")}}
		},
		"say either random: true": func(p *Plan) { p.Arms[1].Pretrain = config.Section{} },
	} {
		q := p
		q.Arms = append([]Arm(nil), p.Arms...)
		spoil(&q)
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Other proposals make another result, and so do those that nobody knows.
func TestOtherProposals(t *testing.T) {
	now := map[string]string{"finetune.2.proposals_digest": "abc"}
	for digest, want := range map[string]bool{"abc": true, `""`: false, "xyz": false} {
		old := map[string]string{"finetune.2.proposals_digest": digest}
		if got := same(old, now); got != want {
			t.Errorf("a result of proposals %s is taken: %v, want %v", digest, got, want)
		}
	}
}

// First weights are those of their digest, wherever the file lies; of a file that is gone its name
// counts. An arm does not go on with others.
func TestFirstWeightsGoByTheirDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	if err := os.WriteFile(path, []byte("weights"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := DefaultPlan()
	p.Arms = []Arm{{Name: "puzzles", Pretrain: config.NewSection("{checkpoint: " + path + "}\n")}}
	chosen, err := p.settings(p.Arms[0])
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{own: map[string]sample.Data{"": {Store: &photos.Store{}}}}
	now, err := r.settings(p.Arms[0], chosen)
	if err != nil || now[checkpointKey] != path || len(now[weightsKey]) != 64 {
		t.Fatalf("%v, %v", now, err)
	}
	with := func(path, digest string) map[string]string {
		old := maps.Clone(now)
		if old[checkpointKey], old[weightsKey] = path, digest; digest == "" {
			delete(old, weightsKey)
		}
		return old
	}
	for n, c := range []struct {
		old           map[string]string
		same, refused bool
	}{
		{now, true, false},
		{with("elsewhere", now[weightsKey]), true, false},
		{with(path, "another"), false, true},
		{with(path, ""), true, false}, // the file was gone
		{with("elsewhere", ""), false, false},
	} {
		if got := same(c.old, now); got != c.same {
			t.Errorf("%d: the same: %v", n, got)
		}
		if err := otherWeights("arm", c.old, now); (err != nil) != c.refused {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// watched keeps what is told.
type watched struct{ notes []string }

func (*watched) Training(string, string) voxsaw.Observer { return nil }
func (*watched) Trained()                                {}
func (w *watched) Note(text string)                      { w.notes = append(w.notes, text) }

// A setting that arms share is refused where none of them goes by it, or where the arm gives it
// that has no use for it. That is for new comparisons: one that has begun is told.
func TestSettingsThatDoNothing(t *testing.T) {
	data := prepare(t, 60)
	for change, want := range map[string]string{
		"pretrain: {binary: true, binary_weight: 1}\n" +
			"arms: [{name: U, pretrain: {binary: false}}, {name: UB, pretrain: {}}]": "",
		"pretrain: {binary: false, binary_weight: 1}\n" +
			"arms: [{name: U, pretrain: {}}]": "arm U: pretrain: binary_weight",
		"arms: [{name: UB, pretrain: {}}, " +
			"{name: kway, pretrain: {head: kway, classes: 4, column_sum: 1}}]": "arm kway: pretrain: column_sum",
		"arms: [{name: UB, pretrain: {}}, " +
			"{name: labels, pretrain: {task: labels, init_partial: true}}]": "arm labels: pretrain: init_partial",
		"arms: [{name: a, random: true, pretrain: {init_partial: true, network: {width: 0.5}}}, " +
			"{name: b, pretrain: {}}]": "",
	} {
		p := DefaultPlan()
		if err := config.Parse("plan", []byte("photos: "+data+"\n"+change+"\n"), &p); err != nil {
			t.Fatal(change, err)
		}
		err := p.Idle()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", change, err, want)
		}
		if want == "" {
			continue
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		told := &watched{}
		s := experiment.Setting{Out: filepath.Join(t.TempDir(), "out"), Device: traintest.CPU(t), Console: told}
		if _, err := Run(ctx, p, s); !errors.As(err, new(*config.Mistake)) {
			t.Errorf("%s: a new comparison: %v", change, err)
		}
		if err := os.MkdirAll(filepath.Join(s.Out, armsFolder, "some"), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(ctx, p, s); !errors.Is(err, context.Canceled) || len(told.notes) != 1 ||
			!strings.Contains(told.notes[0], "the study goes on without") {
			t.Errorf("%s: one that has begun: %v, %q", change, err, told.notes)
		}
	}
}

// stopping ends a study after a step.
type stopping struct {
	console
	after int
	stop  func()
}

func (s stopping) Training(string, string) voxsaw.Observer { return s }
func (stopping) Started(int, int)                          {}
func (stopping) Validated(int, voxsaw.Validation, bool)    {}
func (stopping) Saved(string, int)                         {}
func (s stopping) Stepped(p voxsaw.Progress) {
	if p.Step == s.after {
		s.stop()
	}
}

// An arm that was stopped within its training goes on where its file of first weights is the one
// that it began with, or gone.
func TestStoppedArmKnowsItsFirstWeights(t *testing.T) {
	text := "photos: " + prepare(t, 60) + `
pretrain: {network: {backbone: resnet18, width: 0.0625}, train: {steps: 4, validate_every: 0, warmup: 0}, grid: 2x2,
  cell: 20, patch: 16, batch: 2, features: 16, rounds: 2}
`
	study := func(after int, out, arm string, seeds ...uint64) error {
		p := DefaultPlan()
		if err := config.Parse("plan", []byte(text+"arms: [{name: a, pretrain: "+arm+"}]\n"), &p); err != nil {
			t.Fatal(err)
		}
		p.Seeds = seeds
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		_, err := Run(ctx, p, experiment.Setting{Out: out, Device: traintest.CPU(t),
			Console: stopping{after: after, stop: stop}})
		return err
	}
	first := filepath.Join(t.TempDir(), "first")
	if err := study(0, first, "{train: {steps: 1}}", 1, 2); err != nil {
		t.Fatal(err)
	}
	weights := func(seed string) string {
		return train.Last(filepath.Join(first, armsFolder, "a", "seed-"+seed))
	}
	copied := func(seed, to string) {
		data, err := os.ReadFile(weights(seed))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	here, out := filepath.Join(t.TempDir(), "here.safetensors"), filepath.Join(t.TempDir(), "out")
	copied("1", here)
	if err := study(2, out, "{checkpoint: "+here+"}", 3); !errors.As(err, new(*voxsaw.InterruptedError)) {
		t.Fatal(err)
	}
	copied("2", here)
	if err := study(0, out, "{checkpoint: "+here+"}", 3); !errors.As(err, new(*voxsaw.ChangedError)) ||
		!strings.Contains(err.Error(), "has other weights than when the arm was trained") {
		t.Errorf("other first weights: %v", err)
	}
	copied("1", here)
	if err := study(3, out, "{checkpoint: "+here+"}", 3); !errors.As(err, new(*voxsaw.InterruptedError)) {
		t.Errorf("the same again: %v", err)
	}
	if err := os.Remove(here); err != nil {
		t.Fatal(err)
	}
	if err := study(0, out, "{checkpoint: "+here+"}", 3); err != nil {
		t.Errorf("a file that is gone: %v", err)
	}
	// what could not be begun with has no say
	if err := os.WriteFile(here, []byte("no weights"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := study(0, out, "{checkpoint: "+here+"}", 4); err == nil {
		t.Error("no weights are begun with")
	}
	copied("1", here)
	if err := study(0, out, "{checkpoint: "+here+"}", 4); err != nil {
		t.Errorf("weights at last: %v", err)
	}
}

// Made-up photographs are as large as the finest of several grids wants them.
func TestMadeUpFitGrids(t *testing.T) {
	p := DefaultPlan()
	if err := config.Parse("plan", []byte("pretrain: {grids: [2x2, 4x4], cell: 20, patch: 16}\n"), &p); err != nil {
		t.Fatal(err)
	}
	folder, err := p.madeUp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, err := photos.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if width, height := store.Size(); width != 80 || height != 80 {
		t.Errorf("made-up photographs of %dx%d, want 80x80", width, height)
	}
}
