package traintest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Keep is an optimiser that leaves all gradients where they are, for tests that look at them.
type Keep struct{ train.Optimizer }

// Updater implements [train.Optimizer]: parameters are not updated in the backward pass.
func (Keep) Updater() func(string, *device.ConvSpec) (device.Kernel, error) { return nil }

// Decides implements [train.Optimizer].
func (Keep) Decides() bool { return false }

// Slopes compares the gradients that a step has left with the slopes of the loss, by central
// differences: along the gradient of each tensor, and of all together. The loss must be smooth but
// for few kinks. Of each of the parts, prefixes of names, a
// tensor must have a gradient that counts.
func Slopes(t testing.TB, what string, params *nn.Params, loss func() float64, parts ...string) {
	t.Helper()
	s := slopes{t: t, params: params, loss: loss, gradients: map[string][]float32{}, values: map[string][]float32{}}
	before := loss()
	var all, checked []string
	for _, name := range params.Names() {
		if params.Trained(name) {
			s.read(name)
			all = append(all, name)
		}
	}
	if again := s.at(0); again != before {
		t.Errorf("%s: the loss is %v, and then %v", what, before, again)
	}
	total := s.squares(all...)
	for n := range len(all) + 1 {
		tensors := all
		if n < len(all) {
			tensors = all[n : n+1]
		}
		norm := s.squares(tensors...)
		if norm < 1e-3*total { // such as a bias before a norm: rounding outweighs its slope
			continue
		}
		checked = append(checked, tensors[0])
		// The loss changes by some 4e-5 of itself: of that, rounding of float32 is less than 1e-2,
		// and what the kinks of a ReLU add, which grows with the step, too.
		step := 2e-5 * before / norm
		slope := (s.at(step, tensors...) - s.at(-step, tensors...)) / (2 * step)
		if math.Abs(slope/norm-1) > 0.02 {
			t.Errorf("%s: along the gradient of %d tensors (%s ...) the slope is %v, want %v", what, len(tensors),
				tensors[0], slope, norm)
		}
	}
	for _, part := range parts {
		if !slices.ContainsFunc(checked, func(name string) bool { return strings.HasPrefix(name, part) }) {
			t.Errorf("%s: no tensor of %s has a gradient", what, part)
		}
	}
}

type slopes struct {
	t                 testing.TB
	params            *nn.Params
	loss              func() float64
	gradients, values map[string][]float32
}

// read keeps the gradient and the values of a tensor.
func (s slopes) read(name string) {
	var err error
	if s.gradients[name], err = s.params.Grad(name); err != nil {
		s.t.Fatal(err)
	}
	if s.values[name], err = s.params.Read(name); err != nil {
		s.t.Fatal(err)
	}
}

// at is the loss where the named tensors have moved along their gradients.
func (s slopes) at(step float64, tensors ...string) float64 {
	for _, name := range tensors {
		moved := slices.Clone(s.values[name])
		for i := range moved {
			moved[i] += float32(step * float64(s.gradients[name][i]))
		}
		s.write(name, moved)
	}
	loss := s.loss()
	for _, name := range tensors {
		s.write(name, s.values[name])
	}
	return loss
}

func (s slopes) write(name string, values []float32) {
	if err := s.params.Write(name, values); err != nil {
		s.t.Fatal(err)
	}
}

// squares is the squared norm of the gradient of some tensors.
func (s slopes) squares(tensors ...string) (sum float64) {
	for _, name := range tensors {
		for _, g := range s.gradients[name] {
			sum += float64(g) * float64(g)
		}
	}
	return sum
}
