package nnunet

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/half"
)

// What becomes of logits: they go back to the voxels of the scan's part, in float16, and decide
// there.

// decide gives the label of each voxel of a part of the scan, which had this shape before it was
// resampled.
func (p *Plan) decide(logits []array[half.Float], l *Labels, shape [3]int, spacing [3]float64) array[uint16] {
	labels := newArray[uint16](shape)
	back := func(x array[half.Float]) array[half.Float] {
		if x.shape == shape {
			return x
		}
		return toHalf(p.probabilities.resampled(fromHalf(x), shape, p.Spacing, spacing))
	}
	best := newArray[float32](shape)
	for head, x := range logits {
		label := l.Structures[head].Label
		for n, v := range back(x).values {
			value := v.Float32()
			switch {
			case l.Regions: // each has a probability; later ones are written over earlier ones
				if sigmoid(value) > 0.5 {
					labels.values[n] = label
				}
			case head == 0 || value > best.values[n]: // the first of equals
				best.values[n], labels.values[n] = value, label
			}
		}
	}
	return labels
}

// sigmoid is computed in float32, as PyTorch does.
func sigmoid(x float32) float32 { return 1 / (1 + float32(math.Exp(float64(-x)))) }
