package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	_ "github.com/voxsaw/voxsaw/internal/backbone/all"
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// rehearsal is a processor that takes no memory.
func rehearsal(t *testing.T) device.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.Rehearse()
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got/want-1) <= tolerance) {
		t.Errorf("%s: %g, want %g but for %g", what, got, want, tolerance)
	}
}

// The layers of the model are those of the networks that are trained.
func TestLayersAreTheNetworks(t *testing.T) {
	network := voxsaw.DefaultNetwork()
	network.Preset, network.Norm = "paper", "instance"
	plan, err := bench.Network{Settings: network, Crop: [3]int{64, 64, 64}, Batch: 1}.Plan(rehearsal(t))
	if err != nil {
		t.Fatal(err)
	}
	w := trained["finetune"]
	near(t, "FLOPs of a step", 3*w.forward(), plan.FLOPs, 0.01)
	near(t, "parameters of the VNet", w.bytes()/4, float64(plan.Parameters), 0.001)

	b, err := backbone.Of(network)
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(rehearsal(t), 0)
	defer params.Close()
	game := jigsaw.Config{Grid: puzzle3, Puzzle: voxsaw.Puzzle{Head: jigsaw.Paper, Features: 1024, Hidden: 256,
		Rounds: 1, Distance: 2, Batch: 1}, Shuffles: 1}
	if err := game.Declare(backbone.Patches{Backbone: b, Size: [3]int{32, 32, 32}}, params); err != nil {
		t.Fatal(err)
	}
	near(t, "parameters of pretraining", trained["pretrain"].bytes()/4, float64(params.Count()), 0.001)
}

var puzzle3 = puzzle.Grid{3, 3, 3}

// What can be reckoned by hand.
func TestStep(t *testing.T) {
	// two layers: the second has its gradient after a fifth of the backward pass
	w := work{layers: []layer{{flops: 40, values: 1 << 20}, {flops: 10, values: 1 << 20}}}
	const bytes = 4 << 20 // of each
	m := machine{rate: 10, overlap: true}
	l := link{rate: bytes, latency: 0.5}
	// of two ranks, each gradient takes 2 messages and its own bytes once
	each := 2*0.5 + 1.0
	for name, c := range map[string]struct {
		m                machine
		o                options
		compute, waiting float64
	}{
		"one rank":       {m, options{ranks: 1, batch: 2}, 30, 0},
		"hidden":         {m, options{ranks: 2, batch: 2}, 30, each}, // but for the first layer's
		"not hidden":     {machine{rate: 10}, options{ranks: 2, batch: 2}, 30, 2 * each},
		"micro-batches":  {m, options{ranks: 2, batch: 2, accumulate: 2}, 40, 2 * each},
		"half the bytes": {machine{rate: 10}, options{ranks: 2, batch: 2, bf16: true}, 30, 2 * (2*0.5 + 0.5)},
		"four ranks":     {machine{rate: 10}, options{ranks: 4, batch: 2}, 30, 2 * (4*0.5 + 1.5)},
		"copies":         {machine{rate: 10, copies: bytes}, options{ranks: 2, batch: 2}, 30, 2 * (each + 2)},
	} {
		got := w.step(c.m, l, c.o)
		near(t, name+": compute", got.compute, c.compute, 1e-9)
		if math.Abs(got.waiting-c.waiting) > 1e-9 {
			t.Errorf("%s: waits %g, want %g", name, got.waiting, c.waiting)
		}
	}
	// a slow link holds the second sum up
	if got := w.step(m, link{rate: bytes / 20.0},
		options{ranks: 2, batch: 2}).waiting; math.Abs(got-(4+20+20-20)) > 1e-9 {
		t.Errorf("a slow link: waits %g, want 24", got)
	}
}

func runs(t *testing.T) (all []run) {
	t.Helper()
	if err := json.Unmarshal(measured, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The model predicts the runs that its constants are not from within 15 %.
func TestPredictions(t *testing.T) {
	all := runs(t)
	c, err := calibrate(all)
	if err != nil {
		t.Fatal(err)
	}
	predicted := 0
	for _, r := range all {
		if takenFrom(r) {
			continue
		}
		predicted++
		near(t, r.Task, c.predict(r), r.CPU, 0.15)
	}
	if predicted < 5 {
		t.Errorf("only %d runs were predicted", predicted)
	}
}

var update = flag.Bool("update", false, "write the tables into docs/scale.md")

// docs/scale.md has the tables that the command prints.
func TestPage(t *testing.T) {
	const page, begin, end = "../../docs/scale.md", "<!-- go run ./scripts/scale -->\n", "<!-- end -->\n"
	var b bytes.Buffer
	if err := print(&b, runs(t)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the tables", page)
	}
	want := before + begin + "\n" + b.String() + "\n" + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the model says: go test ./scripts/scale -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}
