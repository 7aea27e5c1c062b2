package photostudy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"

	_ "github.com/voxsaw/voxsaw/internal/device/cpu" // the device to train on
	"github.com/voxsaw/voxsaw/puzzle2d"
)

// prepare prepares made-up photographs of two classes, of a width and height.
func prepare(t *testing.T, side int) string {
	t.Helper()
	dir := t.TempDir()
	for k := range 16 {
		path := filepath.Join(dir, "photos", []string{"dark", "light"}[k%2], fmt.Sprintf("%02d.png", k))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		m := image.NewRGBA(image.Rect(0, 0, side, side))
		for i := range side * side {
			m.Set(i%side, i/side, color.RGBA{uint8(4 * (i % side)), uint8(4 * (i / side)),
				uint8(60 + 100*(k%2) + k), 255})
		}
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	set, err := photos.Find(filepath.Join(dir, "photos"), 0.25, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := photos.DefaultOptions()
	o.Size = [2]int{side, side}
	if _, err := photos.Prepare(context.Background(), set, filepath.Join(dir, "prepared"), o, nil); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "prepared")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// console counts trainings.
type console struct{ trainings *int }

func (c console) Training(string, string) voxsaw.Observer { *c.trainings++; return nil }
func (console) Trained()                                  {}
func (console) Note(string)                               {}

const plan = `
seeds: [1, 2]
rounds: [1, 3]
only_classes: 10
pretrain:
  task: jigsaw
  network: {backbone: resnet18, width: 0.0625}
  train: {steps: 6, validate_every: 0, checkpoint_every: 3, warmup: 2}
  grid: 3x3
  cell: 20
  patch: 16
  batch: 2
  features: 16
  hidden: 16
  head: paper
  rounds: 3
  binary: true
arms:
  - {name: random, random: true}
  - {name: puzzles, pretrain: {}}
  - {name: kway, pretrain: {head: kway, classes: 10, binary: false}}
  - {name: labels, pretrain: {task: labels, crop: 48, batch: 4}}
transfer:
  - {name: own, data: DATA, per_class: 2, C: [1], draws: 2, mix: false, side: 48}
  - {name: mixed, data: DATA, per_class: 3, C: [0.1, 1], draws: 2, mix: true, normalise: true, side: 48, layer: conv5}
contrasts:
  - {name: puzzles teach, arm: puzzles, against: random}
  - {name: any order is better, arm: puzzles, against: kway}
`

func TestRun(t *testing.T) {
	data := prepare(t, 60)
	p := DefaultPlan()
	if err := config.Parse("plan", []byte("photos: "+data+strings.ReplaceAll(plan, "DATA", data)), &p); err != nil {
		t.Fatal(err)
	}
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	trainings := 0
	s := experiment.Setting{Out: filepath.Join(t.TempDir(), "study"), Device: dev, Console: console{&trainings}}
	found, err := Run(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	results := found.Results
	if len(results) != 8 || trainings != 6 {
		t.Fatalf("%d results of %d trainings", len(results), trainings)
	}
	if k := results[2].Solved; len(k) != 3 || len(k["unary"].Rounds) != 3 || len(k["binary"].Rounds) != 3 ||
		len(k["only"].Rounds) != 1 {
		t.Errorf("puzzles were solved in the ways %v", k)
	}
	if k := results[4].Solved; len(k) != 1 || k["only"].Chance.Correct != 0.1 {
		t.Errorf("K-way puzzles were solved in the ways %v", k)
	}
	kept, err := readResult(filepath.Join(s.Out, "arms", "puzzles", "seed-1", resultFile))
	if err != nil || kept.Settings["pretrain.patch"] != "16" || kept.Settings["transfer.2.layer"] != "conv5" {
		t.Errorf("kept settings %v, %v", kept.Settings, err)
	}
	// the time of the steps in all sittings, as their log has it
	status, err := train.ReadStatus(filepath.Join(s.Out, "arms", "puzzles", "seed-1"))
	if err != nil || status.Time == 0 || kept.Elapsed != status.Time {
		t.Errorf("training took %v, and its log has %v, %v", kept.Elapsed, status.Time, err)
	}
	solved, transfer := solvedTable(p, results), transferTable(p, results)
	// puzzles: two rounds, unary and binary, and only; K-way: only
	if len(solved.Rows) != 2*2+1+1 || len(transfer.Rows) != 8 {
		t.Errorf("%d rows of puzzles, %d of features", len(solved.Rows), len(transfer.Rows))
	}
	// puzzles and random share two targets; puzzles and K-way also the puzzles among few orders
	contrasts := contrastTable(p, results)
	if len(contrasts.Rows) != 2+3 {
		t.Errorf("%d rows of contrasts", len(contrasts.Rows))
	}
	for k, row := range contrasts.Rows[:2] {
		want := 0.0
		for i := range 2 {
			for j := range 2 {
				want += 25 * (results[2+i].Transfer[k].Draws[j].ClassMean - results[i].Transfer[k].Draws[j].ClassMean)
			}
		}
		if got := row[6].(float64); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: difference %v, want %v", row[4], got, want)
		}
	}
	page, err := found.Report(context.Background(), "title", s)
	if err == nil {
		err = page.Write(s.Out, "report")
	}
	if err != nil {
		t.Error(err)
	}
	var before, after bytes.Buffer
	if err := transfer.Markdown(&before); err != nil {
		t.Fatal(err)
	}

	// Once more: nothing is repeated, and the tables are the same.
	if found, err = Run(context.Background(), p, s); err != nil || trainings != 6 {
		t.Errorf("%d trainings, %v", trainings, err)
	}
	if err := transferTable(p, found.Results).Markdown(&after); err != nil || before.String() != after.String() {
		t.Errorf("another table: %v\n%s\n%s", err, &before, &after)
	}

	// What others are at work on is left to them, a trial can be run alone, and where only finished
	// ones are asked for, nothing is trained.
	release, err := atomicfile.Hold(filepath.Join(s.Out, "arms", "kway", "seed-2"))
	if err != nil {
		t.Fatal(err)
	}
	found, err = Run(context.Background(), p, s)
	release()
	if err != nil || len(found.Results) != 7 || len(found.Elsewhere) != 1 {
		t.Errorf("beside another process: %d results, %v elsewhere, %v", len(found.Results), found.Elsewhere, err)
	}
	alone := s
	alone.Trial = 4
	found, err = Run(context.Background(), p, alone)
	if err != nil || len(found.Results) != 1 || found.Results[0].Arm != "puzzles" || found.Results[0].Seed != 2 {
		t.Errorf("trial 4: %+v, %v", found.Results, err)
	}
	more := p
	more.Seeds = []uint64{1, 2, 3}
	asked := s
	asked.Finished = true
	found, err = Run(context.Background(), more, asked)
	if err != nil || len(found.Results) != 8 || len(found.Elsewhere) != 4 || trainings != 6 {
		t.Errorf("finished ones alone: %d results, %v elsewhere, %d trainings, %v", len(found.Results),
			found.Elsewhere, trainings, err)
	}

	// A result that somebody has changed is refused.
	of := filepath.Join(s.Out, "arms", "puzzles", "seed-1", resultFile)
	written := read(t, of)
	if err := os.WriteFile(of, []byte(written+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var damaged *atomicfile.DamagedError
	if _, err := Run(context.Background(), p, s); !errors.As(err, &damaged) {
		t.Errorf("a changed result is taken: %v", err)
	}
	if err := os.WriteFile(of, []byte(written), 0o666); err != nil {
		t.Fatal(err)
	}

	// Other settings of an arm are another result, and its folder's run is not taken for it.
	p.Arms[1].Pretrain = config.NewSection("mirror: false\n")
	if _, err = Run(context.Background(), p, s); err == nil || !strings.Contains(err.Error(), "puzzles, seed 1") {
		t.Errorf("other settings in the same folder: %v", err)
	}
}

// Two ranks that carry out each arm together find what one process finds; a network whose batches
// they cannot share is refused before anything is trained.
func TestTwoRanksEqualOne(t *testing.T) {
	data := prepare(t, 128)
	p := DefaultPlan()
	if err := config.Parse("plan", []byte("photos: "+data+`
rounds: [1]
pretrain:
  network: {backbone: alexnet, width: 0.0625}
  train: {steps: 4, validate_every: 0, checkpoint_every: 0, warmup: 2}
  grid: 2x2
  cell: 64
  patch: 64
  batch: 2
  features: 16
  hidden: 16
transfer:
  - {name: own, data: `+data+`, per_class: 2, C: [1], draws: 2, side: 128}
`), &p); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Check(), p.CheckRanks(2)); err != nil {
		t.Fatal(err)
	}
	carryOut := func(out string, dev voxsaw.Device, ranks voxsaw.Ranks) ([]Result, error) {
		found, err := Run(t.Context(), p, experiment.Setting{Out: out, Device: dev, Ranks: ranks,
			Console: console{new(int)}})
		return found.Results, err
	}
	out := t.TempDir()
	want, err := carryOut(filepath.Join(out, "alone"), traintest.CPU(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	devices, ranks := []voxsaw.Device{traintest.CPU(t), traintest.CPU(t)}, traintest.Of(2)
	for again := range 2 { // the second time it is read
		var got []Result
		traintest.Both(t, func(rank int, _ train.Group) error {
			results, err := carryOut(filepath.Join(out, "together"), devices[rank], ranks[rank])
			if rank == 0 {
				got = results
			}
			return err
		})
		if len(got) != 2 || len(want) != 2 {
			t.Fatalf("%d results, alone %d", len(got), len(want))
		}
		for n, r := range got {
			if len(r.Solved) != len(want[n].Solved) || len(r.Transfer) != 1 || r.Steps != want[n].Steps && again == 0 ||
				r.Transfer[0].Draws[0].Accuracy != want[n].Transfer[0].Draws[0].Accuracy {
				t.Errorf("%+v, alone %+v", r, want[n])
			}
		}
	}
	last := func(of string) string { return train.Last(filepath.Join(out, of, "arms", "puzzles", "seed-1")) }
	traintest.Close(t, last("alone"), last("together"), 1e-6)

	for want, settings := range map[string]string{
		"arm puzzles: several ranks cannot share": "network: {backbone: resnet18}", "batch": "batch: 3"} {
		p.Arms[1].Pretrain = config.NewSection("{" + settings + "}")
		if err := p.CheckRanks(2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", settings, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for want, text := range map[string]string{
		"name the folder":         "arms: [{name: a, random: true}]",
		"two arms":                "photos: x\narms: [{name: a, random: true}, {name: a, random: true}]",
		"becomes a folder's":      "photos: x\narms: [{name: a/b, random: true}]",
		"say either random: true": "photos: x\narms: [{name: a}]",
		"no arm is random":        "photos: x\narms: [{name: a, pretrain: {}}]\ntransfer: [{name: t, data: y}]",
		"no task \"guess\"":       "photos: x\narms: [{name: a, pretrain: {task: guess}}]",
		"no arm \"b\"": "photos: x\narms: [{name: a, random: " +
			"true}]\ncontrasts: [{name: c, arm: a, against: b}]",
		"needs a name": "photos: x\narms: [{name: a, random: true}]\ncontrasts: [{arm: a, against: a}]",
		"compared with itself": "photos: x\narms: [{name: a, random: " +
			"true}]\ncontrasts: [{name: c, arm: a, against: a}]",
		"gird": "photos: x\narms: [{name: a, pretrain: {gird: 3x3}}]",
	} {
		p := DefaultPlan()
		err := config.Parse("plan", []byte(text), &p)
		if err == nil {
			err = p.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// spoiling damages the record of a run once it has ended.
type spoiling struct {
	console
	record string
}

func (s spoiling) Trained() { _ = os.WriteFile(s.record, []byte("{"), 0o666) }

// Ranks go by what rank 0 finds: of first weights that only its node has, and of a run that has
// ended.
func TestRanksGoByTheFirst(t *testing.T) {
	data := prepare(t, 128)
	p := DefaultPlan()
	if err := config.Parse("plan", []byte("photos: "+data+`
rounds: [1]
pretrain:
  network: {backbone: alexnet, width: 0.0625}
  train: {steps: 1, validate_every: 0, checkpoint_every: 0, warmup: 0}
  grid: 2x2
  cell: 64
  patch: 64
  batch: 2
  features: 16
  hidden: 16
`), &p); err != nil {
		t.Fatal(err)
	}
	both := func(s experiment.Setting, folder string, arms [2]Arm) (results [2]Result, errs [2]error) {
		t.Helper()
		ranks := traintest.Of(2)
		ended := make(chan int, 2)
		for rank := range 2 {
			r, err := newRunner(p, experiment.Setting{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.stores.Close()
			r.Setting = s
			r.Device, r.Ranks, r.Console = traintest.CPU(t), ranks[rank], console{new(int)}
			if rank == 0 {
				r.Console = spoiling{console{new(int)}, filepath.Join(folder, "run.json")}
			}
			go func() {
				results[rank], errs[rank] = r.arm(t.Context(), arms[rank], 1, folder)
				ended <- rank
			}()
		}
		for range 2 {
			select {
			case <-ended:
			case <-time.After(2 * time.Minute):
				t.Fatal("a rank waits for one that has gone on alone")
			}
		}
		return results, errs
	}

	// a result with first weights that rank 1 does not have
	dir := t.TempDir()
	weights := filepath.Join(dir, "weights.safetensors")
	if err := os.WriteFile(weights, []byte("weights"), 0o666); err != nil {
		t.Fatal(err)
	}
	with := func(path string) Arm {
		return Arm{Name: "puzzles", Pretrain: config.NewSection("{checkpoint: " + path + "}\n")}
	}
	arms := [2]Arm{with(weights), with(filepath.Join(dir, "elsewhere.safetensors"))}
	r, err := newRunner(p, experiment.Setting{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.stores.Close()
	chosen, err := p.settings(arms[0])
	if err != nil {
		t.Fatal(err)
	}
	task := chosen.Settings()
	task.Common().Train.Seed = 1
	if err := task.Resolve(r.own[""].Store); err != nil {
		t.Fatal(err)
	}
	before := Result{Arm: "puzzles", Seed: 1, Steps: 7}
	if before.Settings, err = r.settings(arms[0], chosen); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "found")
	if err := errors.Join(os.Mkdir(folder, 0o777), before.write(folder, false)); err != nil {
		t.Fatal(err)
	}
	results, errs := both(experiment.Setting{Finished: true}, folder, arms)
	if err := errors.Join(errs[:]...); err != nil || results[0].Steps != 7 || results[1].Steps != 7 {
		t.Errorf("%v: %d and %d steps", err, results[0].Steps, results[1].Steps)
	}

	// a record that rank 0 cannot read
	puzzles := Arm{Name: "puzzles", Pretrain: config.NewSection("{}\n")}
	if _, errs = both(experiment.Setting{}, filepath.Join(dir, "run"), [2]Arm{puzzles, puzzles}); errs[0] == nil ||
		!strings.Contains(errs[0].Error(), "is damaged") || errs[1] == nil {
		t.Errorf("%v; %v", errs[0], errs[1])
	}
}

// Linear machines that were not trained to their end are told of beside what they tell right.
func TestUnfinishedMachinesAreToldOf(t *testing.T) {
	p := Plan{Arms: []Arm{{Name: "random"}}, Transfer: []Target{{Name: "birds"}}}
	of := func(second bool) []string {
		draws := []puzzle2d.Draw{{Converged: true}, {Converged: second}}
		return transferTable(p, []Result{{Arm: "random", Transfer: []Measured{{Draws: draws}}}}).Notes
	}
	notes := strings.Join(of(false), "\n")
	if !strings.Contains(notes, "random on birds: in 1 of 2 draws the machines") {
		t.Errorf("got %q", notes)
	}
	if notes = strings.Join(of(true), "\n"); strings.Contains(notes, "WARNING") {
		t.Errorf("got %q", notes)
	}
}
