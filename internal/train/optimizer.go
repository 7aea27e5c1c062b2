package train

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
)

// SGD is stochastic gradient descent with momentum over flat buffers, as PyTorch has it:
//
//	g = clip(gradient) + decay p        v = momentum v + g        p = p - rate v
//
// where clip scales the gradient so that its norm over all parameters is at most Options.Clip.
type SGD struct {
	options  Options
	dev      device.Device
	grads    device.Buffer
	velocity device.Buffer
	squares  device.Kernel
	sum      device.Buffer
	scratch  device.Buffer
	spans    []span
}

// A span is a stretch of the flat buffers with one learning rate.
type span struct {
	offset, n               int
	group                   int // in the list of groups; -1: none
	factor                  func(step int) float64
	kernel                  device.Kernel
	hyper                   device.Buffer
	values, velocity, grads device.Buffer
}

// NewSGD prepares the optimiser: its velocity is zero.
func NewSGD(params Params, o Options, groups []Group) (*SGD, error) {
	s := &SGD{options: o, dev: params.Device(), spans: spans(params, groups)}
	if len(s.spans) == 0 {
		return nil, errors.New("the model has no parameters")
	}
	if err := s.prepare(params); err != nil {
		return nil, fmt.Errorf("optimiser: %w", err)
	}
	return s, nil
}

// prepare takes memory and makes the kernels.
func (s *SGD) prepare(params Params) error {
	values, err := params.Values()
	if err != nil {
		return err
	}
	if s.grads, err = params.Grads(); err != nil {
		return err
	}
	if s.velocity, err = s.dev.Alloc(values.Len()); err != nil {
		return err
	}
	if s.sum, err = s.dev.Alloc(1); err != nil {
		return err
	}
	if s.squares, err = s.dev.SumSquares(s.grads.Len()); err != nil {
		return err
	}
	scratch := s.squares.Scratch()
	for i := range s.spans {
		p := &s.spans[i]
		if p.kernel, err = s.dev.SGD(p.n); err != nil {
			return err
		}
		if p.hyper, err = s.dev.Alloc(4); err != nil {
			return err
		}
		p.values, p.velocity, p.grads = s.dev.View(values, p.offset, p.n), s.dev.View(s.velocity, p.offset, p.n), s.dev.View(s.grads, p.offset, p.n)
		scratch = max(scratch, p.kernel.Scratch())
	}
	s.scratch, err = s.dev.Alloc(scratch)
	return err
}

// spans joins parameters that lie side by side and belong to the same group.
func spans(params Params, groups []Group) []span {
	var out []span
	for _, name := range params.Names() {
		offset, n, ok := params.Range(name)
		if !ok || n == 0 {
			continue
		}
		next := span{offset: offset, n: n, group: -1, factor: func(int) float64 { return 1 }}
		for i, g := range groups {
			if strings.HasPrefix(name, g.Prefix) {
				next.group, next.factor = i, g.Factor
				break
			}
		}
		if k := len(out) - 1; k >= 0 && out[k].group == next.group && out[k].offset < offset {
			out[k].n = offset + n - out[k].offset // a gap between the two is padding, which is zero and stays zero
			continue
		}
		out = append(out, next)
	}
	return out
}

// GradNorm is the Euclidean norm of the gradient of all parameters together.
func (s *SGD) GradNorm() (float64, error) {
	s.squares.Run([]device.Buffer{s.sum}, []device.Buffer{s.grads}, s.scratch)
	var sum [1]float32
	if err := s.dev.DownloadPlain(sum[:], s.sum, 0); err != nil {
		return 0, err
	}
	return math.Sqrt(float64(sum[0])), nil
}

// Update changes the parameters by one step, counted from 0, given the norm of the gradient, which only clipping looks at.
func (s *SGD) Update(step int, norm float64) error {
	o := s.options
	clip := 1.0
	if o.Clip > 0 {
		clip = min(1, o.Clip/(norm+1e-6)) // PyTorch's clip_grad_norm_
	}
	for _, p := range s.spans {
		factor := p.factor(step)
		if factor == 0 {
			continue
		}
		hyper := []float32{float32(o.Rate(step) * factor), float32(o.Momentum), float32(o.WeightDecay), float32(clip)}
		if err := s.dev.UploadPlain(p.hyper, 0, hyper); err != nil {
			return err
		}
		p.kernel.Run([]device.Buffer{p.values, p.velocity}, []device.Buffer{p.grads, p.hyper}, s.scratch)
	}
	return nil
}
