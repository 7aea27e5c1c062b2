package device

import "fmt"

// The Check methods say what is wrong with a spec, nil if nothing is. Devices call them before they
// make a kernel, so that all devices refuse the same specs in the same words.

// Check says whether s is the shape of an activation: rank 2 or 5, no axis below 1.
func (s Shape) Check() error {
	if len(s) != 2 && len(s) != 5 {
		return fmt.Errorf("shape %v: want (rows, channels) or (images, channels, depth, height, width)", []int(s))
	}
	for _, d := range s {
		if d < 1 {
			return fmt.Errorf("shape %v: every axis must be at least 1", []int(s))
		}
	}
	return nil
}

// Check says whether t is the tensor of an activation, and of a type that its rank may have.
func (t Tensor) Check() error {
	if err := t.Shape.Check(); err != nil {
		return err
	}
	return t.Type.check(len(t.Shape))
}

// check says whether tensors of a rank may be of the type.
func (t Type) check(rank int) error {
	if t > BFloat16 {
		return fmt.Errorf("element type %d is unknown", t)
	}
	if t != Float32 && rank != 5 {
		return fmt.Errorf("a tensor of rank %d in %v: only tensors of rank 5 may be of another type than fp32", rank, t)
	}
	return nil
}

// Rows is the number of rows of weights: indices of the first axis, 1 for a scalar.
func (s Shape) Rows() int {
	if len(s) == 0 {
		return 1
	}
	return s[0]
}

// Row is the number of elements of a row.
func (s Shape) Row() int { return s[min(1, len(s)):].Elements() }

// CheckRows says whether n elements are whole rows of weights of this shape, from the given one on,
// that may be moved at once: see [Device].
func (s Shape) CheckRows(first, n int) error {
	row := max(1, s.Row())
	end := first + n/row
	if first < 0 || end > s.Rows() || n%row != 0 || first%RowBlock != 0 || end%RowBlock != 0 && end != s.Rows() {
		return fmt.Errorf("moving %d elements of weights %v from row %d on: want whole "+
			"rows of %d, %d at a time except for the last", n, []int(s), first, row, RowBlock)
	}
	return nil
}

// Voxels is the number of voxels of one channel: 1 for rank 2.
func (s Shape) Voxels() int { return s[2:].Elements() }

// Check says what is wrong with the spec, nil if nothing is.
func (s ActivateSpec) Check() error {
	if err := (Tensor{s.Shape, s.Type}).Check(); err != nil {
		return err
	}
	switch {
	case s.Norm > GroupNorm || s.Act > ELU || s.Residual > TiledResidual:
		return fmt.Errorf("norm %d, activation %d, residual %d: one of them is unknown", s.Norm, s.Act, s.Residual)
	case s.Norm != NoNorm && len(s.Shape) != 5:
		return fmt.Errorf("normalisation of shape %v: want five axes", []int(s.Shape))
	case s.Norm != NoNorm && !(s.Epsilon > 0):
		return fmt.Errorf("normalisation with epsilon %v: must be above 0", s.Epsilon)
	case s.Norm == GroupNorm && (s.Groups < 1 || s.Shape[1]%s.Groups != 0):
		return fmt.Errorf("%d groups do not divide %d channels", s.Groups, s.Shape[1])
	case s.Norm == BatchNorm && s.Training && s.Shape[0]*s.Shape.Voxels() < 2:
		return fmt.Errorf("batch normalisation of shape %v: one value a channel has no variance", []int(s.Shape))
	}
	return nil
}

// Check says what is wrong with the spec, nil if nothing is.
func (s ConcatSpec) Check() error {
	if len(s.Channels) == 0 {
		return fmt.Errorf("concatenation of nothing")
	}
	for i := range s.Channels {
		if err := s.Operand(i).Check(); err != nil {
			return err
		}
	}
	return nil
}

// Part is the shape of x[i].
func (s ConcatSpec) Operand(i int) Shape {
	return Shape{s.N, s.Channels[i], s.Size[0], s.Size[1], s.Size[2]}
}

// Whole is the shape of y.
func (s ConcatSpec) Whole() Shape {
	y := Shape{s.N, 0, s.Size[0], s.Size[1], s.Size[2]}
	for _, c := range s.Channels {
		y[1] += c
	}
	return y
}

// Check says what is wrong with the spec, nil if nothing is.
func (s PoolSpec) Check() error {
	if err := (Tensor{s.Shape, s.Type}).Check(); err != nil {
		return err
	}
	if len(s.Shape) != 5 {
		return fmt.Errorf("pooling of shape %v: want five axes", []int(s.Shape))
	}
	for i, k := range s.Kernel {
		if k < 1 || s.Stride[i] < 1 || s.Pad[i] < 0 || s.Pad[i] >= k {
			return fmt.Errorf("pooling with kernel %v, stride %v, padding %v: kernel and stride must "+
				"be at least 1, padding from 0 to kernel-1", s.Kernel, s.Stride, s.Pad)
		}
		if s.Shape[2+i]+2*s.Pad[i] < k {
			return fmt.Errorf("pooling with kernel %v does not fit shape %v with padding %v", s.Kernel, []int(s.Shape),
				s.Pad)
		}
	}
	return nil
}

// Check says what is wrong with the spec, nil if nothing is.
func (s MatMulSpec) Check() error {
	if s.M < 1 || s.N < 1 || s.K < 1 {
		return fmt.Errorf("matrix product of (%d, %d) and (%d, %d): every axis must be at least 1", s.M, s.K, s.K, s.N)
	}
	return nil
}

// Check says what is wrong with the spec, nil if nothing is.
func (s LossSpec) Check() error {
	if err := (Tensor{s.Shape, s.Type}).Check(); err != nil {
		return err
	}
	if s.Dice != 0 && s.DiceClasses() == 0 {
		return fmt.Errorf("soft Dice loss over %d class without the background: nothing takes part", s.Shape[1])
	}
	if s.Smooth < 0 {
		return fmt.Errorf("soft Dice loss with smooth %v: must not be negative", s.Smooth)
	}
	return nil
}

// DiceClasses is the number of classes that take part in the soft Dice loss.
func (s LossSpec) DiceClasses() int {
	if s.Background {
		return s.Shape[1]
	}
	return s.Shape[1] - 1
}

// Check says what is wrong with the spec, nil if nothing is.
func (s RowsSpec) Check() error {
	if s.In < 1 || s.Out < 1 || s.Columns < 1 {
		return fmt.Errorf("moving %d of %d rows of %d columns: all must be at least 1", s.Out, s.In, s.Columns)
	}
	return nil
}

// Check says what is wrong with the spec, nil if nothing is.
func (s GroupSpec) Check() error {
	if s.Groups < 1 || s.Rows < 1 || s.Columns < 1 {
		return fmt.Errorf("%d groups of %d rows of %d columns: all must be at least 1", s.Groups, s.Rows, s.Columns)
	}
	return nil
}
