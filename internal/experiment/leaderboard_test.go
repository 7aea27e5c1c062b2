package experiment

import (
	"context"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	_ "github.com/voxsaw/voxsaw/internal/restoration"
	_ "github.com/voxsaw/voxsaw/internal/rubik"
	_ "github.com/voxsaw/voxsaw/internal/spatial" // all tasks to choose from
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// committed reads a plan of the repository.
func committed(t *testing.T, name string) Plan {
	t.Helper()
	p := DefaultPlan()
	if err := config.Load(filepath.Join("..", "..", "configs", name), &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

// arm is the pretext task of an initialisation; nil: it is not pretrained.
func arm(t *testing.T, p Plan, i Initialisation, store *prepared.Store, change func(pretext.Common)) pretext.Config {
	t.Helper()
	if !i.pretrains() {
		return nil
	}
	chosen, err := p.pretext(i)
	if err != nil {
		t.Fatal(err)
	}
	settings := chosen.Settings()
	change(settings.Common())
	if err := settings.Resolve(store); err != nil {
		t.Fatalf("%s: %v", i.Name, err)
	}
	return settings
}

// flops is the arithmetic of a step, learnt without taking one.
func flops(t *testing.T, what string, training func(voxsaw.RunOptions) error) float64 {
	t.Helper()
	var need voxsaw.MemoryNeed
	if err := training(voxsaw.RunOptions{Need: &need}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return need.FLOPs
}

// trial trains on one made-up patient.
func trial(ctx context.Context, dev voxsaw.Device, c pretext.Config, store *prepared.Store, o voxsaw.RunOptions) error {
	_, err := c.Pretrain(ctx, dev, sample.Data{Store: store, Train: []string{"case00"}}, o)
	return err
}

// once says whether these settings have not been seen yet.
func once(t *testing.T, seen map[string]bool, settings pretext.Config) bool {
	t.Helper()
	text, err := config.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	before := seen[string(text)]
	seen[string(text)] = true
	return !before
}

// The plans of the leaderboard spend the same arithmetic on every encoder, and on the further steps
// of scratch+.
func TestLeaderboardSpendsTheSame(t *testing.T) {
	store, dev := traintest.Phantoms(t, 1, [3]int{24, 24, 24}), traintest.CPU(t)
	for _, name := range []string{"leaderboard-claim.yaml", "leaderboard.yaml"} {
		p := committed(t, name)
		c, err := p.Finetune.Resolve(store)
		if err != nil {
			t.Fatal(err)
		}
		step := flops(t, name, func(o voxsaw.RunOptions) error {
			_, _, err := segment.Finetune(t.Context(), dev, c, sample.Data{Store: store, Train: []string{"case00"}},
				"", o)
			return err
		})
		more, err := p.finetune(p.initialisation("scratch+"))
		if err != nil {
			t.Fatal(err)
		}
		budget := step * float64(more.Train.Steps-p.Finetune.Train.Steps)
		for _, i := range p.Inits {
			settings := arm(t, p, i, store, func(pretext.Common) {})
			if settings == nil {
				continue
			}
			one := flops(
				t,
				i.Name,
				func(o voxsaw.RunOptions) error { return trial(t.Context(), dev, settings, store, o) },
			)
			spent := one * float64(settings.Common().Train.Steps)
			if math.Abs(spent/budget-1) > 0.005 {
				t.Errorf("%s: %s spends %.1f TFLOP, want %.1f: %.0f steps of %.1f GFLOP", name, i.Name, spent/1e12,
					budget/1e12, budget/one, one/1e9)
			}
		}
	}
}

// Learning rates are tuned with the network, the encoders and the settings of the claim.
func TestLeaderboardTunesWhatItClaims(t *testing.T) {
	tuning, claim := committed(t, "leaderboard-tuning.yaml"), committed(t, "leaderboard-claim.yaml")
	if !reflect.DeepEqual(tuning.Pretrain, claim.Pretrain) {
		t.Errorf("pretrained with other settings")
	}
	for _, i := range claim.Inits {
		if i.pretrains() && !reflect.DeepEqual(i.Pretrain.String(),
			tuning.initialisation(i.Name+"-0.05").Pretrain.String()) {
			t.Errorf("%s is another encoder", i.Name)
		}
	}
	labels := committed(t, "leaderboard-labels.yaml")
	for _, i := range labels.Inits {
		if !reflect.DeepEqual(i, claim.initialisation(i.Name)) {
			t.Errorf("%s is another arm with more labels", i.Name)
		}
	}
	if labels.Inference.Components != segment.ComponentsAll {
		t.Errorf("with more labels, post-processing is not the same in all arms")
	}
	labels.Inference.Components = claim.Inference.Components
	if !reflect.DeepEqual(labels.Pretrain, claim.Pretrain) || !reflect.DeepEqual(labels.Finetune, claim.Finetune) ||
		!reflect.DeepEqual(labels.Inference, claim.Inference) {
		t.Errorf("trained with other settings with more labels")
	}
	tuning.Finetune.Train.Steps, tuning.Finetune.Train.LR = claim.Finetune.Train.Steps, claim.Finetune.Train.LR
	if !reflect.DeepEqual(tuning.Finetune, claim.Finetune) || !reflect.DeepEqual(tuning.Inference, claim.Inference) {
		t.Errorf("fine-tuned with other settings")
	}
}

// Plans share runs, to the bit. The longer budget is that of the claim's scratch+, for the same
// replicates and encoders, the plateau's are twice and four times that, and the doubled plan has
// the first of these; the board's scratch+ is the claim's scratch.
func TestLeaderboardSharesRuns(t *testing.T) {
	claim := committed(t, "leaderboard-claim.yaml")
	more, err := claim.finetune(claim.initialisation("scratch+"))
	if err != nil {
		t.Fatal(err)
	}
	longer, plateau, doubled := committed(t, "leaderboard-longer.yaml"), committed(t, "leaderboard-plateau.yaml"),
		committed(t, "leaderboard-doubled.yaml")
	twice, err := plateau.finetune(plateau.initialisation("scratch+"))
	if err != nil {
		t.Fatal(err)
	}
	for _, shared := range []struct {
		plan    Plan
		scratch segment.Config
	}{{longer, more}, {plateau, more}, {doubled, twice}} {
		p := shared.plan
		if own, err := p.finetune(p.initialisation("scratch")); err != nil || !reflect.DeepEqual(own, shared.scratch) {
			t.Errorf("scratch is not the other plan's run: %+v, %+v, %v", own, shared.scratch, err)
		}
		if !reflect.DeepEqual(p.Inference, claim.Inference) || !reflect.DeepEqual(p.Metrics, claim.Metrics) ||
			p.Curve != claim.Curve || !slices.Equal(p.Fractions, claim.Fractions) {
			t.Errorf("tested in another way than the claim")
		}
	}
	for _, p := range []Plan{longer, doubled} {
		if !reflect.DeepEqual(p.Seeds, claim.Seeds) || !reflect.DeepEqual(p.Pretrain, claim.Pretrain) ||
			!reflect.DeepEqual(p.initialisation("hard"), claim.initialisation("hard")) {
			t.Errorf("other replicates, or another encoder, than the claim's")
		}
	}
	board := committed(t, "leaderboard.yaml")
	same, err := claim.finetune(claim.initialisation("scratch"))
	if err != nil {
		t.Fatal(err)
	}
	// the doubled plan's scratch, with an encoder's arithmetic more, for replicates of it
	equal, want := committed(t, "leaderboard-equal.yaml"), doubled
	want.Finetune.Train.Steps += more.Train.Steps - same.Train.Steps
	want.Inits, want.Pretrain, want.Seeds = equal.Inits, equal.Pretrain, claim.Seeds[:len(equal.Seeds)]
	if !reflect.DeepEqual(equal, want) || len(equal.Inits) != 1 || !reflect.DeepEqual(equal.initialisation("scratch"),
		doubled.initialisation("scratch")) {
		t.Errorf("6000 steps are others than the doubled plan's scratch and an encoder's: %+v, want %+v", equal, want)
	}
	if own, err := board.finetune(board.initialisation("scratch+")); err != nil || !reflect.DeepEqual(own, same) ||
		!reflect.DeepEqual(board.Inference, claim.Inference) || !reflect.DeepEqual(board.Metrics, claim.Metrics) {
		t.Errorf("the board's scratch+ is not the claim's scratch: %+v, %+v, %v", own, same, err)
	}
	again, err := plateau.finetune(plateau.initialisation("scratch++"))
	if err != nil || twice.Train.Steps != 2*more.Train.Steps || again.Train.Steps != 2*twice.Train.Steps {
		t.Errorf("%d and %d steps, want twice %d, and twice that, %v", twice.Train.Steps, again.Train.Steps,
			more.Train.Steps, err)
	}
}

// Every arm of the committed plans can be run: a step of pretraining, then one of fine-tuning with
// what they have left, on a made-up patient with a thin network. Those of the ablations are
// prepared for their first step, but do not take it: they vary the same tasks.
func TestLeaderboardRuns(t *testing.T) {
	store, dev, seen := traintest.Phantoms(t, 1, [3]int{80, 72, 80}), traintest.CPU(t), map[string]bool{}
	thin := func(n *voxsaw.Network, o *voxsaw.Training) {
		n.Channels, n.Groups = 2, 2
		o.Steps, o.Warmup, o.ValidateEvery = 1, 0, 0
	}
	for n, name := range []string{"leaderboard.yaml", "leaderboard-claim.yaml", "leaderboard-ablations.yaml"} {
		if !turns.Has(t, n, 3) {
			continue
		}
		p := committed(t, name)
		for _, i := range p.Inits {
			folder, init := t.TempDir(), ""
			settings := arm(t, p, i, store, func(c pretext.Common) { thin(c.Network, c.Train) })
			if settings != nil {
				if !once(t, seen, settings) {
					continue
				}
				if name == "leaderboard-ablations.yaml" {
					flops(
						t,
						i.Name,
						func(o voxsaw.RunOptions) error { return trial(t.Context(), dev, settings, store, o) },
					)
					continue
				}
				if err := trial(t.Context(), dev, settings, store, voxsaw.RunOptions{Folder: folder}); err != nil {
					t.Fatalf("%s: %s: %v", name, i.Name, err)
				}
				init = train.Last(folder)
			}
			c, err := p.finetune(i)
			if err != nil {
				t.Fatal(err)
			}
			thin(&c.Network, &c.Train)
			c.Crop = [3]int{32, 32, 32}
			if c, err = c.Resolve(store); err != nil {
				t.Fatal(err)
			}
			summary, loaded, err := segment.Finetune(t.Context(), dev, c,
				sample.Data{Store: store, Train: []string{"case00"}}, init, voxsaw.RunOptions{})
			if err != nil || summary.Step != 1 || settings != nil && !slices.Contains(loaded.Loaded,
				"encoder.4.conv2.weight") {
				t.Errorf("%s: %s: %+v, %v, %v", name, i.Name, summary, loaded, err)
			}
		}
	}
}
