package experiment

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// What a plan needs follows its trainings: the largest decides the memory, and steps of pretraining
// and fine-tuning add up. Ranks divide both.
func TestNeeds(t *testing.T) {
	dir := t.TempDir()
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for n, id := range caseNames(4) {
		v, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{24, 24, 24}})
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
	needs := func(inits, more string, ranks int) cluster.Needs {
		t.Helper()
		p := DefaultPlan()
		text := "data: " + dir + `
folds: 2
fractions: [1]
seeds: [1]
initialisations: [` + inits + `]
pretrain: {task: rotation, network: {channels: 2, levels: 1}, crop: 16, batch: 2, train: {steps: 10}}
finetune: {network: {channels: 2, levels: 1}, crop: 16, batch: 2, labels: [2, 3], train: {steps: STEPS}}
`
		if err := config.Parse("plan", []byte(strings.Replace(text, "STEPS", more, 1)), &p); err != nil {
			t.Fatal(err)
		}
		n, err := Needs(t.Context(), &p, traintest.CPU(t), ranks)
		if err != nil {
			t.Fatal(err)
		}
		if n.Memory <= 0 || n.FLOPs <= 0 || n.Voxels != 24*24*24 {
			t.Errorf("%s: %+v", inits, n)
		}
		return n
	}
	const scratch, rotation = "{name: scratch}", "{name: rotation, pretrain: {}}"
	one, ten := needs(scratch, "1", 1), needs(scratch, "10", 1)
	// beside the steps, test cases are predicted
	if more := needs(scratch, "19", 1); more.FLOPs-ten.FLOPs != ten.FLOPs-one.FLOPs || ten.FLOPs <= one.FLOPs ||
		one.FLOPs <= (ten.FLOPs-one.FLOPs)/9 || ten.Memory != one.Memory {
		t.Errorf("ten steps: %+v, one: %+v, 19: %+v", ten, one, more)
	}
	both, first := needs(scratch+", "+rotation, "10", 1), needs(rotation, "10", 1)
	if both.FLOPs != first.FLOPs || first.FLOPs <= ten.FLOPs || both.Memory < ten.Memory {
		t.Errorf("with pretraining: %+v, alone: %+v, without: %+v", both, first, ten)
	}
	if taken := needs(rotation+", {name: again, encoder: rotation}", "10", 1); taken.FLOPs != first.FLOPs {
		t.Errorf("with an encoder of another: %+v, want %+v", taken, first)
	}
	if half := needs(scratch, "10", 2); half.FLOPs != ten.FLOPs/2 || half.Memory >= ten.Memory {
		t.Errorf("of two ranks: %+v, alone: %+v", half, ten)
	}
}

// What is estimated before a study is what its runs have counted when it is done: trainings, those
// of teachers and further networks among them, and the label maps that teachers make. Of
// predictions of test cases, which no run counts, the windows are counted here.
func TestEstimatesAreWhole(t *testing.T) {
	p, dev := teachers(t, "curve: 2\ncurve_cases: 1\n"), traintest.CPU(t)
	if err := config.Parse("plan", []byte(`
initialisations:
  - {name: scratch}
  - {name: mean, finetune: {unlabelled: true, train: {average: 0.9}}}
  - {name: several, networks: 3}
  - {name: rotation, pretrain: {}}
  - {name: self, encoder: rotation, teachers: 2, agreement: 0.01}
pretrain: {task: rotation, network: {channels: 2, levels: 1}, crop: 16, batch: 2, train: {steps: 4}}
finetune: {train: {steps: 3}}
`), &p); err != nil {
		t.Fatal(err)
	}
	all, err := Rehearse(t.Context(), &p, dev, true)
	if err != nil {
		t.Fatal(err)
	}
	costs, err := p.Costs(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	r, err := Run(t.Context(), p, Setting{Out: out, Device: dev, Console: &watched{step: func(string, int) {}}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := r.Compute(Setting{Out: out, Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	alike := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-9*want) || want == 0 {
			t.Errorf("%s: %g FLOP are estimated, %g were counted", what, got, want)
		}
	}
	pretraining, tuning, labelling, windows, perWindow := 0.0, 0.0, 0.0, map[string]float64{}, 0.0
	predicted, validated := 0.0, 0.0
	for n, row := range table.Rows {
		runs, tuned := float64(row[4].(int)), row[6].(float64)*1e12
		tuning += runs * tuned
		predicted += runs * row[8].(float64) * 1e12
		if before, ok := row[3].(float64); ok && before > 0 {
			if row[0] == "rotation" { // self starts from the same encoders
				pretraining += float64(row[1].(int)) * before * 1e12
			}
			alike("an encoder", costs[n].FLOPs[OfPretraining], before*1e12)
		}
		if row[0] != "self" { // whose runs have other scans without labels
			alike(fmt.Sprint(row[0]), costs[n].FLOPs[OfFinetuning], tuned)
		}
	}
	for _, trial := range p.trials(r.Cases) {
		count := func(networks []string, ids []string, o segment.Inference) (n float64) {
			network, err := segment.NewPredictor(dev, networks, o, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer network.Close()
			for _, id := range ids {
				c, err := store.Open(id)
				if err != nil {
					t.Fatal(err)
				}
				all := 0
				network.Progress = func(_, total int) { all = total }
				if _, err := network.PredictCase(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				n += float64(all)
			}
			return n
		}
		i := p.initialisation(trial.Init)
		networks := []string{train.Last(trial.Folder(out))}
		for _, other := range trial.others(out, i) {
			networks = append(networks, train.Last(other))
		}
		windows[i.Name] += count(networks, trial.Test, r.Plan.Inference)
		for _, network := range networks {
			steps, _, err := readCurve(train.Validations(filepath.Dir(network)))
			if err != nil || len(steps) == 0 {
				t.Fatal(steps, err)
			}
			// as it is validated
			validated += float64(len(steps)) * count([]string{network}, trial.Curve,
				segment.Inference{Overlap: p.Finetune.ValidateOverlap, Batch: 1, Mirror: p.Finetune.ValidateMirror})
		}
		if i.Teachers == 0 {
			continue
		}
		targets, err := segment.ReadTargets(trial.targets(out))
		if err != nil {
			t.Fatal(err)
		}
		labelling += targets.FLOPs
		perWindow = targets.FLOPs / count(
			[]string{train.Last(trial.teacher(out, 0)), train.Last(trial.teacher(out, 1))},
			trial.Unlabelled,
			segment.DefaultInference(),
		)
	}
	testing := 0.0
	for _, n := range windows {
		testing += n * perWindow
	}
	alike("pretraining", all.Works[OfPretraining].FLOPs, pretraining)
	alike("fine-tuning, label maps included", all.Works[OfFinetuning].FLOPs+all.Works[OfLabelling].FLOPs, tuning)
	alike("label maps", all.Works[OfLabelling].FLOPs, labelling)
	alike("test cases", all.Works[OfTesting].FLOPs, testing)
	alike("the table's predictions", predicted, testing+validated*perWindow)
	if n := all.Works[OfTesting].Trainings; n != len(r.Runs) || all.Works[OfLabelling].Trainings != 2 {
		t.Errorf("%+v of %d runs", all.Works, len(r.Runs))
	}
	// and a cluster is asked for all of a trial's, and for the memory of label maps
	needs, err := Needs(t.Context(), &p, dev, 1)
	if err != nil {
		t.Fatal(err)
	}
	most := 0.0
	for _, c := range costs {
		sum := 0.0
		for _, flops := range c.FLOPs {
			sum += flops
		}
		most = max(most, sum)
	}
	alike("the largest trial", needs.FLOPs, most)
}
