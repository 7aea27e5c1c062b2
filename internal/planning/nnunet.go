package planning

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// This file: the rules by which nnU-Net v2's ExperimentPlanner chooses a spacing, a patch and a
// network (Isensee et al. 2021, "nnU-Net: a self-configuring method", and its version 2.8), and
// its planners of residual encoders. Axes are those of nnU-Net's arrays, (k, j, i),
// until they are transposed.

// The numbers of nnU-Net's planner.
const (
	anisotropy  = 3.0             // spacings, and extents, that differ by more are treated apart
	smallestMap = 4               // voxels along an axis of the deepest stage
	mostWidth   = 320             // channels of a stage in three dimensions
	mostWidth2D = 512             // and in two
	baseWidth   = 32              // channels of the finest stage
	leastBatch  = 2               // crops in a step
	voxelsOfOld = 256 * 256 * 256 // of the patch that is made smaller until it fits
	pixelsOfOld = 2048 * 2048     // of one in two dimensions
	batch2D     = 12              // crops in two dimensions that fit into an encoder's memory
	coarser     = 1.03            // spacings of the low resolution are raised by this factor
	seenOfScan  = 0.25            // of a scan in a patch, below which there is a low resolution
)

// An Encoder is one of nnU-Net's kinds of network, with what its planner goes by.
type Encoder struct {
	PlansName string // as nnU-Net calls the plans
	Class     string
	Planner   string  // nnU-Net's class that makes them
	Gigabytes float64 // of a GPU's memory that it plans for by itself
	reference float64 // voxels of all feature maps of two crops that fit into these
	flat      float64 // the same of batch2D crops in two dimensions
	blocks    []int   // of the stages, the last one's for deeper stages
	decoder   int     // convolutions of a stage of the decoder
	residual  bool
	covered   float64 // most of the voxels of the set that a step sees
}

// The encoders that nnU-Net plans.
var (
	Plain = Encoder{
		PlansName: "nnUNetPlans",
		Class:     "dynamic_network_architectures.architectures.unet.PlainConvUNet",
		Planner:   "ExperimentPlanner",
		Gigabytes: 8,
		reference: 560e6,
		flat:      85e6,
		blocks:    []int{2},
		decoder:   2,
		covered:   0.05,
	}
	Residual   = residual("M", 8, 680e6, 135e6)
	ResidualL  = residual("L", 24, 2100e6, 380e6)
	ResidualXL = residual("XL", 40, 3600e6, 560e6)
)

// residual is a planner of residual encoders, of one of nnU-Net's sizes.
func residual(size string, gigabytes, reference, flat float64) Encoder {
	return Encoder{
		PlansName: "nnUNetResEncUNet" + size + "Plans",
		Class:     "dynamic_network_architectures.architectures.unet.ResidualEncoderUNet",
		Planner:   "nnUNetPlannerResEnc" + size,
		Gigabytes: gigabytes,
		reference: reference,
		flat:      flat,
		blocks:    []int{1, 3, 4, 6},
		decoder:   1,
		residual:  true,
		covered:   1,
	}
}

// Residual says whether the encoder is made of residual blocks.
func (e Encoder) Residual() bool { return e.residual }

// A Configuration is a network and what it is trained on, as nnU-Net plans it. Its axes are
// transposed: the first is the one of the largest spacing. In two dimensions that axis is left out
// of account: one voxel of a patch, infinite spacing, strides of 1.
type Configuration struct {
	Spacing  [3]float64 // mm
	Median   [3]float64 // shape of the scans at this spacing
	Patch    [3]int
	Batch    int
	Features []int
	Strides  [][3]int // of each stage, [1 1 1] first
	Kernels  [][3]int
	Blocks   []int
	Decoder  []int
}

// An NNUNet is what nnU-Net plans for a set.
type NNUNet struct {
	Encoder  Encoder
	Forward  [3]int     // axis a after the transposition is axis Forward[a] of (k, j, i)
	Spacing  [3]float64 // along (k, j, i)
	Full     Configuration
	Low      *Configuration // nil: a patch of the full resolution shows enough of a scan
	Flat     Configuration  // in two dimensions
	Separate bool           // thick slices: the spacing between them is the tenth percentile's
}

// NNUNetPlan plans as nnU-Net does for a network of so many outputs that takes so much memory of a
// GPU; 0: as much as the encoder's planner plans for by itself. Spacings and shapes are along the
// axes (i, j, k), the shapes of what is left of each scan without the zeros around it.
//
// said is how many scans the data set says it has (numTraining), by which nnU-Net reckons how many
// voxels there are; 0: as many as there are.
func NNUNetPlan(spacings [][3]float64, shapes [][3]int, said, outputs int, e Encoder, gigabytes float64) (*NNUNet,
	error) {
	if len(spacings) == 0 || len(spacings) != len(shapes) {
		return nil, fmt.Errorf("%d spacings and %d shapes: a plan needs at least one scan", len(spacings), len(shapes))
	}
	if gigabytes == 0 {
		gigabytes = e.Gigabytes
	}
	if !(gigabytes > 0) || outputs < 1 {
		return nil, errors.New("a plan needs a memory target above 0 and at least one output")
	}
	var at, size [3][]float64 // along (k, j, i), of all scans
	for n := range spacings {
		for a := range 3 {
			s, v := spacings[n][2-a], shapes[n][2-a]
			if !(s > 0) || math.IsInf(s, 1) || v < 1 {
				return nil, fmt.Errorf("a scan of %s voxels of %s mm", numbers.Extents(shapes[n][:]),
					numbers.Extents(spacings[n][:]))
			}
			at[a], size[a] = append(at[a], s), append(size[a], float64(v))
		}
	}
	p := &NNUNet{Encoder: e}
	p.Spacing, p.Separate = targetSpacing(at, size)
	p.Forward = transposition(p.Spacing)
	var median [3]float64
	for a := range 3 {
		var resampled []float64
		for n := range at[a] {
			resampled = append(resampled, math.RoundToEven(at[a][n]/p.Spacing[a]*size[a][n]))
		}
		median[a] = percentile(resampled, 50)
	}
	var spacing, shape [3]float64
	for a, from := range p.Forward {
		spacing[a], shape[a] = p.Spacing[from], median[from]
	}
	scans := float64(cmp.Or(said, len(spacings)))
	p.Full = e.configure(spacing, shape, product(shape)*scans, outputs, gigabytes)
	p.Flat = e.configure(flat(spacing), flat(shape), product(shape)*scans, outputs, gigabytes)
	p.Low = e.lowResolution(p.Full, spacing, shape, scans, outputs, gigabytes)
	return p, nil
}

// targetSpacing is the median along each axis; between thick slices, of which there are few, the
// tenth percentile, but nothing finer than in plane.
func targetSpacing(at, size [3][]float64) (target [3]float64, separate bool) {
	var extent [3]float64
	for a := range 3 {
		target[a], extent[a] = percentile(at[a], 50), percentile(size[a], 50)
	}
	worst := largest(target)
	coarsest, fewest := 0.0, math.Inf(1) // in plane
	for a := range 3 {
		if a != worst {
			coarsest, fewest = max(coarsest, target[a]), min(fewest, extent[a])
		}
	}
	if !(target[worst] > anisotropy*coarsest && extent[worst]*anisotropy < fewest) {
		return target, false
	}
	target[worst] = percentile(at[worst], 10)
	if target[worst] < coarsest {
		target[worst] = coarsest + 1e-5
	}
	return target, true
}

// transposition puts the axis of the largest spacing first.
func transposition(spacing [3]float64) (forward [3]int) {
	forward[0] = largest(spacing)
	n := 1
	for a := range 3 {
		if a != forward[0] {
			forward[n], n = a, n+1
		}
	}
	return forward
}

// flat leaves the first axis out of account: it is so long that nothing is done along it.
func flat(of [3]float64) [3]float64 { return [3]float64{math.Inf(1), of[1], of[2]} }

// configure takes the largest patch of the scan's proportions whose network fits.
func (e Encoder) configure(spacing, median [3]float64, voxels float64, outputs int, gigabytes float64) Configuration {
	inverse := [3]float64{1 / spacing[0], 1 / spacing[1], 1 / spacing[2]}
	scale := math.Pow(voxelsOfOld/product(inverse), 1.0/3)
	reference, crops, widest := e.reference, float64(leastBatch), mostWidth
	twoD := math.IsInf(spacing[0], 1)
	if twoD {
		scale = math.Sqrt(pixelsOfOld / (inverse[1] * inverse[2]))
		reference, crops, widest = e.flat, batch2D, mostWidth2D
	}
	reference *= gigabytes / e.Gigabytes
	first := [3]float64{1, 1, 1} // half a voxel is left of the median of two scans
	for a := range 3 {
		if a > 0 || !twoD {
			first[a] = min(math.RoundToEven(inverse[a]*scale), median[a])
		}
	}
	t := topologyOf(spacing, first)
	estimate := e.voxels(t, outputs, widest)
	// The planner of residual encoders compares a batch of twelve with what two take in two
	// dimensions, and so has smaller patches there.
	fit := crops / leastBatch
	if e.residual {
		fit = 1
	}
	for estimate > reference*fit {
		worst := 0 // the axis along which a patch shows most
		for a := range 3 {
			if float64(t.patch[a])/median[a] >= float64(t.patch[worst])/median[worst] {
				worst = a
			}
		}
		// A patch that is smaller by what the network halves may be halved less often, and then
		// sizes between the two are multiples, too.
		smaller := t.patch
		smaller[worst] -= t.divisor[worst]
		by := topologyOf(spacing, extents(smaller)).divisor[worst]
		smaller[worst] = t.patch[worst] - by
		if smaller[worst] < 1 {
			break // the smallest patch does not fit
		}
		t = topologyOf(spacing, extents(smaller))
		estimate = e.voxels(t, outputs, widest)
	}
	batch := int(math.RoundToEven(reference / estimate * crops))
	covering := int(math.RoundToEven(voxels * e.covered / product(extents(t.patch))))
	c := Configuration{
		Spacing: spacing,
		Median:  median,
		Patch:   t.patch,
		Batch:   max(min(batch, covering), leastBatch),
		Strides: t.strides,
		Kernels: t.kernels,
	}
	for stage := range t.strides {
		c.Features = append(c.Features, width(stage, widest))
		c.Blocks = append(c.Blocks, e.blocks[min(stage, len(e.blocks)-1)])
		if stage > 0 {
			c.Decoder = append(c.Decoder, e.decoder)
		}
	}
	return c
}

// lowResolution is a configuration of coarser voxels, for scans where a patch of the full
// resolution shows little; nil where it shows enough.
func (e Encoder) lowResolution(full Configuration, spacing, median [3]float64, scans float64, outputs int,
	gigabytes float64) *Configuration {
	at, shape, all := spacing, median, product(median)
	left, low := all, full
	for product(extents(low.Patch))/left < seenOfScan {
		most, apart := at[largest(at)], false
		for a := range 3 { // the finest axes first
			apart = apart || most/at[a] > 2
		}
		for a := range 3 {
			if !apart || most/at[a] > 2 {
				at[a] *= coarser
			}
		}
		left = 1
		for a := range 3 {
			n := spacing[a] / at[a] * median[a]
			left *= n
			shape[a] = math.RoundToEven(n)
		}
		low = e.configure(at, shape, left*scans, outputs, gigabytes)
	}
	if all/left < 2 {
		return nil
	}
	return &low
}

// width is the number of channels of a stage.
func width(stage, widest int) int { return min(baseWidth<<stage, widest) }

// A topology is what follows from the voxels of a patch and their spacing: how often each axis is
// halved, which kernels are flat, and what the patch must be a multiple of.
type topology struct {
	patch, divisor   [3]int
	strides, kernels [][3]int
}

// topologyOf halves, stage by stage, the axes whose voxels are not twice as long as the shortest,
// as long as some voxels are left. A kernel is flat along axes whose voxels are twice as long as
// the shortest when the stage begins.
func topologyOf(spacing, patch [3]float64) topology {
	t := topology{divisor: [3]int{1, 1, 1}, strides: [][3]int{{1, 1, 1}}}
	kernel, size := [3]int{1, 1, 1}, patch
	for {
		finest := math.Inf(1)
		for a := range 3 {
			if size[a] >= 2*smallestMap {
				finest = min(finest, spacing[a])
			}
		}
		var halved []int
		for a := range 3 {
			if size[a] >= 2*smallestMap && spacing[a]/finest < 2 {
				halved = append(halved, a)
			}
		}
		if len(halved) == 0 || len(halved) == 1 && size[halved[0]] < 3*smallestMap {
			break
		}
		shortest := min(spacing[0], spacing[1], spacing[2])
		for a := range 3 {
			if spacing[a]/shortest < 2 {
				kernel[a] = 3 // and stays so
			}
		}
		stride := [3]int{1, 1, 1}
		for _, a := range halved {
			stride[a], size[a], spacing[a], t.divisor[a] = 2, math.Ceil(size[a]/2), spacing[a]*2, t.divisor[a]*2
		}
		t.strides, t.kernels = append(t.strides, stride), append(t.kernels, kernel)
	}
	t.kernels = append(t.kernels, [3]int{3, 3, 3})
	for a := range 3 {
		t.patch[a] = int(math.Ceil(patch[a]/float64(t.divisor[a]))) * t.divisor[a]
	}
	return t
}

// voxels is how many the feature maps of a network have together, by which nnU-Net judges memory:
// those of convolutions, up-samplings and of the output.
func (e Encoder) voxels(t topology, outputs, widest int) (sum float64) {
	size := extents(t.patch)
	last := len(t.strides) - 1
	for stage, stride := range t.strides {
		before := product(size)
		for a := range 3 {
			size[a] = math.Floor(size[a] / float64(stride[a]))
		}
		here, channels := product(size), float64(width(stage, widest))
		blocks := float64(e.blocks[min(stage, len(e.blocks)-1)])
		switch {
		case !e.residual:
			sum += blocks * channels * here
		default:
			if stage == 0 {
				sum += channels * here // the stem
			}
			sum += 2 * blocks * channels * here
			if stage > 0 && before != here {
				sum += channels * here // the way around the first block
			}
		}
		if stage < last { // the stage of the decoder at this size
			sum += float64(e.decoder+1) * channels * here
		}
		if stage == 0 {
			sum += float64(outputs) * here
		}
	}
	return sum
}

// percentile is numpy's: between the two values that are nearest.
func percentile(values []float64, percent float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := percent / 100 * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}

// largest is the first axis of the largest value.
func largest(v [3]float64) (axis int) {
	for a := range v {
		if v[a] > v[axis] {
			axis = a
		}
	}
	return axis
}

func product(v [3]float64) float64 { return v[0] * v[1] * v[2] }

func extents(v [3]int) [3]float64 { return [3]float64{float64(v[0]), float64(v[1]), float64(v[2])} }
