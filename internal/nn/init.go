package nn

import (
	"math"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Constant sets every element to v.
func Constant(v float32) Init {
	return func(_ *rand.Rand, _ device.Shape, dst []float32) {
		for i := range dst {
			dst[i] = v
		}
	}
}

// Uniform draws from [-bound, bound).
func Uniform(bound float64) Init {
	return func(r *rand.Rand, _ device.Shape, dst []float32) {
		for i := range dst {
			dst[i] = float32(bound * (2*r.Float64() - 1))
		}
	}
}

// Gaussian draws from a normal distribution around 0.
func Gaussian(deviation float64) Init {
	return func(r *rand.Rand, _ device.Shape, dst []float32) {
		for i := range dst {
			dst[i] = float32(deviation * r.NormFloat64())
		}
	}
}

// KaimingNormalFanOut is He et al. 2015 for layers before a ReLU, by the number of outputs that one
// input reaches: normal with deviation sqrt(2/(out kernel)). It is torchvision's for the
// convolutions of ResNets.
func KaimingNormalFanOut() Init {
	return func(r *rand.Rand, s device.Shape, dst []float32) {
		Gaussian(math.Sqrt(2/float64(s[0]*s[2:].Elements())))(r, s, dst)
	}
}

// fanIn is the number of products that are summed into one output of weights (out, in, kernel...),
// the way PyTorch counts it (for an up-convolution, whose weights are (in, out, kernel...), that is
// the number of outputs that one input reaches).
func fanIn(s device.Shape) float64 {
	if len(s) < 2 {
		return float64(s.Elements())
	}
	return float64(s.Elements() / s[0])
}

// KaimingUniform is PyTorch's default for convolutions and linear maps (He et al. 2015 with a slope
// of sqrt 5): uniform with bound 1/sqrt(fan in).
func KaimingUniform() Init {
	return func(r *rand.Rand, s device.Shape, dst []float32) { Uniform(1/math.Sqrt(fanIn(s)))(r, s, dst) }
}

// KaimingNormal is He et al. 2015 for a leaky ReLU of the given slope: normal with a standard
// deviation of sqrt(2 / (1 + slope^2) / fan in), PyTorch's kaiming_normal_.
func KaimingNormal(slope float64) Init {
	return func(r *rand.Rand, s device.Shape, dst []float32) {
		deviation := math.Sqrt(2 / (1 + slope*slope) / fanIn(s))
		for i := range dst {
			dst[i] = float32(deviation * r.NormFloat64())
		}
	}
}
