package train

import (
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
)

// SumInBF16 sums as the gradients of a run with reduce: bf16 are summed.
func (g Group) SumInBF16(values []float32) error {
	g.bf16 = true
	return g.sumGradient(values)
}

// SendDuringBackward sums gradients, by parameter, as the kernels of a backward pass that computes
// them in an order of its own would have them summed. order lists the parameters in the order in
// which programs ask for their kernels.
func SendDuringBackward(params Params, g Group, order []string, computed []string,
	gradients map[string][]float32) (map[string][]float32, error) {
	o, err := newOverlap(params, g)
	if err != nil {
		return nil, err
	}
	defer o.close()
	kernels := map[string]device.Kernel{}
	for _, name := range order {
		_, bytes, _ := params.Range(name)
		kernels[name] = o.kernel(name, bytes)
	}
	sums := map[string][]float32{}
	for range 2 { // steps
		for _, name := range computed {
			_, bytes, _ := params.Range(name)
			gradient, err := params.Device().Alloc(bytes)
			if err != nil {
				return nil, err
			}
			copy(o.dev.Host(gradient), gradients[name])
			kernels[name].Run(nil, []device.Buffer{gradient}, nil)
			params.Device().Free(gradient)
		}
		if err := o.wait(); err != nil {
			return nil, err
		}
		for name, p := range o.gradients {
			sums[name] = slices.Clone(p.values[:len(gradients[name])])
		}
	}
	return sums, nil
}

// SpreadState gives all ranks the weights of rank 0.
func SpreadState(params Params, g Group) error { return spreadState(g, params, nil, nil) }

// SameWeights makes sure that all ranks have the same weights.
func SameWeights(params Params, g Group) error { return g.sameWeights(params, "here") }
