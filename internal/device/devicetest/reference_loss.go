package devicetest

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// dice is the soft Dice loss of the stats' (intersection, sum p, sum t), and its derivative by
// intersection and by sum p for each class of each image.
func dice(s device.LossSpec, sums values) (loss float64, byIntersection, byP values) {
	images, classes := s.Shape[0], s.Shape[1]
	byIntersection, byP = make(values, images*classes), make(values, images*classes)
	first := classes - s.DiceClasses()
	units := 1 // what the loss is averaged over: images or the whole batch
	if s.PerImage {
		units = images
	}
	for unit := range units {
		members := images / units
		for c := first; c < classes; c++ {
			var intersection, p, t float64
			for n := unit * members; n < (unit+1)*members; n++ {
				at := sums[3*(n*classes+c):]
				intersection, p, t = intersection+at[0], p+at[1], t+at[2]
			}
			weight := 1 / float64(s.DiceClasses()*units)
			numerator, denominator := 2*intersection+float64(s.Smooth), p+t+float64(s.Smooth)
			if denominator == 0 {
				continue // neither predicted nor there: nothing lost
			}
			loss += weight * (1 - numerator/denominator)
			for n := unit * members; n < (unit+1)*members; n++ {
				byIntersection[n*classes+c] = -weight * 2 / denominator
				byP[n*classes+c] = weight * numerator / (denominator * denominator)
			}
		}
	}
	return loss, byIntersection, byP
}

// logSum is the logarithm of the sum of the exponentials of the logits of a voxel.
func logSum(x values, s device.Shape, n, v int) float64 {
	top, sum := math.Inf(-1), 0.0
	for c := range s[1] {
		top = max(top, x[(n*s[1]+c)*s.Voxels()+v])
	}
	for c := range s[1] {
		sum += math.Exp(x[(n*s[1]+c)*s.Voxels()+v] - top)
	}
	return top + math.Log(sum)
}

// classOf is the class that a target names: negative where its voxel does not count, classes where
// there is no such class, as for NaN.
func classOf(target float64, classes int) int {
	switch {
	case target < 0:
		return -1
	case target < float64(classes):
		return int(target)
	}
	return classes
}

func (reference) Loss(s device.LossSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		loss, stats := out[0], out[1]
		clear(stats)
		for n := range s.Shape[0] {
			for v := range s.Shape.Voxels() {
				t := classOf(in[1][n*s.Shape.Voxels()+v], s.Shape[1])
				if t < 0 {
					continue
				}
				if t >= s.Shape[1] {
					stats[0] = math.NaN() // no such class
					continue
				}
				p := softmax(in[0], s.Shape, n, v)
				stats[0] += logSum(in[0], s.Shape, n, v) - in[0][(n*s.Shape[1]+t)*s.Shape.Voxels()+v]
				stats[2]++
				for c := range p {
					sums := stats[3+3*(n*s.Shape[1]+c):]
					sums[1] += p[c]
					if c == t {
						sums[0] += p[c]
						sums[2]++
					}
				}
			}
		}
		stats[0] /= max(1, stats[2])
		stats[1], _, _ = dice(s, stats[3:])
		loss[0] = 0 // a term without weight must not make NaN of the other
		if s.CE != 0 {
			loss[0] += float64(s.CE) * stats[0]
		}
		if s.Dice != 0 {
			loss[0] += float64(s.Dice) * stats[1]
		}
	}), s.Check()
}

func (reference) LossGrad(s device.LossSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		target, stats, dloss := in[1], in[2], in[3][0]
		clear(out[0])
		clear(out[1])
		_, byIntersection, byP := dice(s, stats[3:])
		dp := make(values, s.Shape[1])
		for n := range s.Shape[0] {
			for v := range s.Shape.Voxels() {
				t := classOf(target[n*s.Shape.Voxels()+v], s.Shape[1])
				if t < 0 {
					continue
				}
				p := softmax(in[0], s.Shape, n, v)
				for c := range dp {
					dp[c] = byP[n*s.Shape[1]+c]
					if c == t {
						dp[c] += byIntersection[n*s.Shape[1]+c]
					}
				}
				for c, dx := range softmaxGrad(p, dp) {
					dx *= float64(s.Dice)
					dx += float64(s.CE) * p[c] / stats[2]
					if c == t {
						dx -= float64(s.CE) / stats[2]
					}
					out[0][(n*s.Shape[1]+c)*s.Shape.Voxels()+v] = dloss * dx
					out[1][c] += dloss * dx
				}
			}
		}
	}), s.Check()
}
