package nn

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
)

// ledger is a CPU that counts the bytes that have been taken and not given back.
type ledger struct {
	*cpu.CPU
	held *int64
}

func newLedger(t *testing.T) ledger {
	t.Helper()
	c := cputest.New(t, cpu.Options{Threads: 2})
	return ledger{c, new(int64)}
}

func (l ledger) Alloc(bytes int64) (device.Buffer, error) {
	*l.held += bytes
	return l.CPU.Alloc(bytes)
}

func (l ledger) Free(b device.Buffer) { *l.held -= b.Bytes() }

// halves are an encoder and a head over it, as two programs or as one: the same network.
func encode(g *Graph, x *Node) *Node { return g.ReLU(g.Linear("encoder", x, 6, true)) }

func headLoss(g *Graph, f *Node) *Node {
	loss, _ := g.Loss(g.Linear("head", f, 3, true), g.Input("truth", 4), LossOptions{CE: 1})
	return loss
}

// Two programs that are linked on the device compute what one program of both does, to the bit, and
// the features and their gradient are never set or read.
func TestLinkedPrograms(t *testing.T) {
	dev := newLedger(t)
	r := rand.New(rand.NewPCG(1, 1))
	x, truth := random(r, 4*5), []float32{0, 2, 1, -1}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	whole := NewParams(dev, 1)
	g := NewGraph(Train, device.Float32)
	one, err := Compile(dev, g, whole, Options{Loss: headLoss(g, encode(g, g.Input("x", 4, 5)))})
	check(err)
	check(errors.Join(one.Set("x", x), one.Set("truth", truth), one.Forward(), one.Backward()))

	parts := NewParams(dev, 1)
	eg, hg := NewGraph(Train, device.Float32), NewGraph(Train, device.Float32)
	features := encode(eg, eg.Input("x", 4, 5))
	eg.Input("gradient", 4, 6)
	loss := headLoss(hg, hg.GradInput("features", 4, 6))
	check(parts.Declare(eg, hg))
	f, err := parts.Link(4, 6)
	check(err)
	df, err := parts.Link(4, 6)
	check(err)
	encoder, err := Compile(dev, eg, parts, Options{
		Outputs: map[string]*Node{"features": features}, OutputGrad: map[string]string{"features": "gradient"},
		Links: map[string]*Link{"features": f, "gradient": df},
	})
	check(err)
	head, err := Compile(dev, hg, parts,
		Options{Loss: loss, Links: map[string]*Link{"features": f, "grad:features": df}})
	check(err)
	for range 2 { // the second run finds dirty memory
		check(errors.Join(encoder.Set("x", x), encoder.Forward(), head.Set("truth", truth), head.Forward(),
			head.Backward(), encoder.Backward()))
	}
	for _, name := range whole.Names() {
		want, err := whole.Grad(name)
		check(err)
		got, err := parts.Grad(name)
		check(err)
		if !slices.Equal(got, want) {
			t.Errorf("gradient of %s: got %v, want %v", name, got, want)
		}
	}
	total := parts.Total()
	if need := encoder.Bytes() + head.Bytes() + 2*96 + 2*parts.Size() + parts.Bytes() - parts.Size(); total != need {
		t.Errorf("%d bytes in all, want %d", total, need)
	}

	one.Close()
	whole.Close()
	for range 2 { // closing again does nothing
		encoder.Close()
		head.Close()
		f.Close()
		df.Close()
		parts.Close()
	}
	if *dev.held != 0 {
		t.Errorf("%d bytes were not given back", *dev.held)
	}
}

func TestLinksThatDoNotFit(t *testing.T) {
	dev := newCPU(t)
	for _, test := range []struct {
		name, want string
		shape      []int
	}{{"x", "it has shape [4 4], the program wants [4 5]", []int{4, 4}},
		{"nothing", "no such input or output", []int{4, 5}}} {
		p := NewParams(dev, 1)
		l, err := p.Link(test.shape...)
		if err != nil {
			t.Fatal(err)
		}
		g := NewGraph(Eval, device.Float32)
		_, err = Compile(dev, g, p, Options{Outputs: map[string]*Node{"y": encode(g, g.Input("x", 4, 5))},
			Links: map[string]*Link{test.name: l}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want ...%s...", test.name, err, test.want)
		}
	}
	if _, err := NewParams(dev, 1).Link(1, 2, 3, 4, 5); err == nil {
		t.Error("a link of rank 5 was accepted")
	}
}

// The gradients of two ranks, each with half of a batch, add up to those of the whole batch,
// although the halves have different numbers of voxels that count, and other classes.
func TestReducedLossesAddUp(t *testing.T) {
	dev := newCPU(t)
	r := rand.New(rand.NewPCG(1, 1))
	const voxels = 2 * 3 * 4
	x := random(r, 4*voxels)
	targets := make([]float32, 4*voxels)
	for i := range targets {
		targets[i] = float32(r.IntN(4) - 1)
		if i >= 3*voxels { // the second half has fewer that count
			targets[i] = -1
		}
	}
	compile := func(images int) (*Program, *Params) {
		g, p := NewGraph(Train, device.Float32), NewParams(dev, 1)
		logits := g.Conv("conv", g.Input("x", images, 1, 2, 3, 4), 3, Cube(1, 1, 0), true)
		loss, _ := g.Loss(logits, g.Input("target", images, 2, 3, 4), LossOptions{CE: 1, Dice: 2})
		prog, err := Compile(dev, g, p, Options{Loss: loss})
		if err != nil {
			t.Fatal(err)
		}
		return prog, p
	}
	run := func(p *Program, first, images int) {
		if err := errors.Join(p.Set("x", x[first*voxels:][:images*voxels]),
			p.Set("target", targets[first*voxels:][:images*voxels]), p.Forward()); err != nil {
			t.Fatal(err)
		}
	}
	whole, want := compile(4)
	run(whole, 0, 4)
	if err := whole.Backward(); err != nil {
		t.Fatal(err)
	}
	loss := make([]float32, 1)
	if err := whole.Read("loss", loss); err != nil {
		t.Fatal(err)
	}

	// The ranks run one after the other: first each tells its sums, then each goes on with those of
	// both.
	var told [2][]float32
	var half [2]*Program
	var params [2]*Params
	for rank := range half {
		half[rank], params[rank] = compile(2)
		run(half[rank], 2*rank, 2)
		stop := errors.New("told")
		if _, err := half[rank].Reduce(func(v []float32) error {
			told[rank] = slices.Clone(v)
			return stop
		}); !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	for rank := range half {
		losses, err := half[rank].Reduce(func(v []float32) error {
			for i := range v {
				v[i] = told[0][i] + told[1][i]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := losses[0] - float64(loss[0]); d > 1e-6 || d < -1e-6 || len(losses) != 1 {
			t.Errorf("rank %d: losses %v, want %v", rank, losses, loss[0])
		}
		if err := half[rank].Backward(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range want.Names() {
		a, b, both := mustGrad(t, params[0], name), mustGrad(t, params[1], name), mustGrad(t, want, name)
		for i := range both {
			if d := a[i] + b[i] - both[i]; d > 1e-6 || d < -1e-6 {
				t.Errorf("%s[%d]: %v + %v, want %v", name, i, a[i], b[i], both[i])
			}
		}
	}
}

// Activations of another type than the device's are refused when kernels are made, and tensors of
// two types do not meet in one operator.
func TestElementTypes(t *testing.T) {
	dev := newCPU(t)
	g := NewGraph(Eval, device.BFloat16)
	y := g.Conv("conv", g.Input("x", 1, 1, 2, 2, 2), 2, Cube(1, 1, 0), true)
	if y.Type() != device.BFloat16 || g.Flatten(y).Type() != device.Float32 {
		t.Errorf("types %v and %v", y.Type(), g.Flatten(y).Type())
	}
	_, err := Compile(dev, g, NewParams(dev, 1), Options{Outputs: map[string]*Node{"y": y}})
	if err == nil || !strings.Contains(err.Error(), "the CPU computes in fp32, not in bf16") {
		t.Errorf("got %v", err)
	}
	g = NewGraph(Eval, device.BFloat16)
	x := g.Input("x", 1, 1, 2, 2, 2)
	other := &Node{g: g, n: x.n, shape: x.shape} // as an operator would make that forgot the type
	if g.Add(x, other); g.Err() == nil ||
		!strings.Contains(g.Err().Error(), "operand 0 is of type bf16, operand 1 of type fp32") {
		t.Errorf("got %v", g.Err())
	}
}
