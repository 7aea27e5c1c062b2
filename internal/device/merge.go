package device

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotYet is wrapped by the error of a device that lacks what is asked for.
var ErrNotYet = errors.New("not on this device yet")

// MergeKernels are what a loss over images in which not every class was drawn needs:
// [MergeKernelsOf] asks a device for them.
type MergeKernels interface {
	// MergeClasses is y <- logits (N, C, D, H, W), merged (N, C): see [MergeClasses].
	MergeClasses(Tensor) (Kernel, error)
	// MergeClassesGrad is dlogits <- logits, merged, dy.
	MergeClassesGrad(Tensor) (Kernel, error)
}

// MergeKernelsOf is a device's kernels for images in which not every class was drawn.
func MergeKernelsOf(d Device) (MergeKernels, error) {
	if k, ok := d.(MergeKernels); ok {
		return k, nil
	}
	return nil, fmt.Errorf("learning from cases in which some structures are undrawn, without taking them for "+
		"background, is %w (%s): use the CPU, or undrawn: background", ErrNotYet, d.Name())
}

// MergedAway is the logit of a class that was merged into the background. Its exponential beside
// that of any other logit is 0.
const MergedAway = -10000

// MergeClasses makes the logits of one voxel of fewer classes: where merged is not 0, a class is
// one with class 0, whose probability becomes the sum of theirs,
//
//	y[0] = log sum exp(x[c]) over c = 0 and the merged classes
//	y[c] = MergedAway of a merged class, x[c] of another
//
// so that cross-entropy and soft Dice of y are the marginal losses of x (Shi et al. 2021,
// "Marginal loss and exclusion loss for partially supervised multi-organ segmentation", equation 3;
// Fang and Yan 2020). merged[0] does not count. y may be x.
func MergeClasses[T float32 | float64](y, x, merged []T) {
	top, sum := background(x, merged)
	for c := 1; c < len(x); c++ {
		if y[c] = x[c]; merged[c] != 0 {
			y[c] = MergedAway
		}
	}
	y[0] = T(top + math.Log(sum))
}

// MergeClassesGrad is the gradient of [MergeClasses] by x, given that by y. dx may be dy.
func MergeClassesGrad[T float32 | float64](dx, x, merged, dy []T) {
	top, sum := background(x, merged)
	whole := float64(dy[0])
	for c := range x {
		if dx[c] = dy[c]; c == 0 || merged[c] != 0 {
			dx[c] = T(whole * math.Exp(float64(x[c])-top) / sum)
		}
	}
}

// background is the greatest logit of class 0 and of those merged into it, and the sum of the
// exponentials of what each of these is above it.
func background[T float32 | float64](x, merged []T) (top, sum float64) {
	top = float64(x[0])
	for c := 1; c < len(x); c++ {
		if merged[c] != 0 {
			top = max(top, float64(x[c]))
		}
	}
	for c := range x {
		if c == 0 || merged[c] != 0 {
			sum += math.Exp(float64(x[c]) - top)
		}
	}
	return top, sum
}
