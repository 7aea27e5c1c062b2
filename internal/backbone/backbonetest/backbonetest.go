// Package backbonetest checks networks against PyTorch's.
//
// Start at [PyTorch] and [Parts]. Goldens hold no tensors but digests of them: the norm, four
// projections on random signs, and some elements. Weights and inputs are computed here and there by
// one formula.
package backbonetest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// Noise64 is the formula that the scripts of testdata compute weights and inputs from: n numbers in
// [-1, 1).
func Noise64(name string, n int) []float64 {
	v, base := make([]float64, n), crc32.ChecksumIEEE([]byte(name))
	for i := range v {
		x := uint32(i)*2654435761 + base
		x ^= x >> 16
		x *= 0x85EBCA6B
		x ^= x >> 13
		x *= 0xC2B2AE35
		x ^= x >> 16
		v[i] = float64(x)/(1<<31) - 1
	}
	return v
}

// Noise is what the scripts of testdata take for an image of n voxels.
func Noise(name string, n int) []float32 {
	values := make([]float32, n)
	for i, v := range Noise64(name, n) {
		values[i] = float32(v)
	}
	return values
}

// fill is the formula of a parameter.
func fill(name string, s device.Shape) []float32 {
	v := make([]float32, s.Elements())
	scale, offset := 0.1, 0.0
	switch {
	case len(s) > 1:
		fan := s.Elements() / s[0]
		// up-convolutions
		if strings.Contains(name, ".up.") || strings.Contains(name, ".transpconvs.") {
			fan = s[0]
		}
		scale = math.Sqrt(2 / float64(fan))
	case strings.HasSuffix(name, ".act.weight"):
		scale, offset = 0.015, 0.98 // why so close to 1: see the script
	case strings.HasSuffix(name, ".norm.weight"):
		scale, offset = 0.2, 1
	}
	for i, x := range Noise64(name, len(v)) {
		v[i] = float32(offset + scale*x)
	}
	return v
}

// Golden reads the float32 tensors of a safetensors file.
func Golden(t *testing.T, path string) map[string][]float32 {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(raw)
	var header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	m := map[string][]float32{}
	for k, h := range header {
		data := raw[8+int(n):][h.Offsets[0]:h.Offsets[1]]
		v := make([]float32, len(data)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		m[k] = v
	}
	return m
}

// Compare checks a tensor against the digest of PyTorch's: norm, projections on random signs,
// elements, all relative to the size of the tensor. zero is the size below which a tensor that
// should be zero is only noise.
func Compare(t *testing.T, what, name string, got []float32, want []float32, tolerance, zero float64) {
	t.Helper()
	norm := 0.0
	for _, x := range got {
		norm += float64(x) * float64(x)
	}
	norm = math.Sqrt(norm)
	reference := math.Max(float64(want[0]), zero)
	worst, where := math.Abs(norm-float64(want[0]))/reference, "norm"
	for j := range 4 {
		p := 0.0
		for i, s := range Noise64(fmt.Sprintf("sign%d/%s", j, name), len(got)) {
			if s < 0 {
				p -= float64(got[i])
			} else {
				p += float64(got[i])
			}
		}
		if e := math.Abs(p-float64(want[1+j])) / reference; e > worst {
			worst, where = e, fmt.Sprint("projection ", j)
		}
	}
	samples, sum := want[5:], 0.0
	for k, a := range Noise64("at/"+name, len(samples)) {
		i := int(math.Abs(a)*float64(len(got))) % len(got)
		d := float64(got[i] - samples[k])
		sum += d * d
	}
	// The root mean square of the samples' errors, relative to that of the tensor.
	if e := math.Sqrt(sum/float64(len(samples))) / (reference / math.Sqrt(float64(len(got)))); e > worst {
		worst, where = e, "elements"
	}
	if !(worst <= tolerance) {
		t.Errorf("%s %s: relative error %.2g in its %s, at most %.0g is allowed", what, name, worst, where, tolerance)
	}
}

// build compiles the whole network; in training with cross-entropy + soft Dice.
func build(dev device.Device, p *nn.Params, mode nn.Mode, b backbone.Backbone, size [5]int) (*nn.Program,
	*backbone.Supervision, error) {
	g := nn.NewGraph(mode, device.Float32)
	logits := b.Decoder(g, b.Encoder(g, g.Input("x", size[:]...)))
	o := nn.Options{Outputs: map[string]*nn.Node{"logits": logits[0]}}
	var s *backbone.Supervision
	if mode == nn.Train {
		s = backbone.Supervise(g, logits, size[0], [3]int{size[4], size[3], size[2]}, nn.LossOptions{CE: 1, Dice: 1})
		o.Loss = s.Loss
	}
	program, err := nn.Compile(dev, g, p, o)
	return program, s, err
}

// begin makes a network's program of training ready to run forward, with the weights, the image and
// the labels that the scripts of testdata compute.
func begin(t *testing.T, dev device.Device, b backbone.Backbone, size [5]int) (*nn.Params, *nn.Program) {
	t.Helper()
	params := nn.NewParams(dev, 1)
	prog, losses, err := build(dev, params, nn.Train, b, size)
	if err != nil {
		t.Fatal(err)
	}
	x := Noise("x", device.Shape(size[:]).Elements())
	target := make([]float32, len(x)/size[1])
	for i, v := range Noise64("target", len(target)) {
		target[i] = float32(math.Floor((v + 1) / 2 * float64(b.Settings().Classes)))
	}
	for _, p := range params.Names() {
		if params.Trained(p) {
			err = errors.Join(err, params.Write(p, fill(p, params.Shape(p))))
		}
	}
	if err = errors.Join(err, prog.Set("x", x), losses.Set(prog, target)); err != nil {
		t.Fatal(err)
	}
	return params, prog
}

// Gradients are those of the first step, of every parameter but biases, which norms take away.
func Gradients(t *testing.T, dev device.Device, b backbone.Backbone, size [5]int) map[string][]float32 {
	t.Helper()
	params, prog := begin(t, dev, b, size)
	defer prog.Close()
	if err := errors.Join(prog.Forward(), prog.Backward()); err != nil {
		t.Fatal(err)
	}
	gradients := map[string][]float32{}
	for _, name := range params.Names() {
		if params.Trained(name) && !strings.HasSuffix(name, ".bias") {
			g, err := params.Grad(name)
			if err != nil {
				t.Fatal(err)
			}
			gradients[name] = slices.Clone(g)
		}
	}
	return gradients
}

// PyTorch compares logits, every gradient, the losses of five steps of SGD and the evaluation after
// them with PyTorch's, on the same weights: those of a file that a script of testdata has made. The
// gradients may differ by tolerance, relative to their size.
func PyTorch(t *testing.T, dev device.Device, b backbone.Backbone, path string, size [5]int, tolerance float64) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := Golden(t, path)
	params, prog := begin(t, dev, b, size)

	values, err := params.Values()
	check(err)
	velocity, err := dev.Alloc(params.Size())
	check(err)
	hyper, err := dev.Alloc(16)
	check(err)
	check(dev.UploadPlain(hyper, 0, []float32{1e-2, 0.9, 1e-3, 1}))

	logits, loss := make([]float32, prog.Shape("logits").Elements()), make([]float32, 1)
	for step, wantLoss := range want["losses"] {
		check(prog.Forward())
		check(prog.Read("loss", loss))
		// Five steps let single-precision rounding grow by about a hundred.
		if e := math.Abs(float64(loss[0]/wantLoss - 1)); e > 1e-5 {
			t.Errorf("step %d: loss %v, want %v", step, loss[0], wantLoss)
		}
		check(prog.Backward())
		if step == 0 {
			check(prog.Read("logits", logits))
			Compare(t, "forward", "logits", logits, want["logits"], 1e-4, 0)
			seen := 0
			for _, p := range params.Names() {
				if !params.Trained(p) {
					continue
				}
				g, err := params.Grad(p)
				check(err)
				if want["grad/"+p] == nil {
					t.Errorf("PyTorch's network has no parameter %s", p)
					continue
				}
				seen++
				// A bias that a norm takes away again has no gradient but rounding: it is held
				// against its weights' gradient.
				zero := 0.0
				if weight := want["grad/"+strings.TrimSuffix(p, ".bias")+".weight"]; strings.HasSuffix(p, ".bias") &&
					weight != nil {
					zero = 0.05 * float64(weight[0])
				}
				Compare(t, "gradient of", p, g, want["grad/"+p], tolerance, zero)
			}
			if n := len(want) - 3; seen != n {
				t.Errorf("%d parameters, PyTorch's network has %d", seen, n)
			}
		}
		if step < 5 {
			for _, name := range params.Names() {
				offset, n, trained := params.Range(name)
				if !trained {
					continue
				}
				gradient, err := params.Gradient(name)
				check(err)
				sgd, err := dev.SGD(int(n / 4))
				check(err)
				scratch, err := dev.Alloc(sgd.Scratch())
				check(err)
				sgd.Run([]device.Buffer{dev.View(values, offset, n), dev.View(velocity, offset, n)},
					[]device.Buffer{gradient, hyper}, scratch)
			}
		}
	}

	evaluation, _, err := build(dev, params, nn.Eval, b, size)
	check(err)
	check(evaluation.Set("x", Noise("x", device.Shape(size[:]).Elements())))
	check(evaluation.Forward())
	check(evaluation.Read("logits", logits))
	Compare(t, "evaluation", "eval", logits, want["eval"], 1e-3, 0)
}

// Parts checks that the encoder alone has the names, the shapes and the first values that it has
// within the whole network, that their names begin with [backbone.EncoderPrefix] and those of the
// decoder do not, and that crops of two multiples come out as logits of their size. dev only draws
// values.
func Parts(t *testing.T, dev device.Device, b backbone.Backbone) {
	t.Helper()
	var size [3]int // (D, H, W)
	for axis, m := range b.Multiple() {
		size[2-axis] = 2 * m
	}
	alone, whole := nn.NewParams(dev, 7), nn.NewParams(dev, 7)
	g := nn.NewGraph(nn.Train, device.Float32)
	b.Encoder(g, g.Input("x", 1, 1, size[0], size[1], size[2]))
	if err := alone.Declare(g); err != nil {
		t.Fatal(err)
	}
	g = nn.NewGraph(nn.Train, device.Float32)
	logits := b.Decoder(g, b.Encoder(g, g.Input("x", 2, 1, size[0], size[1], size[2])))
	if err := whole.Declare(g); err != nil {
		t.Fatal(err)
	}
	for level, y := range logits {
		if want := (device.Shape{2, b.Settings().Classes, size[0] >> level, size[1] >> level,
			size[2] >> level}); !y.Shape().Equal(want) {
			t.Errorf("logits %d of shape %v, want %v", level, y.Shape(), want)
		}
	}
	for _, name := range whole.Names() {
		if own := alone.Shape(name) != nil; own != strings.HasPrefix(name, backbone.EncoderPrefix) {
			t.Errorf("parameter %q belongs to the encoder: %v", name, own)
		}
	}
	for _, name := range alone.Names() {
		want, err := alone.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := whole.Read(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s starts at other values in the whole network (%v)", name, err)
		}
	}
}
