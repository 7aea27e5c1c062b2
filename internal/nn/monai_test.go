package nn

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The losses of fine-tuning are MONAI's DiceLoss(include_background=False, softmax=True,
// batch=True, smooth_nr=1e-5, smooth_dr=1e-5), cross-entropy, and the sum of both, DiceCELoss: so
// are their gradients, here those of a convolution that gives its input back.
func TestLossesAreMONAIs(t *testing.T) {
	data, err := os.ReadFile("../../testdata/monai_loss.json")
	if err != nil {
		t.Fatal(err)
	}
	type loss struct {
		Loss     float64
		Gradient []float64 // of the logits
	}
	var cases []struct {
		Shape          []int
		Logits, Target []float32
		Dice, CE, Both loss
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		classes, voxels := c.Shape[1], c.Shape[2]*c.Shape[3]*c.Shape[4]
		for name, want := range map[string]struct {
			loss
			o LossOptions
		}{"dice": {c.Dice, LossOptions{Dice: 1}}, "ce": {c.CE, LossOptions{CE: 1}},
			"dice+ce": {c.Both, LossOptions{CE: 1, Dice: 1}}} {
			dev := newCPU(t)
			params := NewParams(dev, 1)
			g := NewGraph(Train, device.Float32)
			target := g.Input("target", c.Shape[0], c.Shape[2], c.Shape[3], c.Shape[4])
			l, _ := g.Loss(g.Conv("head", g.Input("x", c.Shape...), classes, Cube(1, 1, 0), true), target, want.o)
			p, err := Compile(dev, g, params, Options{Loss: l})
			if err != nil {
				t.Fatal(err)
			}
			identity := make([]float32, classes*classes)
			for n := range classes {
				identity[n*classes+n] = 1
			}
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(params.Write("head.weight", identity))
			check(params.Write("head.bias", make([]float32, classes)))
			check(p.Set("x", c.Logits))
			check(p.Set("target", c.Target))
			check(p.Forward())
			got := make([]float32, 1)
			check(p.Read("loss", got))
			if math.Abs(float64(got[0])-want.Loss) > 2e-6 {
				t.Errorf("%v %s: %v, MONAI has %v", c.Shape, name, got[0], want.Loss)
			}
			check(p.Backward())
			if want.Gradient == nil {
				continue
			}
			gradient, err := params.Grad("head.weight")
			check(err)
			for out := range classes {
				for in := range classes {
					sum := 0.0
					for n := range c.Shape[0] {
						for v := range voxels {
							sum += want.Gradient[(n*classes+out)*voxels+v] * float64(c.Logits[(n*classes+in)*voxels+v])
						}
					}
					if d := math.Abs(float64(gradient[out*classes+in]) - sum); d > 2e-6 {
						t.Errorf("%v %s: the gradient of weight (%d, %d) is %v, MONAI's %v", c.Shape, name, out, in,
							gradient[out*classes+in], sum)
					}
				}
			}
			p.Close()
			params.Close()
		}
	}
	if len(cases) < 3 {
		t.Errorf("%d cases", len(cases))
	}
}
