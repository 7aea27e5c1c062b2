package device

import (
	"fmt"
	"math"
)

// ImageKernels are what only networks on photographs need.
type ImageKernels interface {
	// LRN is y <- x: see LRNSpec.
	LRN(LRNSpec) (Kernel, error)
	// LRNGrad is dx <- x, dy. dx may be dy.
	LRNGrad(LRNSpec) (Kernel, error)
	// RoIPool is y (Regions, C, OutSize) <- x, regions (Regions, 5): see RoISpec.
	RoIPool(RoISpec) (Kernel, error)
	// RoIPoolGrad is dx <- x, regions, dy.
	RoIPoolGrad(RoISpec) (Kernel, error)
	// LabelLoss is loss (), count () <- logits (rows, labels), target (rows, labels): the mean
	// binary cross-entropy, max(x, 0) - x t + log(1 + exp(-|x|)), over all elements whose target t
	// is not negative, and their number; 0 where there is none.
	LabelLoss(Shape) (Kernel, error)
	// LabelLossGrad is dlogits <- logits, target, count, dloss ().
	LabelLossGrad(Shape) (Kernel, error)
	// SmoothL1 is loss () <- x, target, weight, all (rows, columns): the sum of weight times the
	// loss of SmoothL1Spec over all elements, divided by the rows.
	SmoothL1(SmoothL1Spec) (Kernel, error)
	// SmoothL1Grad is dx <- x, target, weight, dloss ().
	SmoothL1Grad(SmoothL1Spec) (Kernel, error)
}

// LRNSpec is local response normalisation across channels (Krizhevsky et al. 2012, section 3.3, as
// Caffe and PyTorch have it) of x (N, C, D, H, W) = Shape:
//
//	y[c] = x[c] / (K + Alpha/Size sum of x[i]^2)^Beta      i from c - Size/2 to c + (Size-1)/2
type LRNSpec struct {
	Shape          Shape
	Size           int // channels of a window
	Alpha, Beta, K float32
	Type           Type
}

// Check says what is wrong with the spec, nil if nothing is.
func (s LRNSpec) Check() error {
	if err := (Tensor{s.Shape, s.Type}).Check(); err != nil {
		return err
	}
	if len(s.Shape) != 5 || s.Size < 1 || !(s.K > 0) || s.Alpha < 0 || s.Beta < 0 {
		return fmt.Errorf("local response normalisation of shape %v over %d channels, alpha %v, beta %v, k %v: want "+
			"five axes, a channel at least, alpha and beta from 0 up and k above 0",
			[]int(s.Shape), s.Size, s.Alpha, s.Beta, s.K)
	}
	return nil
}

// RoISpec is maximum pooling of regions of interest (Girshick 2015, as torchvision.ops.roi_pool has
// it) of maps x (N, C, 1, H, W) = Shape. A region is a row (image, x1, y1, x2, y2), the corners in
// pixels of the photograph, both within the region; a map has Scale elements a pixel. Each region
// becomes OutSize, along (H, W); a bin that lies outside the map is 0.
type RoISpec struct {
	Shape   Shape
	Regions int
	OutSize [2]int
	Scale   float32
	Type    Type
}

// Check says what is wrong with the spec, nil if nothing is.
func (s RoISpec) Check() error {
	if err := (Tensor{s.Shape, s.Type}).Check(); err != nil {
		return err
	}
	if len(s.Shape) != 5 || s.Shape[2] != 1 || s.Regions < 1 || s.OutSize[0] < 1 || s.OutSize[1] < 1 || !(s.Scale > 0) {
		return fmt.Errorf("pooling %d regions of shape %v to %v with scale %v: want maps of depth 1, a "+
			"region, an element and a scale above 0 at least", s.Regions, []int(s.Shape), s.OutSize, s.Scale)
	}
	return nil
}

// OutShape is the shape of y.
func (s RoISpec) OutShape() Shape {
	return Shape{s.Regions, s.Shape[1], 1, s.OutSize[0], s.OutSize[1]}
}

// Bin is the part of the map that element (h, w) of a region's result sees; empty where y1 >= y2 or
// x1 >= x2. The arithmetic is float32, as torchvision's is: bins then have the same edges.
func (s RoISpec) Bin(region []float32, h, w int) (y1, y2, x1, x2 int) {
	edges := func(from, to float32, bins, bin, size int) (int, int) {
		start, end := element(from*s.Scale), element(to*s.Scale)
		width := float32(max(end-start+1, 1)) / float32(bins)
		first, last := int(math.Floor(float64(float32(bin)*width))), int(math.Ceil(float64(float32(bin+1)*width)))
		return min(max(first+start, 0), size), min(max(last+start, 0), size)
	}
	y1, y2 = edges(region[2], region[4], s.OutSize[0], h, s.Shape[3])
	x1, x2 = edges(region[1], region[3], s.OutSize[1], w, s.Shape[4])
	return y1, y2, x1, x2
}

// element is the number of the element at a coordinate, halves away from zero. No map has a
// billion.
func element(x float32) int { return int(min(max(math.Round(float64(x)), -1e9), 1e9)) }

// CheckMatrix says whether s is the shape of a matrix.
func (s Shape) CheckMatrix() error {
	if len(s) != 2 {
		return fmt.Errorf("shape %v: want (rows, columns)", []int(s))
	}
	return s.Check()
}

// SmoothL1Spec is the loss of a regression (Girshick 2015, equation 3; Beta is 1 there):
//
//	d = |x - target|        d^2 / (2 Beta) where d < Beta, otherwise d - Beta/2
type SmoothL1Spec struct {
	Rows, Columns int
	Beta          float32
}

// Check says what is wrong with the spec, nil if nothing is.
func (s SmoothL1Spec) Check() error {
	if s.Rows < 1 || s.Columns < 1 || !(s.Beta > 0) {
		return fmt.Errorf("smooth L1 loss of %d rows of %d columns with beta %v: all must be above 0", s.Rows,
			s.Columns, s.Beta)
	}
	return nil
}
