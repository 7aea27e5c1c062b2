package nn

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// A loss is a quotient of sums over a batch: cross-entropy divides by the voxels that count, soft
// Dice by the sizes of the classes. Where a batch is divided over several ranks, the mean of the
// ranks' losses is not the batch's loss, and the mean of their gradients is not its gradient. So
// the sums are added up over the ranks between Forward and Backward; then the gradients of the
// ranks add up to that of the whole batch.

// lossPort is a loss of a program that is being compiled.
type lossPort struct {
	spec       device.LossSpec
	parts      int
	statistics exec.Value
}

// lossStatistics is where a program keeps the sums of a loss: see [device.LossSpec].
type lossStatistics struct {
	spec   device.LossSpec
	parts  int // see [LossOptions]
	buffer device.Buffer
}

// Reduce adds up over all ranks what the losses of the program are computed from: sum replaces
// values by their sums over the ranks. It is called after Forward; Backward then leaves each rank's
// part of the gradient of the whole batch. The losses of the whole batch are returned, in the order
// in which the graph computes them.
func (p *Program) Reduce(sum func(values []float32) error) (losses []float64, err error) {
	if p.alone != nil {
		return nil, p.alone
	}
	for _, l := range p.losses {
		values := make([]float32, l.spec.Stats())
		if err := p.dev.DownloadPlain(values, l.buffer, 0); err != nil {
			return nil, err
		}
		if err := l.reduce(values, sum); err != nil {
			return nil, err
		}
		if err := p.dev.UploadPlain(l.buffer, 0, values); err != nil {
			return nil, err
		}
		dice := float64(l.spec.Dice) * float64(max(l.parts, 1))
		losses = append(losses, float64(l.spec.CE)*float64(values[0])+dice*float64(values[1]))
	}
	return losses, nil
}

// reduce replaces the statistics of one rank by those of all.
func (l lossStatistics) reduce(values []float32, sum func(values []float32) error) error {
	if l.spec.PerImage {
		return reduceImages(l.parts, values, sum)
	}
	return reduceLoss(l.spec, values, sum)
}

// reduceImages is for the Dice loss of each image, whose sums are nobody else's: what is shared is
// the cross-entropy, and the mean of the losses of all images. Parts have as many images each.
// While the sums of micro-batches are being added up, sum gives those of fewer parts.
func reduceImages(parts int, values []float32, sum func(values []float32) error) error {
	all := []float32{values[0] * values[2], values[2], values[1], 1}
	if err := sum(all); err != nil {
		return err
	}
	if int(all[3]) > max(parts, 1) {
		return fmt.Errorf("a Dice loss of each image was built for a batch in %d parts, and there are %v",
			max(parts, 1), all[3])
	}
	values[0], values[1], values[2] = all[0]/max(all[1], 1), all[2]/all[3], all[1]
	return nil
}

// reduceLoss does so for sums over the batch. What other ranks add to a class is booked under the
// first image.
func reduceLoss(s device.LossSpec, values []float32, sum func(values []float32) error) error {
	images, classes := s.Shape[0], s.Shape[1]
	at := func(n, c int) []float32 { return values[3+3*(n*classes+c):][:3] }
	own := make([]float32, 2+3*classes) // cross-entropy times count, count, sums of each class
	own[0], own[1] = values[0]*values[2], values[2]
	for c := range classes {
		for n := range images {
			for k, x := range at(n, c) {
				own[2+3*c+k] += x
			}
		}
	}
	all := append([]float32{}, own...)
	if err := sum(all); err != nil {
		return err
	}
	values[0], values[2] = all[0]/max(all[1], 1), all[1]
	for c := range classes {
		for k := range 3 {
			at(0, c)[k] += all[2+3*c+k] - own[2+3*c+k]
		}
	}
	values[1] = float32(diceLoss(s, all[2:]))
	return nil
}

// diceLoss is the soft Dice loss given intersection, sum p and sum t of each class.
func diceLoss(s device.LossSpec, sums []float32) float64 {
	first, n := 0, s.DiceClasses()
	if n == 0 {
		return 0
	}
	if !s.Background {
		first = 1
	}
	total := 0.0
	for c := first; c < s.Shape[1]; c++ {
		i, p, t := float64(sums[3*c]), float64(sums[3*c+1]), float64(sums[3*c+2])
		total += (2*i + float64(s.Smooth)) / (p + t + float64(s.Smooth))
	}
	return 1 - total/float64(n)
}
