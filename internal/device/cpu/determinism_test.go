package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// TestThreadsDoNotMatter: the kernels between the convolutions give the same bits for one worker
// and for five.
func TestThreadsDoNotMatter(t *testing.T) {
	shape := device.Shape{2, 24, 13, 17, 19} // several pieces of work a plane
	activate := device.ActivateSpec{Shape: shape, Norm: device.BatchNorm, Epsilon: 1e-5, Momentum: 0.1, Training: true,
		Act: device.PReLU, Residual: device.TiledResidual}
	loss := device.LossSpec{Shape: shape, CE: 1, Dice: 1, Smooth: 1}
	few := device.LossSpec{Shape: device.Shape{2, 5, 13, 17, 19}, CE: 1, Dice: 1, Smooth: 1}
	residual := device.Shape{2, 1, 13, 17, 19}
	for name, test := range map[string]struct {
		kernel  func(c *CPU) (device.Kernel, error)
		out, in []device.Shape
	}{
		"activate": {
			func(c *CPU) (device.Kernel, error) { return c.Activate(activate) },
			[]device.Shape{shape, {2, 24}}, []device.Shape{shape, {24}, {24}, {24}, {24}, residual, {24}},
		},
		"activate gradient": {
			func(c *CPU) (device.Kernel, error) { return c.ActivateGrad(activate) },
			[]device.Shape{shape, {24}, {24}, residual, {24}, {24}}, []device.Shape{shape, shape, {24}, {24}, {2, 24},
				residual, {24}},
		},
		"sum of channels": {func(c *CPU) (device.Kernel, error) { return c.SumChannels(device.Tensor{Shape: shape}) },
			[]device.Shape{{24}}, []device.Shape{shape}},
		"sum of squares": {func(c *CPU) (device.Kernel, error) { return c.SumSquares(100001) }, []device.Shape{{}},
			[]device.Shape{{100001}}},
		"loss": {func(c *CPU) (device.Kernel, error) { return c.Loss(loss) }, []device.Shape{{}, {loss.Stats()}},
			[]device.Shape{shape, {2, 13, 17 * 19}}},
		"loss, few": {func(c *CPU) (device.Kernel, error) { return c.Loss(few) }, []device.Shape{{}, {few.Stats()}},
			[]device.Shape{few.Shape, {2, 13, 17 * 19}}},
		"loss gradient": {
			func(c *CPU) (device.Kernel, error) { return c.LossGrad(loss) },
			[]device.Shape{shape, {24}}, []device.Shape{shape, {2, 13, 17 * 19}, {loss.Stats()}, {}},
		},
		"matrix product": {
			func(c *CPU) (device.Kernel, error) { return c.MatMul(device.MatMulSpec{M: 30, N: 700, K: 1500}) },
			[]device.Shape{{30, 700}}, []device.Shape{{30, 1500}, {1500, 700}},
		},
		"product of rows": {
			func(c *CPU) (device.Kernel, error) {
				return c.MatMul(device.MatMulSpec{M: 30, N: 700, K: 5000, TransB: true})
			},
			[]device.Shape{{30, 700}}, []device.Shape{{30, 5000}, {700, 5000}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want []Slice
			for _, threads := range []int{1, 5} {
				c, err := New(Options{Threads: threads})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				k, err := test.kernel(c)
				if err != nil {
					t.Fatal(err)
				}
				r := rand.New(rand.NewPCG(1, 1))
				buffers := func(shapes []device.Shape) (list []device.Buffer) {
					for _, s := range shapes {
						b := alignedSlice(elementsOf(s))
						values := make([]float32, s.Elements())
						for i := range values {
							if values[i] = r.Float32(); len(s) == 3 { // targets are whole
								values[i] = float32(int(5 * values[i]))
							}
						}
						if err := c.Upload(b, device.Tensor{Shape: s}, values); err != nil {
							t.Fatal(err)
						}
						list = append(list, b)
					}
					return list
				}
				out, in := buffers(test.out), buffers(test.in)
				k.Run(out, in, alignedSlice(int(k.Scratch()/4)))
				for i := range out {
					got := out[i].(Slice)
					if threads == 1 {
						want = append(want, got)
						continue
					}
					for j := range got {
						if math.Float32bits(got[j]) != math.Float32bits(want[i][j]) {
							t.Fatalf("output %d, element %d: %v with %d threads, %v with one", i, j, got[j], threads,
								want[i][j])
						}
					}
				}
			}
		})
	}
}
