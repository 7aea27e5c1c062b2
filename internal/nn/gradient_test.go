package nn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// network is a graph under test: it declares inputs and parameters and returns its output.
type network func(g *Graph, in func(name string, shape ...int) *Node) *Node

var everyOperator = map[string]network{
	"conv": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Conv("c", in("x", 2, 3, 4, 3, 5), 2, Window{Kernel: [3]int{3, 1, 2}, Stride: [3]int{1, 1, 2},
			Pad: [3]int{1, 0, 1}}, true)
	},
	"conv without bias": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Conv("c", in("x", 1, 1, 3, 3, 3), 3, Cube(3, 1, 1), false)
	},
	"up-convolution": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.ConvTranspose("c", in("x", 2, 3, 2, 1, 2), 2, Cube(2, 2, 0), true)
	},
	"up-convolution 3/2": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.ConvTranspose("c", in("x", 1, 2, 2, 2, 2), 2, Cube(3, 2, 1), false)
	},
	"linear": func(g *Graph, in func(string, ...int) *Node) *Node { return g.Linear("l", in("x", 3, 4), 5, true) },
	"matMul": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.apply(matMul{device.MatMulSpec{M: 3, N: 2, K: 4}}, in("a", 3, 4), in("b", 4, 2))
	},
	"matMul a^T": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.apply(matMul{device.MatMulSpec{M: 3, N: 2, K: 4, TransA: true}}, in("a", 4, 3), in("b", 4, 2))
	},
	"matMul a^T b^T": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.apply(matMul{device.MatMulSpec{M: 3, N: 2, K: 4, TransA: true, TransB: true}}, in("a", 4, 3),
			in("b", 2, 4))
	},
	"add": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Add(in("a", 1, 2, 2, 2, 2), in("b", 1, 2, 2, 2, 2))
	},
	"one node used three times": func(g *Graph, in func(string, ...int) *Node) *Node {
		x := in("x", 2, 3)
		return g.Add(g.Add(x, g.Scale(x, 2)), g.Softmax(x))
	},
	"one weight used twice": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Conv("c", g.Conv("c", in("x", 1, 2, 3, 3, 3), 2, Cube(3, 1, 1), true), 2, Cube(3, 1, 1), true)
	},
	"scale": func(g *Graph, in func(string, ...int) *Node) *Node { return g.Scale(in("x", 2, 3), -1.5) },
	"concat": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Concat(in("a", 2, 1, 2, 2, 2), in("b", 2, 3, 2, 2, 2), in("c", 2, 2, 2, 2, 2))
	},
	"dropout": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Dropout3d("d", in("x", 2, 6, 2, 1, 2), 0.5)
	},
	"dropout of rows": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Dropout3d("d", in("x", 5, 7), 0.5)
	},
	"leaky relu": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Activate("a", in("x", 2, 4, 2, 3, 1), Activation{Norm: device.InstanceNorm, Act: device.PReLU,
			Slope: 0.3, Residual: in("r", 2, 4, 2, 3, 1)})
	},
	"max pool": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.MaxPool(in("x", 1, 2, 4, 4, 4), Cube(3, 2, 1))
	},
	"average pool": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.AvgPool(in("x", 1, 2, 4, 4, 4), Cube(2, 2, 0))
	},
	"flatten, reshape": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Softmax(g.Reshape(g.Flatten(in("x", 2, 2, 1, 2, 2)), 4, 4))
	},
	"reshape of a parameter": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Add(g.Reshape(g.Param("w", Uniform(1), 6), 2, 3), in("x", 2, 3))
	},
	"sum of parameters": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Add(g.Param("v", Uniform(1), 2, 3), g.Param("w", Uniform(1), 2, 3))
	},
	"conv in groups": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Convolve("c", in("x", 2, 4, 1, 3, 5), 6, Convolution{Window: Plane(3, 2, 1), Groups: 2, Bias: true})
	},
	"max pool, rounded up": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.MaxPoolCeil(in("x", 1, 2, 1, 6, 6), Plane(3, 2, 0))
	},
	"global average": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.GlobalAvgPool(in("x", 2, 3, 1, 2, 3))
	},
	"lrn": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.LRN(in("x", 2, 6, 1, 2, 2), 5, 1, 0.75, 1)
	},
	"regions": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.RoIPool(in("x", 3, 2, 1, 4, 4), g.Input("regions", 2, 5), [2]int{2, 2}, 0.5)
	},
	"label loss": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.LabelLoss(in("x", 4, 3), g.Input("target", 4, 3))
	},
	"smooth L1": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.SmoothL1(in("x", 4, 3), g.Input("target", 4, 3), g.Input("weight", 4, 3), 0.5)
	},
	"softmax": func(g *Graph, in func(string, ...int) *Node) *Node { return g.Softmax(in("x", 2, 3, 2, 1, 2)) },
	"gather": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.GatherRows(in("x", 4, 3), g.Input("index", 5))
	},
	"scatter": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.ScatterRows(in("x", 4, 3), g.Input("index", 4), 6)
	},
	"linear with values": func(g *Graph, in func(string, ...int) *Node) *Node {
		w := g.GatherRows(g.Param("w", Uniform(1), 4, 3), g.Input("index", 2))
		b := g.GatherRows(g.Reshape(g.Param("b", Uniform(1), 4), 4, 1), g.Input("index of biases", 2))
		return g.LinearWith(in("x", 5, 3), w, g.Reshape(b, 2))
	},
	"layer norm": func(g *Graph, in func(string, ...int) *Node) *Node { return g.LayerNorm("n", in("x", 4, 6)) },
	"attention": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.Attention(in("q", 6, 4), in("k", 6, 4), in("v", 6, 4), 2, 2)
	},
	"choice loss": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.ChoiceLoss(in("u", 5, 3), g.Input("right", 5, 3))
	},
	"meanOfOthers": func(g *Graph, in func(string, ...int) *Node) *Node { return g.MeanOfOthers(in("x", 6, 3), 2) },
	"pairSum": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.PairSum(in("a", 6, 2), in("b", 6, 2), 2)
	},
	"column-sum loss": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.ColumnSumLoss(in("u", 6, 3), g.Input("weights", 2))
	},
	"loss": func(g *Graph, in func(string, ...int) *Node) *Node {
		l, _ := g.Loss(in("x", 2, 3, 2, 2, 1), g.Input("target", 2, 2, 2, 1), LossOptions{CE: 0.7, Dice: 0.6})
		return l
	},
	"merge classes": func(g *Graph, in func(string, ...int) *Node) *Node {
		return g.MergeClasses(in("x", 2, 4, 2, 2, 1), g.Input("merged", 2, 4))
	},
	"sum of losses of rows": func(g *Graph, in func(string, ...int) *Node) *Node {
		u := in("u", 6, 3)
		l, _ := g.Loss(u, g.Input("target", 6), LossOptions{CE: 1})
		return g.Add(l, g.Scale(g.ColumnSumLoss(u, g.Input("weights", 2)), 0.5))
	},
}

func init() {
	for norm, normName := range map[device.Norm]string{device.NoNorm: "", device.InstanceNorm: "instance ",
		device.BatchNorm: "batch ", device.GroupNorm: "group "} {
		for act, actName := range map[device.Activation]string{device.Identity: "identity", device.ReLU: "relu",
			device.PReLU: "prelu", device.ELU: "elu"} {
			for _, residual := range []int{0, 1, 4} {
				everyOperator[fmt.Sprintf("activate %s%s %d", normName, actName,
					residual)] = func(g *Graph, in func(string, ...int) *Node) *Node {
					a := Activation{Norm: norm, Act: act, Groups: 2}
					if residual > 0 {
						a.Residual = in("r", 2, residual, 2, 3, 1)
					}
					return g.Activate("a", in("x", 2, 4, 2, 3, 1), a)
				}
			}
		}
	}
}

// Every operator's gradient against difference quotients, on the reference device, through the
// whole way from graph to program.
func TestGradients(t *testing.T) {
	for name, net := range everyOperator {
		t.Run(name, func(t *testing.T) { checkGradients(t, devicetest.NewReference(), net) })
	}
}

// trial is a compiled network with random inputs; its objective is sum of output times a random
// direction.
type trial struct {
	t         *testing.T
	prog      *Program
	params    *Params
	values    map[string][]float32 // of all gradient inputs and parameters
	direction []float32
	output    []float32
}

func newTrial(t *testing.T, dev device.Device, net network, o Options) *trial {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	g := NewGraph(Train, device.Float32)
	tr := &trial{t: t, values: map[string][]float32{}}
	var inputs []string
	y := net(g, func(name string, shape ...int) *Node {
		inputs = append(inputs, name)
		return g.GradInput(name, shape...)
	})
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	g.Input("dy", y.Shape()...)
	tr.params = NewParams(dev, 3)
	o.Outputs, o.OutputGrad = map[string]*Node{"y": y}, map[string]string{"y": "dy"}
	var err error
	if tr.prog, err = Compile(dev, g, tr.params, o); err != nil {
		t.Fatal(err)
	}
	for _, name := range inputs {
		tr.values[name] = random(r, tr.prog.Shape(name).Elements())
	}
	for _, name := range tr.params.Names() {
		if tr.params.Trained(name) {
			tr.values[name] = random(r, tr.params.Shape(name).Elements())
		}
	}
	for _, l := range g.order { // class numbers, row numbers
		if l.kind == input && !l.wants && l.name != "dy" {
			v := make([]float32, l.shape.Elements())
			for i := range v {
				v[i] = float32(r.IntN(3))
			}
			tr.check(tr.prog.Set(l.name, v))
		}
	}
	tr.check(tr.prog.SetStep(5, 6))
	tr.direction = random(r, y.Shape().Elements())
	tr.output = make([]float32, len(tr.direction))
	tr.check(tr.prog.Set("dy", tr.direction))
	return tr
}

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func (tr *trial) check(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *trial) objective() float64 {
	tr.t.Helper()
	for name, v := range tr.values {
		if tr.params.Shape(name) != nil {
			tr.check(tr.params.Write(name, v))
		} else {
			tr.check(tr.prog.Set(name, v))
		}
	}
	tr.check(tr.prog.Forward())
	tr.check(tr.prog.Read("y", tr.output))
	sum := 0.0
	for i, y := range tr.output {
		sum += float64(y) * float64(tr.direction[i])
	}
	return sum
}

func (tr *trial) gradient(name string) []float32 {
	tr.t.Helper()
	d := make([]float32, len(tr.values[name]))
	if tr.params.Shape(name) != nil {
		d, err := tr.params.Grad(name)
		tr.check(err)
		return d
	}
	tr.check(tr.prog.Read("grad:"+name, d))
	return d
}

func checkGradients(t *testing.T, dev device.Device, net network) {
	tr := newTrial(t, dev, net, Options{})
	tr.objective()
	tr.check(tr.prog.Backward())
	grads := map[string][]float32{}
	for name := range tr.values {
		grads[name] = tr.gradient(name)
	}
	// The reference computes in float64, but outputs are read as float32: rounding moves a quotient
	// by about 1e-7 * sqrt(n) / h, and curvature by h^2. At a kink the one-sided quotients differ
	// by far more, and a gradient may lie anywhere between them.
	const h, tolerance, kink = 2e-3, 2e-3, 1e-2
	middle := tr.objective()
	for name, v := range tr.values {
		for i := range v {
			x := v[i]
			v[i] = x + h
			right := (tr.objective() - middle) / (float64(x+h) - float64(x))
			v[i] = x - h
			left := (middle - tr.objective()) / (float64(x) - float64(x-h))
			v[i] = x
			want, allowed := (left+right)/2, tolerance*(1+math.Abs(left))
			if jump := math.Abs(right - left); jump > kink*(1+math.Abs(left)) {
				allowed += jump / 2
			}
			if d := math.Abs(float64(grads[name][i]) - want); d > allowed {
				t.Errorf("d/d%s[%d] = %v, difference quotient %v", name, i, grads[name][i], want)
			}
		}
	}
}

// descent is a kernel that takes a step down a gradient: value -= gradient / 8.
type descent struct{}

func (descent) Scratch() int64 { return 0 }
func (descent) Run(out, in []device.Buffer, _ device.Buffer) {
	p, g := out[0].(cpu.Slice), in[0].(cpu.Slice)
	for i := range p {
		p[i] -= g[i] / 8
	}
}

// descend is an Updater that takes all gradients as they are.
func descend(_ string, conv *device.ConvSpec) (device.Kernel, error) {
	if conv != nil {
		return nil, nil
	}
	return descent{}, nil
}

// Parameters that are updated within Backward are to the bit those that are updated after it: no
// update comes before the last use of what it changes, and nothing is computed again from what an
// update has changed.
func TestUpdateInBackward(t *testing.T) {
	dev := newCPU(t)
	step := func(p *Program, n uint64) {
		if err := errors.Join(p.SetStep(7, n), p.Forward(), p.Backward()); err != nil {
			t.Fatal(err)
		}
	}
	for _, recompute := range []Recompute{RecomputeNone, RecomputeAll} {
		after, params := compileSmall(t, dev, Options{Recompute: RecomputeNone})
		within, updated := compileSmall(t, dev, Options{Recompute: recompute, Update: descend})
		values, err := params.Values()
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(4) {
			step(within, n)
			step(after, n)
			for _, name := range params.Names() {
				if offset, n, trained := params.Range(name); trained {
					g, err := params.Gradient(name)
					if err != nil {
						t.Fatal(err)
					}
					descent{}.Run([]device.Buffer{dev.View(values, offset, n)}, []device.Buffer{g}, nil)
					if _, err := updated.Grad(name); err == nil {
						t.Errorf("the gradient of %s is still there", name)
					}
				}
				if !slices.Equal(mustRead(t, params, name), mustRead(t, updated, name)) {
					t.Errorf("recompute %s, step %d: %s differs", recompute, n, name)
				}
			}
		}
		if within.Bytes() >= after.Bytes() {
			t.Errorf("recompute %s: %d bytes, %d with all gradients kept", recompute, within.Bytes(), after.Bytes())
		}
	}
}

// convDescent is a kernel of the device that takes a step with a gradient that it computes itself;
// the operands that a program does not know are its own.
type convDescent struct {
	device.Kernel
	velocity, square, hyper device.Buffer
}

func (k convDescent) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.Kernel.Run([]device.Buffer{out[0], k.velocity, k.square}, []device.Buffer{in[0], in[1], k.hyper}, scratch)
}

// Gradients of weights that are computed and used up in one step, which comes after all that reads
// the weights, change them as those do that are there first. Where they are smaller than what the
// step reads, they are computed first.
func TestConvUpdateInBackward(t *testing.T) {
	dev := newCPU(t)
	alloc := func(values ...float32) device.Buffer {
		b, err := dev.Alloc(4 * int64(len(values)))
		if err := errors.Join(err, dev.UploadPlain(b, 0, values)); err != nil {
			t.Fatal(err)
		}
		return b
	}
	fused := map[string]bool{}
	compile := func(recompute Recompute, update Updater) (*Program, *Params) {
		g, p := NewGraph(Train, device.Float32), NewParams(dev, 1)
		x := g.Activate("first", g.Conv("first", g.Input("x", 2, 1, 6, 6, 6), 6, Cube(3, 1, 1), true),
			Activation{Act: device.PReLU})
		down := g.Activate("down", g.Conv("down", x, 20, Cube(2, 2, 0), false), Activation{Act: device.ELU})
		deep := g.Activate("deep", g.Conv("deep", down, 20, Cube(5, 1, 2), true),
			Activation{Act: device.PReLU, Residual: down})
		deep = g.Activate("deeper", g.Conv("deeper", deep, 20, Cube(5, 1, 2), true), Activation{Act: device.PReLU})
		up := g.ConvTranspose("up", deep, 6, Cube(2, 2, 0), true)
		loss, _ := g.Loss(g.Conv("head", g.Concat(up, x), 3, Cube(1, 1, 0), true), g.Input("target", 2, 6, 6, 6),
			LossOptions{CE: 1})
		prog, err := Compile(dev, g, p, Options{Loss: loss, Recompute: recompute, Update: update})
		if err != nil {
			t.Fatal(err)
		}
		if err := prog.Set("x", random(rand.New(rand.NewPCG(1, 1)), 2*216)); err != nil {
			t.Fatal(err)
		}
		return prog, p
	}
	for _, recompute := range []Recompute{RecomputeNone, RecomputeAll} {
		apart, want := compile(recompute, descend)
		within, got := compile(recompute, func(name string, conv *device.ConvSpec) (device.Kernel, error) {
			if conv == nil {
				return descent{}, nil
			}
			fused[name] = true
			k, err := dev.(device.WeightStepper).ConvGradWeightsSGD(*conv)
			return convDescent{k, alloc(make([]float32, dev.WeightsSize(conv.WShape())/4)...), alloc(0),
				alloc(1.0/8, 0, 0, 1)}, err
		})
		for n := range 4 {
			if err := errors.Join(apart.Forward(), apart.Backward(), within.Forward(), within.Backward()); err != nil {
				t.Fatal(err)
			}
			for _, name := range want.Names() {
				if !slices.Equal(mustRead(t, got, name), mustRead(t, want, name)) {
					t.Errorf("recompute %s, step %d: %s differs", recompute, n, name)
				}
			}
		}
		if within.Bytes() >= apart.Bytes() {
			t.Errorf("recompute %s: %d bytes, %d with gradients that are there first", recompute, within.Bytes(),
				apart.Bytes())
		}
	}
	if !fused["deep.weight"] || !fused["deeper.weight"] || fused["head.weight"] || fused["first.weight"] {
		t.Errorf("computed and used up in one step: %v", fused)
	}
}

// Training leaves zero what a layout adds to the weights: values and velocity are what an upload of
// their values would make of them.
func TestLayoutGapsStayZero(t *testing.T) {
	dev := newCPU(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	alloc := func(bytes int64) device.Buffer {
		b, err := dev.Alloc(bytes)
		check(err)
		return b
	}
	p, params := compileSmall(t, dev, Options{})
	values, err := params.Values()
	check(err)
	velocity, hyper := alloc(params.Size()), alloc(16)
	check(dev.UploadPlain(hyper, 0, []float32{0.1, 0.9, 0.01, 1}))
	sgd, err := dev.SGD(int(params.Size() / 4))
	check(err)
	gaps := 0
	for n := range uint64(3) {
		check(errors.Join(p.SetStep(7, n), p.Forward(), p.Backward()))
		gradient := alloc(params.Size())
		for _, name := range params.Names() {
			if offset, n, trained := params.Range(name); trained {
				g, err := params.Gradient(name)
				check(err)
				raw := make([]float32, n/4)
				check(errors.Join(dev.DownloadPlain(raw, g, 0), dev.UploadPlain(gradient, int(offset/4), raw)))
			}
		}
		sgd.Run([]device.Buffer{values, velocity}, []device.Buffer{gradient, hyper}, alloc(sgd.Scratch()))
		for _, flat := range []device.Buffer{values, velocity, gradient} {
			raw, again := make([]float32, flat.Bytes()/4), make([]float32, flat.Bytes()/4)
			fresh := alloc(flat.Bytes())
			for _, name := range params.Names() {
				if offset, n, trained := params.Range(name); trained {
					shape := params.Shape(name)
					v := make([]float32, shape.Elements())
					check(dev.DownloadWeights(v, dev.View(flat, offset, n), shape, 0))
					check(dev.UploadWeights(dev.View(fresh, offset, n), shape, 0, v))
					gaps += int(n/4) - len(v)
				}
			}
			check(errors.Join(dev.DownloadPlain(raw, flat, 0), dev.DownloadPlain(again, fresh, 0)))
			if !slices.Equal(raw, again) {
				t.Errorf("step %d: not all gaps are zero", n)
			}
		}
	}
	if gaps == 0 {
		t.Error("the layout of these weights has no gaps: nothing was tested")
	}
}

// What is computed again instead of being kept makes a program smaller, and changes nothing.
func TestRecompute(t *testing.T) {
	dev := newCPU(t)
	_, whole := compileSmall(t, dev, Options{Recompute: RecomputeNone})
	bytes := map[Recompute]int64{}
	grads := map[Recompute][][]float32{}
	for _, o := range []Options{{Recompute: RecomputeNone}, {Recompute: RecomputeAuto, MemoryLimit: whole.Total() - 1},
		{Recompute: RecomputeAll}} {
		p, params := compileSmall(t, dev, o)
		bytes[o.Recompute] = p.Bytes()
		for n := range uint64(2) {
			if err := errors.Join(p.SetStep(7, n), p.Forward(), p.Backward()); err != nil {
				t.Fatal(err)
			}
			for _, name := range params.Names() {
				if params.Trained(name) {
					grads[o.Recompute] = append(grads[o.Recompute], mustGrad(t, params, name))
				} else {
					grads[o.Recompute] = append(grads[o.Recompute], mustRead(t, params, name))
				}
			}
		}
		if !slices.EqualFunc(grads[o.Recompute], grads[RecomputeNone], slices.Equal[[]float32]) {
			t.Errorf("recompute %s: other gradients or statistics", o.Recompute)
		}
		if again := p.Summary().Repeats; (again.Steps > 0) != (o.Recompute != RecomputeNone) {
			t.Errorf("recompute %s: %+v", o.Recompute, again)
		}
	}
	if !(bytes[RecomputeAll] < bytes[RecomputeAuto] && bytes[RecomputeAuto] < bytes[RecomputeNone]) {
		t.Errorf("bytes: %v", bytes)
	}
}

// Where the limit leaves no other way, more is computed again: as much as is needed, and no more.
// The limit leaves room for an optimiser's velocity and its copy of the states.
func TestRecomputeToFit(t *testing.T) {
	dev := newCPU(t)
	size := func(o Options) (int64, exec.Repeats) {
		p, params := compileSmall(t, dev, o)
		if want := p.Bytes() + 2*params.Bytes(); params.Total() != want {
			t.Errorf("%d bytes in all, want %d with the velocity and a copy of the states", params.Total(), want)
		}
		return params.Total(), p.Summary().Repeats
	}
	whole, none := size(Options{Recompute: RecomputeNone})
	cheap, few := size(Options{MemoryLimit: whole - 1})
	fits, some := size(Options{MemoryLimit: whole * 7 / 8})
	least, many := size(Options{Recompute: RecomputeAll})
	if none.Steps != 0 || few.Steps == 0 || few.FLOPs != 0 || some.FLOPs == 0 || some.FLOPs > many.FLOPs ||
		cheap >= whole || fits > whole*7/8 || least >= fits {
		t.Errorf("%d bytes need %d with a limit of one less (%+v), %d of seven eighths (%+v), %d at the least (%+v)",
			whole, cheap, few, fits, some, least, many)
	}
	g := NewGraph(Train, device.Float32)
	loss, logits := small(g)
	o := Options{Loss: loss, Outputs: map[string]*Node{"logits": logits}, MemoryLimit: least / 2}
	if _, err := Compile(dev, g, NewParams(dev, 1), o); err == nil {
		t.Error("it fits into half of the least")
	}
}

// The larger the parameters are, the less is computed again to make the program smaller.
func TestRecomputeLooksAtTheParameters(t *testing.T) {
	dev := newCPU(t)
	var repeats []int
	for _, wide := range []int{1, 2048} {
		p := NewParams(dev, 1)
		other := NewGraph(Train, device.Float32)
		other.Linear("other", other.Input("z", 1, wide), wide, false)
		if err := p.Declare(other); err != nil {
			t.Fatal(err)
		}
		g := NewGraph(Train, device.Float32)
		x := g.Input("x", 1, 16, 24, 24, 24)
		for i := range 6 {
			x = g.Activate(fmt.Sprint("act", i), g.Conv(fmt.Sprint("conv", i), x, 16, Cube(5, 1, 2), true),
				Activation{Act: device.PReLU})
		}
		loss, _ := g.Loss(x, g.Input("target", 1, 24, 24, 24), LossOptions{CE: 1})
		prog, err := Compile(dev, g, p, Options{Loss: loss, Update: descend})
		if err != nil {
			t.Fatal(err)
		}
		repeats = append(repeats, prog.Summary().Repeats.Steps)
	}
	if repeats[0] == 0 || repeats[1] != 0 {
		t.Errorf("%d activations are computed again, %d beside large parameters", repeats[0], repeats[1])
	}
}
