package segment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// This file: the augmentation that nnU-Net trains with by default, as get_training_transforms of
// its nnUNetTrainer (nnunetv2 2.8) and batchgeneratorsv2 0.3 have it. Each channel is varied by
// parameters of its own, but noise has the same standard deviation in all. What differs:
//
//   - crops are rotated in millimetres, about i first, where nnU-Net rotates in voxels, about k first;
//   - a label is that of the nearest voxel, where nnU-Net interpolates the share of each label and
//     takes the largest;
//   - what a crop shows beyond itself is read from the scan, and beyond the scan as the preparation
//     has it, where nnU-Net's ends a margin beyond the crop, and is 0 there;
//   - crops are mirrored before their intensities are varied, and along the axes of mirror alone;
//   - what lies outside the mask of use_mask_for_norm is varied as all else, where nnU-Net sets it
//     back to 0 at the end.

// PresetNNUNet is the word of [Augmentation].Preset.
const PresetNNUNet = "nnunet"

// NNUNetAugmentation is how often nnU-Net's transforms are applied, which have its strengths.
type NNUNetAugmentation struct {
	// share of crops that are rotated by up to 30 degrees about each axis; those more than three
	// times as long as they have slices along k, about k alone, by up to 180; those of one slice by
	// up to 15 where one side is more than 1.5 times the other
	Rotation float64 `yaml:"rotation" range:"[0,1]"`
	// share of crops that show 0.7 to 1.4 times their extent
	Scale float64 `yaml:"scale" range:"[0,1]"`
	// share of crops with noise, of a standard deviation of up to 0.1
	Noise float64 `yaml:"noise" range:"[0,1]"`
	// share of crops of which half of the channels are blurred, by 0.5 to 1 voxels
	Blur float64 `yaml:"blur" range:"[0,1]"`
	// share of crops whose intensities are multiplied by 0.75 to 1.25
	Brightness float64 `yaml:"brightness" range:"[0,1]"`
	// share of crops whose contrast is multiplied by 0.75 to 1.25, within their range
	Contrast float64 `yaml:"contrast" range:"[0,1]"`
	// share of crops of which half of the channels have lost detail: down to 0.5 to 1 of the voxels
	// along each axis, and up again
	LowResolution float64 `yaml:"low_resolution" range:"[0,1]"`
	// share of crops whose inverted intensities have a gamma of 0.7 to 1.5, and mean and standard
	// deviation as before
	InvertedGamma float64 `yaml:"inverted_gamma" range:"[0,1]"`
	// share of crops whose intensities have such a gamma
	Gamma float64 `yaml:"gamma" range:"[0,1]"`
}

// DefaultNNUNetAugmentation has nnU-Net's probabilities.
func DefaultNNUNetAugmentation() NNUNetAugmentation {
	return NNUNetAugmentation{Rotation: 0.2, Scale: 0.2, Noise: 0.1, Blur: 0.2, Brightness: 0.15, Contrast: 0.15,
		LowResolution: 0.25, InvertedGamma: 0.1, Gamma: 0.3}
}

func (a NNUNetAugmentation) check() error {
	for _, share := range []float64{a.Rotation, a.Scale, a.Noise, a.Blur, a.Brightness, a.Contrast, a.LowResolution,
		a.InvertedGamma, a.Gamma} {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("augment.nnunet: %v is no share from 0 to 1", share)
		}
	}
	return nil
}

// The strengths that nnU-Net draws from.
var (
	zooms, blurs, shrinks    = [2]float64{0.7, 1.4}, [2]float64{0.5, 1}, [2]float64{0.5, 1}
	noises                   = [2]float64{0, 0.1}
	gains, contrasts, gammas = [2]float64{0.75, 1.25}, [2]float64{0.75, 1.25}, [2]float64{0.7, 1.5}
)

// turning is by how many degrees nnU-Net turns crops at most, and whether they are flat, so that
// they are deformed in the plane of their slices alone. These lie along k, nnU-Net's first axis,
// whatever the lengths of the others; crops of one slice are as its two-dimensional networks'.
func turning(size [3]int) (degrees float64, flat bool) {
	long, short := max(size[0], size[1]), min(size[0], size[1])
	switch {
	case size[2] == 1 && 2*long > 3*short:
		return 15, true
	case size[2] == 1 || long > 3*size[2]:
		return 180, true
	}
	return 30, false
}

// warp draws a rotation and a scaling; nil where there is neither.
func (a NNUNetAugmentation) warp(spacing [3]float64, size [3]int, r *rand.Rand) *warp {
	rotated, scaled := r.Float64() < a.Rotation, r.Float64() < a.Scale
	if !rotated && !scaled {
		return nil
	}
	degrees, zoom := [3]float64{}, [3]float64{1, 1, 1}
	most, flat := turning(size)
	for axis := range degrees {
		if rotated && (axis == 2 || !flat) {
			degrees[axis] = plusMinus(r, most)
		}
	}
	if scaled {
		zoom = alongAll(between(r, zooms), flat)
	}
	return linearWarp(spacing, size, degrees, zoom)
}

// between draws from a range.
func between(r *rand.Rand, of [2]float64) float64 { return of[0] + (of[1]-of[0])*r.Float64() }

// alongAll is a factor for each axis, 1 along k for flat crops.
func alongAll(factor float64, flat bool) [3]float64 {
	if flat {
		return [3]float64{factor, factor, 1}
	}
	return [3]float64{factor, factor, factor}
}

// factor draws from a range, below 1 as often as above.
func factor(r *rand.Rand, of [2]float64) float64 {
	of[1-r.IntN(2)] = 1
	return between(r, of)
}

// intensities varies the channels of a crop, one after the other.
func (a NNUNetAugmentation) intensities(image []float32, size [3]int, r *rand.Rand) {
	vary := func(share, ofChannels float64, vary func(x []float32)) {
		if r.Float64() >= share {
			return
		}
		for x := range slices.Chunk(image, size[0]*size[1]*size[2]) {
			if r.Float64() < ofChannels {
				vary(x)
			}
		}
	}
	sigma := between(r, noises) // of all channels
	vary(a.Noise, 1, func(x []float32) {
		for i := range x {
			x[i] += float32(sigma * r.NormFloat64())
		}
	})
	vary(a.Blur, 0.5, func(x []float32) {
		for axis := range 3 {
			blur(x, size, axis, between(r, blurs))
		}
	})
	vary(a.Brightness, 1, func(x []float32) { brighten(x, factor(r, gains)) })
	vary(a.Contrast, 1, func(x []float32) { changeContrast(x, factor(r, contrasts)) })
	_, flat := turning(size)
	vary(a.LowResolution, 0.5, func(x []float32) {
		lowerResolution(x, size, alongAll(between(r, shrinks), flat))
	})
	vary(a.InvertedGamma, 1, func(x []float32) { changeGamma(x, factor(r, gammas), true) })
	vary(a.Gamma, 1, func(x []float32) { changeGamma(x, factor(r, gammas), false) })
}

// blur convolves along an axis with a Gaussian of a standard deviation in voxels, of about six
// times that many taps, the image reflected at its ends.
func blur(x []float32, size [3]int, axis int, sigma float64) {
	half := int((6*sigma + 0.5) / 2)
	kernel, sum := make([]float64, 2*half+1), 0.0
	for t := range kernel {
		kernel[t] = math.Exp(-0.5 * math.Pow(float64(t-half)/sigma, 2))
		sum += kernel[t]
	}
	n, inner := size[axis], innerOf(size, axis)
	around := make([]float32, (n+2*half)*inner)
	for block := range slices.Chunk(x, n*inner) {
		for p := range n + 2*half {
			copy(around[p*inner:(p+1)*inner], block[reflected(p-half, n)*inner:])
		}
		w := float32(kernel[half] / sum)
		for i := range block {
			block[i] *= w
		}
		for t := range half { // both sides of the kernel, which is symmetric
			w, a, b := float32(kernel[t]/sum), around[t*inner:][:len(block)], around[(2*half-t)*inner:][:len(block)]
			for i, v := range a {
				block[i] += w * (v + b[i])
			}
		}
	}
}

// innerOf is how many values lie between neighbours along an axis.
func innerOf(size [3]int, axis int) int {
	inner := 1
	for _, n := range size[:axis] {
		inner *= n
	}
	return inner
}

// reflected is the place of n that a place beside them shows in a mirror at the outermost ones.
func reflected(p, n int) int {
	if n == 1 {
		return 0
	}
	p = max(p, -p) % (2*n - 2)
	return min(p, 2*n-2-p)
}

func brighten(x []float32, factor float64) {
	for i := range x {
		x[i] *= float32(factor)
	}
}

// changeContrast multiplies the distance to the mean, and cuts off what leaves the range.
func changeContrast(x []float32, factor float64) {
	low, high, mean, _ := spread(x)
	for i, v := range x {
		x[i] = min(max(float32((float64(v)-mean)*factor+mean), low), high)
	}
}

// spread is the range, the mean and the standard deviation, the latter as of a sample.
func spread(x []float32) (low, high float32, mean, deviation float64) {
	low, high = x[0], x[0]
	for _, v := range x {
		if v < low {
			low = v
		} else if v > high {
			high = v
		}
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		deviation += (float64(v) - mean) * (float64(v) - mean)
	}
	return low, high, mean, math.Sqrt(deviation / float64(max(len(x)-1, 1)))
}

// changeGamma raises intensities to a power, within the range of the crop, and gives them their
// mean and standard deviation back; inverted ones are those with the other sign.
func changeGamma(x []float32, gamma float64, inverted bool) {
	if inverted {
		brighten(x, -1)
	}
	low, high, mean, deviation := spread(x)
	width := float64(high) - float64(low)
	for i, v := range x {
		if v > low {
			share := (float64(v) - float64(low)) / width
			x[i] = float32(math.Exp(gamma*math.Log(share))*width + float64(low))
		}
	}
	_, _, now, wide := spread(x) // which is 0 of a constant
	for i, v := range x {
		x[i] = float32((float64(v)-now)*(deviation/max(wide, 1e-7)) + mean)
	}
	if inverted {
		brighten(x, -1)
	}
}

// lowerResolution takes the nearest voxels of a grid with so many times the voxels along each axis,
// and interpolates them linearly.
func lowerResolution(x []float32, size [3]int, scale [3]float64) {
	var low [3]int
	var from [3][]int // voxels that are left
	for axis, n := range size {
		low[axis] = max(int(math.RoundToEven(float64(n)*scale[axis])), 1)
		for p := range low[axis] {
			// single precision, as PyTorch's interpolation nearest-exact has it
			at := (float32(p) + 0.5) * (float32(n) / float32(low[axis]))
			from[axis] = append(from[axis], min(int(at), n-1))
		}
	}
	small := make([]float32, 0, low[0]*low[1]*low[2])
	for _, k := range from[2] {
		for _, j := range from[1] {
			row := x[size[0]*(j+size[1]*k):]
			for _, i := range from[0] {
				small = append(small, row[i])
			}
		}
	}
	for axis := range 3 {
		small = stretched(small, innerOf(size, axis), low[axis], size[axis])
	}
	copy(x, small)
}

// stretched interpolates n values along an axis, between neighbours of which lie inner ones, to
// another number of them, and takes the outermost ones beyond these.
func stretched(x []float32, inner, n, to int) []float32 {
	if n == to {
		return x
	}
	out := make([]float32, len(x)/n*to)
	for block := range len(x) / (n * inner) {
		in, out := x[block*n*inner:][:n*inner], out[block*to*inner:][:to*inner]
		for p := range to {
			at := max((float64(p)+0.5)*float64(n)/float64(to)-0.5, 0)
			first := int(at)
			f, a, b := float32(at-float64(first)), in[first*inner:][:inner], in[min(first+1, n-1)*inner:][:inner]
			for i, v := range a {
				out[p*inner+i] = (1-f)*v + f*b[i]
			}
		}
	}
	return out
}
