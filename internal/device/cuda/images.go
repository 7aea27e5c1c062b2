//go:build gpu

package cuda

import (
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// lrnNumbers is images.cu's Lrn.
type lrnNumbers struct {
	Channels, Before, After int32
	Share, K, Beta          float32
	Low, High               uint32
}

func lrnOf(s device.LRNSpec) (lrnNumbers, grid) {
	n := s.Shape.Elements()
	return lrnNumbers{int32(s.Shape[1]), int32(s.Size / 2), int32((s.Size - 1) / 2), s.Alpha / float32(s.Size), s.K,
		s.Beta, uint32(n), uint32(uint64(n) >> 32)}, grid{blocksOf(n, 256), 1, 1}
}

// LRN implements [device.ImageKernels].
func (d *Device) LRN(s device.LRNSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	numbers, blocks := lrnOf(s)
	k.launch("lrn"+suffix(s.Type), blocks, 256, 0, numbers, out(0), in(0))
	return k.done()
}

// LRNGrad implements [device.ImageKernels].
func (d *Device) LRNGrad(s device.LRNSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	numbers, blocks := lrnOf(s)
	parts := k.scratch(4 * int64(s.Shape.Elements()))
	k.launch("lrnParts"+suffix(s.Type), blocks, 256, 0, numbers, parts, in(0), in(1))
	k.launch("lrnGrad"+suffix(s.Type), blocks, 256, 0, numbers, out(0), in(0), in(1), parts)
	return k.done()
}

// regionNumbers is images.cu's Regions.
type regionNumbers struct {
	Images, Channels, Height, Width int32
	Regions, BinsY, BinsX           int32
	Scale                           float32
}

// roi makes a kernel that first looks for the largest element of each bin.
func (d *Device) roi(s device.RoISpec, after func(k *kernel, numbers regionNumbers, where operand)) (device.Kernel,
	error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	n := s.OutShape().Elements()
	if max(n, s.Shape.Elements()) > math.MaxInt32 {
		return nil, fmt.Errorf("pooling %d regions of shape %v: cuda numbers elements up to 2^31", s.Regions,
			[]int(s.Shape))
	}
	numbers := regionNumbers{int32(s.Shape[0]), int32(s.Shape[1]), int32(s.Shape[3]), int32(s.Shape[4]),
		int32(s.Regions), int32(s.OutSize[0]), int32(s.OutSize[1]), s.Scale}
	k := d.newKernel()
	where := k.scratch(4 * int64(n))
	k.launch("roiLargest"+suffix(s.Type), grid{blocksOf(n, 256), 1, 1}, 256, 0, numbers, where, in(0), in(1))
	after(k, numbers, where)
	return k.done()
}

// RoIPool implements [device.ImageKernels].
func (d *Device) RoIPool(s device.RoISpec) (device.Kernel, error) {
	return d.roi(s, func(k *kernel, numbers regionNumbers, where operand) {
		k.launch("roiTake"+suffix(s.Type), grid{blocksOf(s.OutShape().Elements(), 256), 1, 1}, 256, 0, numbers, out(0),
			in(0), where)
	})
}

// RoIPoolGrad implements [device.ImageKernels].
func (d *Device) RoIPoolGrad(s device.RoISpec) (device.Kernel, error) {
	return d.roi(s, func(k *kernel, numbers regionNumbers, where operand) {
		k.launch("roiGrad"+suffix(s.Type), grid{blocksOf(s.Shape.Elements(), 256), 1, 1}, 256, 0, numbers, out(0),
			in(1), where, in(2))
	})
}

// labels is images.cu's Labels.
type labels struct {
	Elements uint32
	Rows     int32
	Beta     float32
}

// perElement makes a kernel of a matrix with a thread for each element, overBlock one that adds all
// of them up in one block.
func (d *Device) perElement(name string, l labels, operands ...operand) (device.Kernel, error) {
	k := d.newKernel()
	k.launch(name, grid{blocksOf(int(l.Elements), 256), 1, 1}, 256, 0, l, operands...)
	return k.done()
}

func (d *Device) overBlock(name string, l labels, operands ...operand) (device.Kernel, error) {
	k := d.newKernel()
	k.launch(name, grid{1, 1, 1}, 256, 4*256, l, operands...)
	return k.done()
}

// labelsOf are the numbers of a matrix, if it is right and not too large to number.
func labelsOf(wrong error, rows, columns int, beta float32) (labels, error) {
	if wrong != nil {
		return labels{}, wrong
	}
	return labels{uint32(rows * columns), int32(rows), beta}, checkElements(rows * columns)
}

func labelsOfShape(s device.Shape) (labels, error) {
	if err := s.CheckMatrix(); err != nil {
		return labels{}, err
	}
	return labelsOf(nil, s[0], s[1], 0)
}

// LabelLoss implements [device.ImageKernels].
func (d *Device) LabelLoss(s device.Shape) (device.Kernel, error) {
	l, err := labelsOfShape(s)
	if err != nil {
		return nil, err
	}
	return d.overBlock("labelLoss", l, out(0), out(1), in(0), in(1))
}

// LabelLossGrad implements [device.ImageKernels].
func (d *Device) LabelLossGrad(s device.Shape) (device.Kernel, error) {
	l, err := labelsOfShape(s)
	if err != nil {
		return nil, err
	}
	return d.perElement("labelLossGrad", l, out(0), in(0), in(1), in(2), in(3))
}

// SmoothL1 implements [device.ImageKernels].
func (d *Device) SmoothL1(s device.SmoothL1Spec) (device.Kernel, error) {
	l, err := labelsOf(s.Check(), s.Rows, s.Columns, s.Beta)
	if err != nil {
		return nil, err
	}
	return d.overBlock("smoothL1", l, out(0), in(0), in(1), in(2))
}

// SmoothL1Grad implements [device.ImageKernels].
func (d *Device) SmoothL1Grad(s device.SmoothL1Spec) (device.Kernel, error) {
	l, err := labelsOf(s.Check(), s.Rows, s.Columns, s.Beta)
	if err != nil {
		return nil, err
	}
	return d.perElement("smoothL1Grad", l, out(0), in(0), in(1), in(2), in(3))
}
