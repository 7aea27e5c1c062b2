package experiment

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
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
	if ten.FLOPs != 10*one.FLOPs || ten.Memory != one.Memory {
		t.Errorf("ten steps: %+v, one: %+v", ten, one)
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
