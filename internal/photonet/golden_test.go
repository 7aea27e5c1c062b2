package photonet

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

func testdata(name string) string { return filepath.Join("..", "..", "testdata", name) }

func newCPU(t *testing.T, algorithm string) *cpu.CPU {
	t.Helper()
	return cputest.New(t, cpu.Options{Conv: algorithm})
}

// fill is the formula of a parameter, as the script has it.
func fill(name string, s device.Shape) []float32 {
	v, scale, offset := make([]float32, s.Elements()), 0.1, 0.0
	switch {
	case len(s) > 1:
		scale = math.Sqrt(3 / float64(s.Elements()/s[0]))
	case strings.HasSuffix(name, ".bn3.weight"):
		scale, offset = 0.1, 0.2 // why so small: see the script
	case strings.HasSuffix(name, ".weight"):
		scale, offset = 0.2, 1
	}
	for i, x := range backbonetest.Noise64(name, len(v)) {
		v[i] = float32(offset + scale*x)
	}
	return v
}

var goldens = []struct {
	name   string
	config Config
	images int
	rate   float64
	// the worst relative error of a gradient, and of what ten steps have made
	gradient, trajectory float64
}{
	{"alexnet", Config{Kind: AlexNet, Width: 0.25, Features: 64}, 4, 1e-3, 1e-4, 1e-4},
	{"alexnet_batch", Config{Kind: AlexNet, Width: 0.5, Features: 48, Norm: Batch, Size: [2]int{227, 227}}, 3, 1e-3,
		1e-3, 3e-3},
	{"resnet18", Config{Kind: ResNet18, Width: 0.25}, 6, 1e-3, 1e-3, 3e-3},
	{"resnet50", Config{Kind: ResNet50, Width: 0.125}, 6, 2e-4, 3e-3, 3e-3},
}

// Logits, every gradient, ten steps of SGD whose biases have a rate and a decay of their own, the
// running statistics and the evaluation after them are those of PyTorch and torchvision, in float64
// and on the same weights.
func TestPyTorch(t *testing.T) {
	for _, c := range goldens {
		t.Run(c.name, func(t *testing.T) {
			dev := newCPU(t, "auto")
			n, err := New(c.config)
			if err != nil {
				t.Fatal(err)
			}
			newTrial(t, dev, n, c.images, testdata("photonet_"+c.name+".safetensors")).run(c.rate, c.gradient,
				c.trajectory)
		})
	}
}

// trial is a network beside PyTorch's results.
type trial struct {
	t      *testing.T
	n      *Network
	want   map[string][]float32
	seen   int // of want
	x      []float32
	params *nn.Params
	prog   *nn.Program
	images int
}

const classes = 5

func newTrial(t *testing.T, dev device.Device, n *Network, images int, path string) *trial {
	tr := &trial{t: t, n: n, want: backbonetest.Golden(t, path), params: nn.NewParams(dev, 1), images: images}
	g, logits := tr.graph(nn.Train)
	loss, _ := g.Loss(logits, g.Input("target", images), nn.LossOptions{CE: 1})
	var err error
	tr.prog, err = nn.Compile(dev, g, tr.params, nn.Options{Outputs: map[string]*nn.Node{"logits": logits}, Loss: loss})
	tr.check(err)
	for _, name := range tr.params.Names() {
		if tr.params.Trained(name) {
			tr.check(tr.params.Write(name, fill(strings.TrimPrefix(name, EncoderPrefix), tr.params.Shape(name))))
		}
	}
	p := n.Patch()
	tr.x = make([]float32, images*p[0]*p[1]*p[2]*p[3])
	for i, v := range backbonetest.Noise64("x", len(tr.x)) {
		tr.x[i] = float32(v)
	}
	target := make([]float32, images)
	for i, v := range backbonetest.Noise64("target", images) {
		target[i] = float32(math.Floor((v + 1) / 2 * classes))
	}
	tr.check(tr.prog.Set("x", tr.x))
	tr.check(tr.prog.Set("target", target))
	return tr
}

func (tr *trial) check(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *trial) graph(mode nn.Mode) (*nn.Graph, *nn.Node) {
	g, p := nn.NewGraph(mode, device.Float32), tr.n.Patch()
	return g, tr.n.Classify(g, tr.n.Encode(g, g.Input("x", tr.images, p[0], p[1], p[2], p[3])), classes)
}

// compare holds a tensor against PyTorch's of the given name.
func (tr *trial) compare(kind, name string, got []float32, tolerance, zero float64) {
	tr.t.Helper()
	want := tr.want[kind+name]
	if want == nil {
		tr.t.Errorf("PyTorch's network has no %s%s", kind, name)
		return
	}
	tr.seen++
	backbonetest.Compare(tr.t, kind, name, got, want, tolerance, zero)
}

func (tr *trial) run(rate, gradient, trajectory float64) {
	t := tr.t
	optimizer, err := train.NewOptimizer(tr.params, voxsaw.Training{Optimizer: "sgd", Steps: 10, LR: rate,
		Momentum: 0.9, WeightDecay: 1e-2, DecayAll: true, Schedule: "constant"}, []train.ParamGroup{BiasGroup()}, false)
	tr.check(err)
	defer optimizer.Close()
	logits, loss := make([]float32, tr.prog.Shape("logits").Elements()), make([]float32, 1)
	for step, want := range tr.want["losses"] {
		tr.check(optimizer.Begin(step))
		tr.check(tr.prog.Forward())
		tr.check(tr.prog.Read("loss", loss))
		if e := math.Abs(float64(loss[0] - want)); e > trajectory {
			t.Errorf("step %d: loss %v, want %v", step, loss[0], want)
		}
		if step == 10 {
			break
		}
		tr.check(tr.prog.Backward())
		if step == 0 {
			tr.check(tr.prog.Read("logits", logits))
			tr.compare("", "logits", logits, 1e-4, 0)
			tr.gradients(gradient)
			tr.states("first/", 5e-5)
		}
		_, err := optimizer.Take(step, nil)
		tr.check(err)
	}
	tr.states("last/", trajectory)
	// what the parameters have gathered in ten steps goes through the whole network once more
	tr.evaluate(2 * trajectory)
	if n := len(tr.want) - 1; tr.seen != n {
		t.Errorf("%d tensors compared, PyTorch's network has %d", tr.seen, n)
	}
}

func (tr *trial) gradients(tolerance float64) {
	for _, name := range tr.params.Names() {
		if tr.params.Trained(name) {
			g, err := tr.params.Grad(name)
			tr.check(err)
			tr.compare("grad/", strings.TrimPrefix(name, EncoderPrefix), g, tolerance, 0)
		}
	}
}

// states compares running statistics, and, after the last step, the parameters.
func (tr *trial) states(kind string, tolerance float64) {
	for _, name := range tr.params.Names() {
		if kind == "last/" || !tr.params.Trained(name) {
			v, err := tr.params.Read(name)
			tr.check(err)
			tr.compare(kind, strings.TrimPrefix(name, EncoderPrefix), v, tolerance, 0)
		}
	}
}

func (tr *trial) evaluate(tolerance float64) {
	g, logits := tr.graph(nn.Eval)
	prog, err := nn.Compile(tr.params.Device(), g, tr.params,
		nn.Options{Outputs: map[string]*nn.Node{"logits": logits}})
	tr.check(err)
	defer prog.Close()
	tr.check(prog.Set("x", tr.x))
	tr.check(prog.Forward())
	got := make([]float32, prog.Shape("logits").Elements())
	tr.check(prog.Read("logits", got))
	tr.compare("", "eval", got, tolerance, 0)
}

// At width 1, parameters and states have torchvision's names and shapes.
func TestNamesAreTorchvisions(t *testing.T) {
	data, err := os.ReadFile(testdata("photonet_names.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string][]int
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{ResNet18, ResNet50} {
		n, params := declared(t, Config{Kind: kind}, 1000)
		seen := 0
		for _, name := range params.Names() {
			to, shape, ok := ToPyTorch(name, params.Shape(name))
			if !ok || !slices.Equal(shape, want[kind][to]) {
				t.Errorf("%+v: %s has shape %v, torchvision's %q %v", n.Config(), name, shape, to, want[kind][to])
			}
			if fromPyTorch(to) != name {
				t.Errorf("%s becomes %s and then %s", name, to, fromPyTorch(to))
			}
			seen++
		}
		if seen != len(want[kind]) {
			t.Errorf("%s has %d parameters and states, torchvision's %d", kind, seen, len(want[kind]))
		}
	}
}

// declared is a network with a classifier, and its parameters, which take no memory.
func declared(t *testing.T, c Config, classes int) (*Network, *nn.Params) {
	t.Helper()
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	g, p, params := nn.NewGraph(nn.Train, device.Float32), n.Patch(), nn.NewParams(newCPU(t, ""), 1)
	n.Classify(g, n.Encode(g, g.Input("x", 2, p[0], p[1], p[2], p[3])), classes)
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	return n, params
}

// operator is a result of PyTorch's.
type operator struct {
	Shape   []int       `json:"shape"`
	Y       []float32   `json:"y"`
	YShape  []int       `json:"y_shape"`
	DX      []float32   `json:"dx"`
	Regions [][]float32 `json:"regions"`
	Target  []float32   `json:"target"`
}

// What only photographs need, beside PyTorch's operators of the same name.
func TestOperators(t *testing.T) {
	data, err := os.ReadFile(testdata("photonet_operators.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]operator
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		noise string
		scale float64
		of    func(g *nn.Graph, x *nn.Node, o operator) (*nn.Node, map[string][]float32)
	}{
		"lrn": {"lrn", 3, func(g *nn.Graph, x *nn.Node, _ operator) (*nn.Node, map[string][]float32) {
			return g.LRN(x, 5, 1.5, 0.75, 2), nil
		}},
		"lrn_even": {"even", 3, func(g *nn.Graph, x *nn.Node, _ operator) (*nn.Node, map[string][]float32) {
			return g.LRN(x, 4, 1.5, 0.6, 1), nil
		}},
		"roi": {"roi", 1, func(g *nn.Graph, x *nn.Node, o operator) (*nn.Node, map[string][]float32) {
			return g.RoIPool(x, g.Input("regions", len(o.Regions), 5), [2]int{3, 2}, 0.25),
				map[string][]float32{"regions": slices.Concat(o.Regions...)}
		}},
		"label": {"label", 8, func(g *nn.Graph, x *nn.Node, o operator) (*nn.Node, map[string][]float32) {
			return g.Reshape(g.LabelLoss(x, g.Input("target", 4, 5)), 1), map[string][]float32{"target": o.Target}
		}},
		"smooth": {"smooth", 1, func(g *nn.Graph, x *nn.Node, o operator) (*nn.Node, map[string][]float32) {
			ones := slices.Repeat([]float32{1}, 32)
			return g.Reshape(g.SmoothL1(x, g.Input("target", 4, 8), g.Input("weight", 4, 8), 1./9), 1),
				map[string][]float32{"target": o.Target, "weight": ones}
		}},
		"max_ceil": {"max", 1, func(g *nn.Graph, x *nn.Node, _ operator) (*nn.Node, map[string][]float32) {
			return g.MaxPoolCeil(x, nn.Plane(3, 2, 0)), nil
		}},
		"group": {"group", 1, func(g *nn.Graph, x *nn.Node, _ operator) (*nn.Node, map[string][]float32) {
			return g.Convolve("c", x, 6, nn.Convolution{Window: nn.Plane(3, 2, 1), Groups: 2}), nil
		}},
	} {
		t.Run(name, func(t *testing.T) { compareOperator(t, want[name], c.noise, c.scale, c.of) })
	}
}

func compareOperator(t *testing.T, want operator, noise string, scale float64,
	of func(*nn.Graph, *nn.Node, operator) (*nn.Node, map[string][]float32)) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dev := newCPU(t, "")
	g, shape := nn.NewGraph(nn.Train, device.Float32), want.Shape
	if len(shape) == 4 {
		shape = []int{shape[0], shape[1], 1, shape[2], shape[3]}
	}
	y, inputs := of(g, g.GradInput("x", shape...), want)
	check(g.Err())
	g.Input("dy", y.Shape()...)
	params := nn.NewParams(dev, 1)
	prog, err := nn.Compile(dev, g, params, nn.Options{Outputs: map[string]*nn.Node{"y": y},
		OutputGrad: map[string]string{"y": "dy"}})
	check(err)
	x := make([]float32, device.Shape(shape).Elements())
	for i, v := range backbonetest.Noise64(noise, len(x)) {
		x[i] = float32(scale * v)
	}
	dy := make([]float32, y.Shape().Elements())
	for i, v := range backbonetest.Noise64("dy", len(dy)) {
		dy[i] = float32(v)
	}
	check(prog.Set("x", x))
	check(prog.Set("dy", dy))
	for name, values := range inputs {
		check(prog.Set(name, values))
	}
	for _, name := range params.Names() {
		w := make([]float32, params.Shape(name).Elements())
		for i, v := range backbonetest.Noise64("w", len(w)) {
			w[i] = float32(v)
		}
		check(params.Write(name, w))
	}
	check(prog.Forward())
	check(prog.Backward())
	got, dx := make([]float32, len(want.Y)), make([]float32, len(want.DX))
	check(prog.Read("y", got))
	check(prog.Read("grad:x", dx))
	for i := range got {
		if d := math.Abs(float64(got[i] - want.Y[i])); !(d <= 2e-5) {
			t.Errorf("y[%d] = %v, want %v", i, got[i], want.Y[i])
		}
	}
	for i := range dx {
		if d := math.Abs(float64(dx[i] - want.DX[i])); !(d <= 2e-5) {
			t.Errorf("dx[%d] = %v, want %v", i, dx[i], want.DX[i])
		}
	}
}
