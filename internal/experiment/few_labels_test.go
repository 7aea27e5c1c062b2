package experiment

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// made prepares made-up patients with labels into a folder.
func made(t *testing.T, n int, shape [3]int) (folder string) {
	t.Helper()
	folder = t.TempDir()
	w, err := prepared.NewWriter(folder, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for k, id := range caseNames(n) {
		v, l, err := phantom.New(uint64(k+1), phantom.Options{Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Add(prepared.Input{ID: id, Image: v, Labels: l}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return folder
}

// labelMaps is the arithmetic of the label maps that one teacher makes of a fold's 59 scans, as
// voxsaw crossval --plan says for OpenKBP.
const labelMaps = 35.89e12

// All arms of the study of few labels but scratch take the same arithmetic, and scratch has the
// steps of hard.
func TestFewLabelsSpendsTheSame(t *testing.T) {
	p := committed(t, "few-labels.yaml")
	p.Data = made(t, 9, [3]int{24, 24, 24})
	costs, err := p.Costs(t.Context(), traintest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, c := range costs {
		all[c.Init] = c.FLOPs[OfPretraining] + c.FLOPs[OfFinetuning] +
			float64(p.initialisation(c.Init).Teachers)*labelMaps
	}
	for name, spent := range all {
		if want := all["scratch+"]; name != Scratch && math.Abs(spent/want-1) > 0.005 {
			t.Errorf("%s takes %.1f TFLOP, want %.1f", name, spent/1e12, want/1e12)
		}
	}
	hard, err := p.finetune(p.initialisation("hard"))
	if err != nil || hard.Train.Steps != p.Finetune.Train.Steps || len(all) != 8 {
		t.Errorf(
			"%d steps of hard, %d of scratch, %d arms, %v",
			hard.Train.Steps,
			p.Finetune.Train.Steps,
			len(all),
			err,
		)
	}
}

// The study has the data, folds, network and rates of the leaderboard, and an encoder of its board;
// its control differs in labels and steps alone.
func TestFewLabelsIsOfTheLeaderboard(t *testing.T) {
	p, control, board := committed(t, "few-labels.yaml"), committed(t, "few-labels-66.yaml"),
		committed(t, "leaderboard.yaml")
	want := committed(t, "leaderboard-labels.yaml")
	want.Inits, want.Baseline = p.Inits, p.Baseline
	want.Fractions, want.Seeds, want.Draws = p.Fractions, p.Seeds, p.Draws
	want.Curve, want.CurveCases, want.Pretrain, want.Finetune.Train.Steps = 0, p.CurveCases, p.Pretrain,
		p.Finetune.Train.Steps
	if !reflect.DeepEqual(p, want) {
		t.Errorf("another study than the leaderboard's: %+v, want %+v", p, want)
	}
	a, errA := p.pretext(p.initialisation("hard"))
	b, errB := board.pretext(board.initialisation("hard"))
	textA, errTextA := config.Marshal(&a)
	textB, errTextB := config.Marshal(&b)
	if err := errors.Join(errA, errB, errTextA, errTextB); err != nil || string(textA) != string(textB) {
		t.Errorf("another encoder than the board's: %v\n%s\n%s", err, textA, textB)
	}
	want = p
	want.Inits, want.Fractions, want.Seeds, want.Draws, want.Baseline = control.Inits, control.Fractions, control.Seeds,
		0, ""
	want.Pretrain, want.Finetune.Train.Steps = control.Pretrain, control.Finetune.Train.Steps
	if !reflect.DeepEqual(control, want) {
		t.Errorf("the control is another study: %+v, want %+v", control, want)
	}
}

// The recipes have the data, folds, draws, network and rates of few labels, and the steps of its
// scratch+, which they are compared with; the residual network has its own steps.
func TestRecipesAreOfFewLabels(t *testing.T) {
	p := committed(t, "few-labels.yaml")
	base, err := p.finetune(p.initialisation("scratch+"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"recipes.yaml", "recipes-resenc.yaml"} {
		got, want := committed(t, name), p
		want.Inits, want.Baseline, want.Pretrain, want.Finetune = got.Inits, got.Baseline, got.Pretrain, base
		want.Seeds = []uint64{1, 2}
		if name == "recipes-resenc.yaml" {
			want.Finetune.Network, want.Finetune.Train.Steps = got.Finetune.Network, got.Finetune.Train.Steps
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is another study: %+v, want %+v", name, got, want)
		}
	}
}

// The study of few labels runs to its end, in miniature: all arms on made-up patients, stopped once
// in the teacher of its last arm; then its report.
func TestFewLabelsRuns(t *testing.T) {
	if !turns.Has(t, 0, 2) {
		return
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "configs", "few-labels.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	small := string(text)
	for pattern, by := range map[string]string{`steps: \d+`: "steps: 3", `checkpoint_every: \d+`: "checkpoint_every: 2",
		`warmup: \d+`: "warmup: 0", `channels: 8`: "channels: 2", `groups: 8`: "groups: 2",
		`crop: \[64, 64, 64\]`: "crop: 32",
		`seeds: \[1, 2, 4\]`:   "run_folds: [1]\nseeds: [4]", `fractions: \[0.1\]`: "fractions: [0.5]",
		`data: .*`: "data: " + made(t, 6, [3]int{80, 72, 80})} {
		short := regexp.MustCompile(pattern).ReplaceAllString(small, by)
		if short == small {
			t.Fatalf("the plan has no %s", pattern)
		}
		small = short
	}
	p := DefaultPlan()
	if err := config.Parse("plan", []byte(small), &p); err != nil {
		t.Fatal(err)
	}
	s := Setting{Out: filepath.Join(t.TempDir(), "out"), Device: traintest.CPU(t)}
	run := func(stop string) (*Result, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.Console = &watched{step: func(trial string, step int) {
			if stop != "" && strings.HasPrefix(trial, stop) && step == 2 {
				cancel()
			}
		}}
		return Run(ctx, p, s)
	}
	var interrupted *voxsaw.InterruptedError
	if _, err := run("hard-self/fold-1/fraction-0.5/seed-4, teacher 1"); !errors.As(err, &interrupted) {
		t.Fatal(err)
	}
	r, err := run("")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 8 || r.Failed || len(r.Elsewhere) > 0 || len(r.Encoders) != 1 {
		t.Errorf("%d runs, %d encoders, %+v", len(r.Runs), len(r.Encoders), r.Left)
	}
	if _, err := r.Report(t.Context(), "Few labels", s); err != nil {
		t.Error(err)
	}
	if without, err := r.Write(s); without != nil || err != nil {
		t.Error(without, err)
	}
}
