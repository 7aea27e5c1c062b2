package jigsaw

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// The attention head and the loss with several right answers are PyTorch's
// (torch.nn.TransformerEncoderLayer): scores, loss and every gradient.
func TestAttentionHeadIsPyTorchs(t *testing.T) {
	data, err := os.ReadFile("../../testdata/attention.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Slots            []int
		Right            []float32
		Loss             float64
		Scores, Features []float64
		Gradients        map[string][]float64
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	const boards = 3
	c := hard()
	n, there := c.cells(), c.present()
	dev := testDevice(t)
	params := nn.NewParams(dev, 1)
	g := nn.NewGraph(nn.Train, device.Float32)
	scores := c.attention(g, g.GradInput("features", boards*there, c.Features), boards)
	p, err := nn.Compile(dev, g, params, nn.Options{Outputs: map[string]*nn.Node{"scores": scores},
		Loss: g.ChoiceLoss(scores, g.Input("right", boards*there, n))})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, name := range params.Names() {
		if err := params.Write(name, backbonetest.Noise(name, params.Shape(name).Elements())); err != nil {
			t.Fatal(err)
		}
	}
	hot := make([]float32, len(want.Slots)*n)
	for k, s := range want.Slots {
		hot[k*n+s] = 1
	}
	got, features, loss := make([]float32, boards*there*n), make([]float32, boards*there*c.Features), make([]float32, 1)
	for _, err := range []error{
		p.Set("features", backbonetest.Noise("features", len(features))), p.Set("slots", hot),
		p.Set("right", want.Right), p.Forward(), p.Backward(),
		p.Read("scores", got), p.Read("grad:features", features), p.Read("loss", loss),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	near(t, "scores", got, want.Scores)
	near(t, "loss", loss, []float64{want.Loss})
	near(t, "gradient of the features", features, want.Features)
	if len(want.Gradients) != len(params.Names()) {
		t.Errorf("%d parameters, PyTorch has %d", len(params.Names()), len(want.Gradients))
	}
	for name, gradient := range want.Gradients {
		got, err := params.Grad(name)
		if err != nil {
			t.Fatal(err)
		}
		near(t, name, got, gradient)
	}
}

// near compares with numbers of float64: some two dozen float32 roundings lie between.
func near(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	var difference, size float64
	for i := range want {
		difference = max(difference, math.Abs(float64(got[i])-want[i]))
		size = max(size, math.Abs(want[i]))
	}
	if !(difference <= 2e-5*size+1e-7) {
		t.Errorf("%s differs by %v of %v", what, difference, size)
	}
}
