package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
)

// SGD is stochastic gradient descent with momentum, as PyTorch has it:
//
//	g = clip(gradient) + decay p        v = momentum v + g        p = p - rate v
//
// where clip scales the gradient so that its norm over all parameters is at most Options.Clip.
//
// A step is [SGD.Begin], the forward and backward passes, [SGD.GradNorm], [SGD.Update]. Without
// clipping, nothing needs all gradients at once: then programs that were compiled with
// [SGD.Updater] take a parameter's step within their backward pass, and its gradient is gone before
// the next one's is there. The bits are the same.
type SGD struct {
	options  Options
	dev      device.Device
	params   Params
	velocity device.Buffer
	rates    []*rate
	spans    []*span // one a parameter
	squares  device.Buffer
	sums     []float32 // the same on the host
	scratch  device.Buffer
}

// A rate is the hyperparameters of a group of parameters.
type rate struct {
	factor func(step int) float64
	hyper  device.Buffer // learning rate, momentum, decay, factor of the gradient
}

// A span is one parameter.
type span struct {
	name             string
	rate             *rate
	inBackward       bool // a program takes its step
	sgd, sum         device.Kernel
	values, velocity device.Buffer
	square           device.Buffer // sum of the squares of its gradient: one element
}

// NewSGD prepares the optimiser: its velocity is zero.
func NewSGD(params Params, o Options, groups []Group) (*SGD, error) {
	s := &SGD{options: o, dev: params.Device(), params: params}
	if err := s.prepare(groups); err != nil {
		return nil, fmt.Errorf("optimiser: %w", err)
	}
	if len(s.spans) == 0 {
		return nil, errors.New("the model has no parameters")
	}
	return s, nil
}

// prepare takes memory and makes the kernels.
func (s *SGD) prepare(groups []Group) error {
	values, err := s.params.Values()
	if err != nil {
		return err
	}
	if s.velocity, err = s.dev.Alloc(values.Bytes()); err != nil {
		return err
	}
	// every name starts with ""
	groups = append(slices.Clone(groups), Group{Factor: func(int) float64 { return 1 }})
	for _, g := range groups {
		r := &rate{factor: g.Factor}
		if r.hyper, err = s.dev.Alloc(16); err != nil {
			return err
		}
		s.rates = append(s.rates, r)
	}
	scratch := int64(0)
	for _, name := range s.params.Names() {
		offset, n, ok := s.params.Range(name)
		if !ok || n == 0 {
			continue
		}
		group := slices.IndexFunc(groups, func(g Group) bool { return strings.HasPrefix(name, g.Prefix) })
		p := &span{name: name, rate: s.rates[group], values: s.dev.View(values, offset, n), velocity: s.dev.View(s.velocity, offset, n)}
		if p.sgd, err = s.dev.SGD(int(n / 4)); err != nil {
			return err
		}
		if p.sum, err = s.dev.SumSquares(int(n / 4)); err != nil {
			return err
		}
		scratch = max(scratch, p.sgd.Scratch(), p.sum.Scratch())
		s.spans = append(s.spans, p)
	}
	apart := s.dev.Alignment()
	if s.squares, err = s.dev.Alloc(apart * int64(len(s.spans))); err != nil {
		return err
	}
	s.sums = make([]float32, s.squares.Bytes()/4)
	for i, p := range s.spans {
		p.square = s.dev.View(s.squares, apart*int64(i), 4)
	}
	s.scratch, err = s.dev.Alloc(scratch)
	return err
}

// Updater makes the kernels that take a parameter's step as soon as its gradient is there, or
// compute that of a convolution's weights, too: for nn.Options.Update. It is nil where gradients
// are clipped.
func (s *SGD) Updater() func(name string, conv *device.ConvSpec) (device.Kernel, error) {
	if s.options.Clip > 0 {
		return nil
	}
	return func(name string, conv *device.ConvSpec) (device.Kernel, error) {
		i := slices.IndexFunc(s.spans, func(p *span) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is no parameter of the optimiser", name)
		}
		p := s.spans[i]
		p.inBackward = true
		if conv == nil {
			return newStep(p), nil
		}
		stepper, ok := s.dev.(device.WeightStepper)
		if !ok {
			return nil, nil
		}
		k, err := stepper.ConvGradWeightsSGD(*conv)
		return &convStep{k, p, []device.Buffer{p.values, p.velocity, p.square}, []device.Buffer{nil, nil, p.rate.hyper}}, err
	}
}

// step is the kernel that takes a parameter's step: value <- gradient.
type step struct {
	*span
	square, state []device.Buffer // operands that are written
	gradient      []device.Buffer // and the hyperparameters
}

func newStep(p *span) *step {
	return &step{span: p, square: []device.Buffer{p.square}, state: []device.Buffer{p.values, p.velocity}, gradient: []device.Buffer{nil, p.rate.hyper}}
}

// Scratch implements [device.Kernel].
func (s *step) Scratch() int64 { return max(s.sum.Scratch(), s.sgd.Scratch()) }

// Run implements [device.Kernel].
func (s *step) Run(_, in []device.Buffer, scratch device.Buffer) {
	s.gradient[0] = in[0]
	s.sum.Run(s.square, s.gradient[:1], scratch)
	s.sgd.Run(s.state, s.gradient, scratch)
}

// MovesMore implements exec.Mover: the values are not only written but read, too, and so is the
// velocity, which is nobody's operand.
func (p *span) MovesMore() int64 { return 3 * p.values.Bytes() }

// convStep is the kernel that computes the gradient of a convolution's weights and takes their
// step: value <- x, dy.
type convStep struct {
	device.Kernel
	*span
	out, in []device.Buffer
}

// Run implements [device.Kernel].
func (s *convStep) Run(_, in []device.Buffer, scratch device.Buffer) {
	copy(s.in, in)
	s.Kernel.Run(s.out, s.in, scratch)
}

// Begin sets the learning rates of a step, counted from 0: before its backward pass.
func (s *SGD) Begin(step int) error { return s.set(step, 1) }

// set sets the hyperparameters, given the factor that clips the gradient.
func (s *SGD) set(step int, clip float64) error {
	o := s.options
	for _, r := range s.rates {
		factor := r.factor(step)
		hyper := []float32{float32(o.Rate(step) * factor), float32(o.Momentum), float32(o.WeightDecay), float32(clip)}
		if factor == 0 {
			hyper = []float32{0, 1, 0, 0} // frozen: nothing changes, the velocity neither
		}
		if err := s.dev.UploadPlain(r.hyper, 0, hyper); err != nil {
			return err
		}
	}
	return nil
}

// GradNorm is the Euclidean norm of the gradient of all parameters together, after the backward
// pass.
func (s *SGD) GradNorm() (float64, error) {
	for _, p := range s.spans {
		if p.inBackward {
			continue
		}
		g, err := s.params.Gradient(p.name)
		if err != nil {
			return 0, err
		}
		p.sum.Run([]device.Buffer{p.square}, []device.Buffer{g}, s.scratch)
	}
	if err := s.dev.DownloadPlain(s.sums, s.squares, 0); err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range s.spans {
		sum += float64(s.sums[int(s.dev.Alignment()/4)*i])
	}
	return math.Sqrt(sum), nil
}

// Update takes the step of all parameters whose step was not taken in the backward pass. The step
// is counted from 0; the norm of the gradient is what clipping looks at.
func (s *SGD) Update(step int, norm float64) error {
	clip := 1.0
	if c := s.options.Clip; c > 0 {
		clip = min(1, c/(norm+1e-6)) // PyTorch's clip_grad_norm_
	}
	if err := s.set(step, clip); err != nil {
		return err
	}
	for _, p := range s.spans {
		if p.inBackward {
			continue
		}
		g, err := s.params.Gradient(p.name)
		if err != nil {
			return err
		}
		p.sgd.Run([]device.Buffer{p.values, p.velocity}, []device.Buffer{g, p.rate.hyper}, s.scratch)
	}
	return nil
}
