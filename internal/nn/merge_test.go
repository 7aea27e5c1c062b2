package nn

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Losses of logits whose undrawn classes are merged into the background are the marginal losses
// that testdata/marginal_loss.py computes in PyTorch from probabilities, and so are their
// gradients, for batches that mix images in which different classes were drawn.
func TestMarginalLossesArePyTorchs(t *testing.T) {
	data, err := os.ReadFile("../../testdata/marginal_loss.json")
	if err != nil {
		t.Fatal(err)
	}
	type loss struct {
		Loss     float64
		Gradient []float64 // of the logits
	}
	var cases []struct {
		Shape                  []int
		Logits, Target, Merged []float32
		Dice, CE, Both         loss
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 5 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		for name, want := range map[string]struct {
			loss
			o LossOptions
		}{"dice": {c.Dice, LossOptions{Dice: 1}}, "ce": {c.CE, LossOptions{CE: 1}},
			"dice+ce": {c.Both, LossOptions{CE: 1, Dice: 1}}} {
			dev := newCPU(t)
			params, g := NewParams(dev, 1), NewGraph(Train, device.Float32)
			logits := g.MergeClasses(g.GradInput("x", c.Shape...), g.Input("merged", c.Shape[0], c.Shape[1]))
			l, _ := g.Loss(logits, g.Input("target", c.Shape[0], c.Shape[2], c.Shape[3], c.Shape[4]), want.o)
			p, err := Compile(dev, g, params, Options{Loss: l})
			if err != nil {
				t.Fatal(err)
			}
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(p.Set("x", c.Logits))
			check(p.Set("merged", c.Merged))
			check(p.Set("target", c.Target))
			check(p.Forward())
			got := make([]float32, 1)
			check(p.Read("loss", got))
			if d := math.Abs(float64(got[0]) - want.Loss); !(d <= 2e-6*(1+want.Loss)) {
				t.Errorf("%v %s: %v, PyTorch has %v", c.Shape, name, got[0], want.Loss)
			}
			check(p.Backward())
			gradient := make([]float32, len(c.Logits))
			check(p.Read("grad:x", gradient))
			for i, d := range gradient {
				if !(math.Abs(float64(d)-want.Gradient[i]) <= 2e-6) {
					t.Errorf("%v %s: gradient %d is %v, PyTorch's %v", c.Shape, name, i, d, want.Gradient[i])
					break
				}
			}
			p.Close()
			params.Close()
		}
	}
}
