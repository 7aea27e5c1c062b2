package pace

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	_ "github.com/voxsaw/voxsaw/puzzle3d" // the task that is timed
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func store(t *testing.T, labelled bool) *prepared.Store {
	t.Helper()
	var inputs []prepared.Input
	for n, id := range []string{"a", "b"} {
		v, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{30, 30, 30}})
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, prepared.Input{ID: id, Image: v})
		if labelled {
			inputs[n].Labels = l
		}
	}
	return traintest.Store(t, volume.DefaultPreparation(), inputs...)
}

// What fits into the time follows from what a step took, and where too little does, a network of
// half the channels is timed, too. Without labels there is nothing to fine-tune.
func TestMeasure(t *testing.T) {
	steps, endings := map[string]int{}, 0
	o := Options{Network: voxsaw.Network{Channels: 4, Levels: 1, Norm: "instance"}, Crop: [3]int{24, 24, 24}, Hours: 1,
		Timing: func(verb string, _, most int) (stepped, ended func()) {
			if most != stepsTimed {
				t.Errorf("%s: %d steps are to be timed", verb, most)
			}
			return func() { steps[verb]++ }, func() { endings++ }
		}}
	paces, err := o.Measure(t.Context(), traintest.CPU(t), store(t, true))
	if err != nil || len(paces) != 2 || paces[0].Verb != "pretrain" || paces[1].Verb != "finetune" {
		t.Fatalf("%+v, %v", paces, err)
	}
	for _, p := range paces {
		most := o.Hours * 3600 / p.Seconds
		if p.Problem != "" || p.Seconds <= 0 || float64(p.Fits) > most || float64(p.Fits) < most-1 ||
			p.Channels != 4 || p.Crop != o.Crop {
			t.Errorf("%+v", p)
		}
		if steps[p.Verb] < 3 || steps[p.Verb] > 2*stepsTimed {
			t.Errorf("%s: %d steps were timed", p.Verb, steps[p.Verb])
		}
	}
	o.Hours = 1e-9
	paces, err = o.Measure(t.Context(), traintest.CPU(t), store(t, false))
	if err != nil || len(paces) != 1 ||
		paces[0].Advice != "not one step, or with --channels 2 not one step" || endings != 4 {
		t.Errorf("%+v, %v, %d timings", paces, err, endings)
	}
	o.Crop = [3]int{25, 24, 24}
	paces, err = o.Measure(t.Context(), traintest.CPU(t), store(t, true))
	if err != nil || len(paces) != 2 || !strings.Contains(paces[1].Problem, "25") {
		t.Errorf("a crop that the network does not take: %+v, %v", paces, err)
	}
}
