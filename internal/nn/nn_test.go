package nn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// small is a network with every kind of leaf: two stages, dropout, batch norm, a residual, a loss.
func small(g *Graph) (loss, logits *Node) {
	x := g.Input("x", 2, 1, 8, 8, 8)
	y := g.Activate("first", g.Conv("first", x, 6, Cube(3, 1, 1), true),
		Activation{Norm: device.BatchNorm, Act: device.PReLU, Residual: x})
	down := g.Activate("down", g.Conv("down", y, 12, Cube(2, 2, 0), false),
		Activation{Norm: device.InstanceNorm, Act: device.ELU})
	down = g.Dropout3d("drop", down, 0.5)
	up := g.Activate("up", g.ConvTranspose("up", down, 6, Cube(2, 2, 0), true), Activation{Act: device.ReLU})
	logits = g.Conv("head", g.Concat(up, y), 3, Cube(1, 1, 0), true)
	loss, _ = g.Loss(logits, g.Input("target", 2, 8, 8, 8), LossOptions{CE: 1, Dice: 1})
	return loss, logits
}

func newCPU(t *testing.T) device.Device {
	return cputest.New(t, cpu.Options{Threads: 2})
}

func compileSmall(t *testing.T, dev device.Device, o Options) (*Program, *Params) {
	t.Helper()
	g, p := NewGraph(Train, device.Float32), NewParams(dev, 1)
	loss, logits := small(g)
	o.Loss, o.Outputs = loss, map[string]*Node{"logits": logits}
	prog, err := Compile(dev, g, p, o)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	target := make([]float32, 2*512)
	for i := range target {
		target[i] = float32(r.IntN(3))
	}
	if err := errors.Join(prog.Set("x", random(r, 2*512)), prog.Set("target", target)); err != nil {
		t.Fatal(err)
	}
	return prog, p
}

func run(t *testing.T, p *Program) {
	t.Helper()
	if err := errors.Join(p.Forward(), p.Backward()); err != nil {
		t.Fatal(err)
	}
}

// The CPU's blocked layouts, in-place steps and all, leave what the reference device leaves.
func TestDevicesAgree(t *testing.T) {
	a, pa := compileSmall(t, devicetest.NewReference(), Options{})
	b, pb := compileSmall(t, newCPU(t), Options{})
	for step := range uint64(3) {
		for _, p := range []*Program{a, b} {
			if err := p.SetStep(1, step); err != nil {
				t.Fatal(err)
			}
			run(t, p)
		}
	}
	for _, name := range pa.Names() {
		va, vb := mustRead(t, pa, name), mustRead(t, pb, name)
		if pa.Trained(name) {
			va, vb = mustGrad(t, pa, name), mustGrad(t, pb, name)
		}
		for i := range va {
			if d := math.Abs(float64(va[i] - vb[i])); d > 1e-4*(1+math.Abs(float64(va[i]))) {
				t.Errorf("%s[%d]: %v on the reference device, %v on the CPU", name, i, va[i], vb[i])
			}
		}
	}
}

func mustRead(t *testing.T, p *Params, name string) []float32 {
	t.Helper()
	v, err := p.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustGrad(t *testing.T, p *Params, name string) []float32 {
	t.Helper()
	v, err := p.Grad(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestBiasGradientsAreByProducts: where an activation or the loss follows a convolution, no step is
// there only to sum up a bias gradient.
func TestBiasGradientsAreByProducts(t *testing.T) {
	g := NewGraph(Train, device.Float32)
	loss, _ := small(g)
	dev := devicetest.NewReference()
	p, err := Compile(dev, g, NewParams(dev, 1), Options{Loss: loss})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Times() {
		if strings.HasPrefix(s.Name, "sumChannels") {
			t.Errorf("step %q", s.Name)
		}
	}
}

func TestRunsWithoutAllocating(t *testing.T) {
	p, _ := compileSmall(t, newCPU(t), Options{})
	if n := testing.AllocsPerRun(5, func() { run2(p) }); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
	s := p.Summary()
	if s.Bytes >= s.Unshared || s.ForwardSteps >= s.Steps || s.Bytes != p.Bytes() {
		t.Errorf("summary %+v", s)
	}
}

func run2(p *Program) {
	p.Forward()
	p.Backward()
}

// Two runs on the same inputs, masks and parameters are equal to the bit; another step draws other
// masks.
func TestRunsRepeat(t *testing.T) {
	p, params := compileSmall(t, newCPU(t), Options{})
	step := func(n uint64) []float32 {
		if err := p.SetStep(4, n); err != nil {
			t.Fatal(err)
		}
		run(t, p)
		return mustGrad(t, params, "down.weight")
	}
	first, other, again := step(1), step(2), step(1)
	if !slices.Equal(first, again) {
		t.Error("the same step leaves other gradients the second time")
	}
	if slices.Equal(first, other) {
		t.Error("two steps drew the same masks")
	}
}

// Compiling again gives the same program, with every sum in the same order: a resumed run equals
// one that was not interrupted.
func TestCompilationRepeats(t *testing.T) {
	dev := newCPU(t)
	var steps []string
	var grads [][]float32
	for i := range 5 {
		p, params := compileSmall(t, dev, Options{})
		run(t, p)
		var names []string
		for _, s := range p.Times() {
			names = append(names, s.Name)
		}
		var values [][]float32
		for _, name := range params.Names() {
			if params.Trained(name) {
				values = append(values, mustGrad(t, params, name))
			}
		}
		if i == 0 {
			steps, grads = names, values
			continue
		}
		if !slices.Equal(names, steps) {
			t.Fatalf("compilation %d has other steps: %v, %v", i, names, steps)
		}
		for k := range values {
			if !slices.Equal(values[k], grads[k]) {
				t.Fatalf("compilation %d leaves another gradient of parameter %d", i, k)
			}
		}
	}
}

// In evaluation nothing is dropped, running statistics are used and not changed, and layers with a
// state work for one image.
func TestEvaluation(t *testing.T) {
	dev := newCPU(t)
	p, params := compileSmall(t, dev, Options{})
	run(t, p)
	mean := mustRead(t, params, "first.norm.running_mean")
	if slices.Equal(mean, make([]float32, len(mean))) {
		t.Fatal("training left the running mean at zero")
	}
	g := NewGraph(Eval, device.Float32)
	_, logits := small(g)
	e, err := Compile(dev, g, params, Options{Outputs: map[string]*Node{"logits": logits}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Set("x", random(rand.New(rand.NewPCG(1, 1)), 2*512)), e.SetStep(1, 1),
		e.Forward()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(mean, mustRead(t, params, "first.norm.running_mean")) {
		t.Error("evaluation changed the running mean")
	}
}

// A program in the memory of another gives the same as one with its own, and takes none. One that
// does not fit there takes its own.
func TestSharedMemory(t *testing.T) {
	dev := newCPU(t)
	evaluation := func(params *Params, within *Program) *Program {
		g := NewGraph(Eval, device.Float32)
		_, logits := small(g)
		p, err := Compile(dev, g, params, Options{Outputs: map[string]*Node{"logits": logits}, Share: within})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	x := random(rand.New(rand.NewPCG(3, 3)), 2*512)
	var logits, weights [2][]float32
	for i := range 2 {
		training, params := compileSmall(t, dev, Options{})
		alone := params.Total()
		var within *Program
		if i == 1 {
			within = training
		}
		e := evaluation(params, within)
		if got := params.Total() - alone; (got == 0) != (i == 1) || i == 0 && got != e.Bytes() {
			t.Errorf("within %v: the second program takes %d bytes more", within != nil, got)
		}
		logits[i] = make([]float32, e.Shape("logits").Elements())
		for n := range uint64(3) {
			train := random(rand.New(rand.NewPCG(4, n)), 2*512)
			if err := errors.Join(training.SetStep(7, n), training.Set("x", train),
				training.Set("target", make([]float32, 2*512)), training.Forward(), training.Backward()); err != nil {
				t.Fatal(err)
			}
			weights[i] = append(weights[i], mustGrad(t, params, "first.weight")...)
			if err := errors.Join(e.Set("x", x), e.Forward(), e.Read("logits", logits[i])); err != nil {
				t.Fatal(err)
			}
		}
		before := params.Total()
		g := NewGraph(Train, device.Float32)
		loss, _ := small(g)
		p, err := Compile(dev, g, params, Options{Loss: loss, Share: e})
		// it does not fit into the memory of the second, but into that which this one shares
		taken := p.Bytes()
		if i == 1 {
			taken = 0
		}
		if err != nil || params.Total() != before+taken {
			t.Errorf("a program of %d bytes takes %d, want %d: %v", p.Bytes(), params.Total()-before, taken, err)
		}
	}
	if !slices.Equal(logits[0], logits[1]) || !slices.Equal(weights[0], weights[1]) {
		t.Error("sharing memory changes results")
	}
}

// A loss in the middle and its gradient handed over from outside leave the same parameter gradients
// as one program.
func TestGradientFromOutside(t *testing.T) {
	dev := devicetest.NewReference()
	r := rand.New(rand.NewPCG(3, 3))
	x, target := random(r, 4*6), []float32{0, 2, 1, 1}
	body := func(g *Graph) *Node { return g.ReLU(g.Linear("body", g.Input("x", 4, 6), 5, true)) }
	head := func(g *Graph, f *Node) *Node {
		l, _ := g.Loss(g.Linear("head", f, 3, true), g.Input("target", 4), LossOptions{CE: 1})
		return l
	}

	whole, g := NewParams(dev, 1), NewGraph(Train, device.Float32)
	p, err := Compile(dev, g, whole, Options{Loss: head(g, body(g))})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Set("x", x), p.Set("target", target)); err != nil {
		t.Fatal(err)
	}
	run(t, p)

	parts, gb, gh := NewParams(dev, 1), NewGraph(Train, device.Float32), NewGraph(Train, device.Float32)
	f := body(gb)
	gb.Input("df", 4, 5)
	l := head(gh, gh.GradInput("f", 4, 5))
	if err := parts.Declare(gb, gh); err != nil {
		t.Fatal(err)
	}
	pb, err := Compile(dev, gb, parts, Options{Outputs: map[string]*Node{"f": f},
		OutputGrad: map[string]string{"f": "df"}})
	if err != nil {
		t.Fatal(err)
	}
	ph, err := Compile(dev, gh, parts, Options{Loss: l})
	if err != nil {
		t.Fatal(err)
	}
	features, df := make([]float32, 20), make([]float32, 20)
	if err := errors.Join(pb.Set("x", x), pb.Forward(), pb.Read("f", features),
		ph.Set("f", features), ph.Set("target", target), ph.Forward(), ph.Backward(), ph.Read("grad:f", df),
		pb.Set("df", df), pb.Backward()); err != nil {
		t.Fatal(err)
	}
	for _, name := range whole.Names() {
		a, b := mustGrad(t, whole, name), mustGrad(t, parts, name)
		for i := range a {
			if d := math.Abs(float64(a[i] - b[i])); d > 1e-6 {
				t.Errorf("%s[%d]: %v in one program, %v in two", name, i, a[i], b[i])
			}
		}
	}
}

// A parameter's first value depends on nothing but the seed and its name, and has the moments of
// its distribution.
func TestInit(t *testing.T) {
	dev := devicetest.NewReference()
	values := func(seed uint64, names ...string) []float32 {
		g := NewGraph(Train, device.Float32)
		for _, name := range names {
			g.Param(name, KaimingUniform(), 64, 32, 3, 3, 3)
		}
		p := NewParams(dev, seed)
		if err := p.Declare(g); err != nil {
			t.Fatal(err)
		}
		return mustRead(t, p, "w")
	}
	w := values(1, "w")
	if !slices.Equal(w, values(1, "v", "w")) {
		t.Error("another parameter changes the first values of w")
	}
	if slices.Equal(w, values(2, "w")) {
		t.Error("another seed leaves the first values of w")
	}
	bound := 1 / math.Sqrt(32*27)
	var square float64
	for _, x := range w {
		if math.Abs(float64(x)) > bound {
			t.Fatalf("%v is beyond the bound %v", x, bound)
		}
		square += float64(x) * float64(x) / float64(len(w))
	}
	// 55296 draws: five standard errors of the variance
	if e := math.Abs(square/(bound*bound/3) - 1); e > 0.02 {
		t.Errorf("variance %v, want %v", square, bound*bound/3)
	}
}

func TestParams(t *testing.T) {
	dev := devicetest.NewReference()
	g := NewGraph(Train, device.Float32)
	g.Param("a", Constant(3), 5)
	g.State("s", 2, 4)
	g.Param("b", Constant(1), 2, 2)
	p := NewParams(dev, 1)
	if err := p.Declare(g, g); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Names(), []string{"a", "s", "b"}) || p.Count() != 9 || p.Size() != 4*32 || p.Trained("s") ||
		!p.Trained("a") {
		t.Errorf("names %v, count %d, size %d", p.Names(), p.Count(), p.Size())
	}
	if offset, n, ok := p.Range("b"); offset != 64 || n != 16 || !ok {
		t.Errorf("b lies at %d, %d bytes", offset, n)
	}
	if _, _, ok := p.Range("s"); ok {
		t.Error("a state lies among the parameters")
	}
	if err := p.Write("s", []float32{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(mustRead(t, p, "s"), []float32{1, 2, 3, 4}) ||
		!slices.Equal(mustRead(t, p, "a"), []float32{3, 3, 3, 3, 3}) {
		t.Error("read something else than was written")
	}
	late := NewGraph(Train, device.Float32)
	late.Param("c", Constant(0), 1)
	reshaped := NewGraph(Train, device.Float32)
	reshaped.Param("a", Constant(0), 6)
	_, gradOfState := p.Grad("s")
	_, unknown := p.Read("d")
	for want, err := range map[string]error{
		"too late": p.Declare(late), "another": p.Declare(reshaped), "not 2 values": p.Write("b", make([]float32, 2)),
		"is a state": gradOfState, `called "d"`: unknown,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

// Mistakes are reported once, in words, and never panic; whatever is built after them is ignored.
func TestMistakes(t *testing.T) {
	x := func(g *Graph) *Node { return g.Input("x", 2, 4, 8, 8, 8) }
	for want, build := range map[string]func(g *Graph) *Node{
		"does not fit":  func(g *Graph) *Node { return g.Conv("c", x(g), 2, Cube(9, 1, 0), true) },
		"at least 1":    func(g *Graph) *Node { return g.MaxPool(x(g), Cube(0, 0, 0)) },
		"rank 5":        func(g *Graph) *Node { return g.Conv("c", g.Input("f", 3, 4), 2, Cube(1, 1, 0), true) },
		"operand 1":     func(g *Graph) *Node { return g.Add(x(g), g.Input("y", 2, 4, 8, 8, 4)) },
		"name is taken": func(g *Graph) *Node { x(g); return x(g) },
		"another shape": func(g *Graph) *Node { g.Param("p", Constant(0), 3); return g.Param("p", Constant(0), 4) },
		"empty axis":    func(g *Graph) *Node { return g.Input("e", 0, 3) },
		"too large":     func(g *Graph) *Node { return g.Input("e", 1<<20, 1<<30) },
		"do not divide": func(g *Graph) *Node {
			return g.Activate("a", x(g), Activation{Norm: device.GroupNorm, Groups: 3})
		},
		"dropout rate":  func(g *Graph) *Node { return g.Dropout3d("d", x(g), 1) },
		"flatten them":  func(g *Graph) *Node { return g.Reshape(x(g), 2, 2048) },
		"do not make 9": func(g *Graph) *Node { return g.Reshape(g.Input("f", 2, 4), 3, 3) },
		"equal groups":  func(g *Graph) *Node { return g.MeanOfOthers(g.Input("f", 5, 4), 2) },
		"another graph": func(g *Graph) *Node { return g.Add(x(g), x(NewGraph(Train, device.Float32))) },
		"concat of":     func(g *Graph) *Node { return g.Concat() },
		"nothing takes": func(g *Graph) *Node {
			l, _ := g.Loss(g.Input("f", 5, 1), g.Input("t", 5), LossOptions{Dice: 1})
			return l
		},
		"activating":                 func(g *Graph) *Node { return g.ReLU(g.Input("f", 5)) },
		"operand 1 has shape [2 1 4": func(g *Graph) *Node { return g.Concat(x(g), g.Input("y", 2, 1, 4, 4, 4)) },
	} {
		g := NewGraph(Train, device.Float32)
		y := g.Scale(g.ReLU(build(g)), 2)
		y, _ = g.Loss(g.Softmax(g.Linear("l",
			g.Flatten(g.AvgPool(g.Dropout3d("late", g.Concat(y, y), 0.1), Cube(1, 1, 0))), 2, true)), y,
			LossOptions{CE: 1})
		y = g.ColumnSumLoss(g.PairSum(g.GatherRows(g.Reshape(g.ConvTranspose("u", y, 1, Cube(2, 2, 0), true), 1), y), y,
			1), y)
		_, err := Compile(devicetest.NewReference(), g, NewParams(devicetest.NewReference(), 1),
			Options{Outputs: map[string]*Node{"y": y}})
		if want == "another shape" {
			want = "one of shape [3]"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

// The limit is for all that shares the parameters: a second program that would fit alone does not
// fit beside the first, nor without room for the velocity and a copy of the states.
func TestMemoryLimitIsForAllPrograms(t *testing.T) {
	dev := devicetest.NewReference()
	compile := func(p *Params, train bool, limit int64) (*Program, error) {
		g := NewGraph(Train, device.Float32)
		loss, logits := small(g)
		o := Options{Outputs: map[string]*Node{"logits": logits}, MemoryLimit: limit, Recompute: RecomputeNone}
		if train {
			o.Loss = loss
		}
		return Compile(dev, g, p, o)
	}
	p := NewParams(dev, 1)
	first, err := compile(p, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	alone := first.Bytes() + 2*p.Bytes()
	second, err := compile(p, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	both := alone + second.Bytes()
	if p.Total() != both {
		t.Errorf("%d bytes in all, want %d", p.Total(), both)
	}
	for _, limits := range [][2]int64{{alone - 1, 0}, {alone, both - 1}, {alone, both}} {
		p := NewParams(dev, 1)
		_, err := compile(p, true, limits[0])
		var tooLarge *exec.MemoryError
		if limits[1] == 0 {
			if !errors.As(err, &tooLarge) || tooLarge.Need != alone {
				t.Errorf("%d bytes for %d: %v", limits[0], alone, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err = compile(p, false, limits[1]); (err == nil) != (limits[1] == both) ||
			err != nil && (!errors.As(err, &tooLarge) || tooLarge.Need != both) {
			t.Errorf("%d bytes for %d: %v", limits[1], both, err)
		}
	}
}

func TestCompileMistakes(t *testing.T) {
	dev := devicetest.NewReference()
	for want, o := range map[string]func(g *Graph, loss, y *Node) Options{
		"without outputs": func(*Graph, *Node, *Node) Options { return Options{} },
		"scalar":          func(_ *Graph, _, y *Node) Options { return Options{Loss: y} },
		"not of this graph": func(*Graph, *Node, *Node) Options {
			return Options{Outputs: map[string]*Node{"y": nil}}
		},
		"which is no output": func(_ *Graph, l, _ *Node) Options {
			return Options{Loss: l, OutputGrad: map[string]string{"z": "x"}}
		},
		"want an input of": func(_ *Graph, _, y *Node) Options {
			return Options{Outputs: map[string]*Node{"y": y}, OutputGrad: map[string]string{"y": "x"}}
		},
		"make the crop": func(_ *Graph, l, _ *Node) Options { return Options{Loss: l, MemoryLimit: 1000} },
		"nothing to different": func(g *Graph, _, _ *Node) Options {
			l, _ := g.Loss(g.Input("u", 3, 3), g.Input("v", 3), LossOptions{CE: 1})
			return Options{Loss: l}
		},
	} {
		g := NewGraph(Train, device.Float32)
		loss, y := small(g)
		_, err := Compile(dev, g, NewParams(dev, 1), o(g, loss, y))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
		if tooLarge := (*exec.MemoryError)(nil); want == "make the crop" && !errors.As(err, &tooLarge) {
			t.Errorf("%v is no MemoryError", err)
		}
	}
	g := NewGraph(Train, device.Float32)
	loss, _ := small(g)
	for i := range 2 {
		_, err := Compile(dev, g, NewParams(dev, 1), Options{Loss: loss})
		if (err == nil) != (i == 0) {
			t.Errorf("compilation %d of one graph: %v", i, err)
		}
	}
	p, _ := compileSmall(t, dev, Options{})
	for _, err := range []error{p.Set("y", nil), p.Set("x", nil), p.Read("y", nil), p.Read("loss", nil)} {
		if err == nil {
			t.Error("no error for a name or a size that is wrong")
		}
	}
}

// Operators that differ in any hyperparameter are different nodes, equal ones are merged, and an
// operator that is not ours does not run.
func TestNodesOfTheGraph(t *testing.T) {
	g := NewGraph(Train, device.Float32)
	x := g.Input("x", 1, 2, 4, 4, 4)
	w := g.Param("w", Constant(1), 2, 2, 3, 3, 3)
	spec := device.ConvSpec{N: 1, In: 2, Out: 2, Size: [3]int{4, 4, 4}, Kernel: [3]int{3, 3, 3},
		Stride: [3]int{1, 1, 1}, Pad: [3]int{1, 1, 1}}
	a, b := g.apply(conv{spec}, x, w), g.apply(conv{spec}, x, w)
	if a.n != b.n {
		t.Error("equal nodes are not merged")
	}
	seen := map[string]bool{}
	for i := range 3 {
		for v := range 2 {
			s := spec
			s.Pad[i], s.Stride[i] = v, 1+v
			seen[gorgoniaOp{operator: conv{s}}.String()] = true
		}
	}
	for _, f := range []float32{1, 1.0000001} {
		seen[gorgoniaOp{operator: scale{device.Tensor{Shape: device.Shape{3}}, f}}.String()] = true
	}
	if len(seen) != 8 {
		t.Errorf("8 operators have %d names", len(seen))
	}

	square, err := G.Square(a.n)
	if err != nil {
		t.Fatal(err)
	}
	foreign := &Node{g: g, n: square, shape: a.shape}
	_, err = Compile(devicetest.NewReference(), g, NewParams(devicetest.NewReference(), 1),
		Options{Outputs: map[string]*Node{"y": foreign}})
	if err == nil || !strings.Contains(err.Error(), "none of ours") {
		t.Errorf("a foreign operator: %v", err)
	}
}

func ExampleGraph() {
	dev := devicetest.NewReference()
	g := NewGraph(Train, device.Float32)
	y := g.Linear("l", g.Input("x", 2, 3), 2, true)
	loss, _ := g.Loss(y, g.Input("target", 2), LossOptions{CE: 1})
	p, err := Compile(dev, g, NewParams(dev, 1), Options{Loss: loss})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Set("x", []float32{1, 2, 3, 4, 5, 6})
	p.Set("target", []float32{0, 1})
	p.Forward()
	p.Backward()
	for _, s := range p.Times() {
		fmt.Println(s.Name)
	}
	// Output:
	// matMul 2x2x3
	// loss 2x2
	// lossGrad 2x2
	// matMul 2x3x2
}

// A leaky ReLU is a PReLU whose slope is no parameter.
func TestLeakyReLU(t *testing.T) {
	dev := devicetest.NewReference()
	g := NewGraph(Train, device.Float32)
	x := g.Input("x", 1, 3)
	y := g.Add(g.Activate("a", x, Activation{Act: device.PReLU, Slope: 0.25}),
		g.Activate("b", x, Activation{Act: device.PReLU, Slope: 0.5}))
	p := NewParams(dev, 1)
	program, err := Compile(dev, g, p, Options{Outputs: map[string]*Node{"y": y}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(program.Set("x", []float32{-4, 0, 3}), program.Forward()); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 3)
	if err := program.Read("y", got); err != nil || !slices.Equal(got, []float32{-3, 0, 6}) || len(p.Names()) > 0 {
		t.Errorf("got %v, %v, parameters %v", got, err, p.Names())
	}
}
