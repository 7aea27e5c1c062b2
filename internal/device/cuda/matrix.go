//go:build gpu

package cuda

import (
	"errors"
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// product is matrix.cu's Matrix.
type product struct{ M, N, K, TransA, TransB, PerSplit, Splits int32 }

// MatMul implements [device.Device].
func (d *Device) MatMul(s device.MatMulSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	const tile, depth, leastDepth, perSM = 64, 32, 256, 4
	tiles := blocksOf(s.M, tile) * blocksOf(s.N, tile)
	splits := min(max(1, perSM*d.processors/tiles), max(1, s.K/leastDepth))
	perSplit := blocksOf(blocksOf(s.K, splits), depth) * depth
	splits = blocksOf(s.K, perSplit)
	m := product{int32(s.M), int32(s.N), int32(s.K), flag(s.TransA), flag(s.TransB), int32(perSplit), int32(splits)}
	var bias operand
	if s.Bias {
		bias = in(2)
	}
	k, to := d.newKernel(), out(0)
	if splits > 1 {
		to = k.scratch(4 * int64(splits) * int64(s.M) * int64(s.N))
	}
	name := "matrix_fp32"
	if d.precision != fp32 {
		name = "matrix_tf32"
	}
	const shared = 4 * 4 * depth * 72
	k.launch(name, grid{blocksOf(s.N, tile), blocksOf(s.M, tile), splits}, 256, shared, m, to, in(0), in(1), bias)
	if splits > 1 {
		k.launch("sumSplits", grid{blocksOf(s.M*s.N, 256), 1, 1}, 256, 0, m, out(0), to, bias)
	}
	return k.done()
}

// rowsOf is matrix.cu's RowsOf.
type rowsOf struct {
	Rows    uint32
	Columns int32
}

func (d *Device) softmax(name string, t device.Tensor, operands ...operand) (device.Kernel, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.softmaxRows(name+suffix(t.Type), t.Shape.Elements()/t.Shape[1], t.Shape[1], operands...)
	return k.done()
}

// softmaxRows appends a kernel of the softmax or of its gradient. A result may be an operand, too.
func (k *kernel) softmaxRows(name string, rows, columns int, operands ...operand) {
	k.launch(name, grid{blocksOf(rows, 256), 1, 1}, 256, 0, rowsOf{uint32(rows), int32(columns)}, operands...)
}

// Softmax implements [device.Device].
func (d *Device) Softmax(t device.Tensor) (device.Kernel, error) {
	return d.softmax("softmax", t, out(0), in(0))
}

// SoftmaxGrad implements [device.Device].
func (d *Device) SoftmaxGrad(t device.Tensor) (device.Kernel, error) {
	return d.softmax("softmaxGrad", t, out(0), in(0), in(1))
}

// lossNumbers is loss.cu's Loss.
type lossNumbers struct {
	Images, Classes, Voxels, Chunk int32
	CE, Dice, Smooth               float32
	Background, PerImage, Summed   int32
}

func lossOf(s device.LossSpec, chunk int) lossNumbers {
	return lossNumbers{int32(s.Shape[0]), int32(s.Shape[1]), int32(s.Shape.Voxels()), int32(chunk), s.CE, s.Dice,
		s.Smooth, flag(s.Background), flag(s.PerImage), 0}
}

// Loss implements [device.Device].
func (d *Device) Loss(s device.LossSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	images, classes, voxels := s.Shape[0], s.Shape[1], s.Shape.Voxels()
	chunks := min(max(1, 8*d.processors/images), blocksOf(voxels, 256))
	chunk := blocksOf(blocksOf(voxels, chunks), 256) * 256
	chunks = blocksOf(voxels, chunk)
	l, width, k := lossOf(s, chunk), 3*classes+2, d.newKernel()
	parts, sums := k.scratch(4*int64(images*chunks*width)), k.scratch(4*int64(images*width))
	if classes == 2 {
		k.launch("lossPair"+suffix(s.Type), grid{chunks, images, 1}, 256, 4*8*width, l, parts, in(0), in(1))
	} else {
		k.launch("lossSums"+suffix(s.Type), grid{chunks, images, 1}, 256, 4*(256*17+256), l, parts, in(0), in(1))
	}
	k.sumTiles(images, chunks, width, 1, 0, sums, parts)
	const many = 8 // images whose sums are added up by more than one block
	var total operand
	if !s.PerImage && images > many {
		l.Summed, total = 1, k.scratch(4*int64(width))
		k.sumTiles(1, images, width, 1, 0, total, sums)
	}
	k.launch("lossFinish", grid{1 + blocksOf(3*images*classes, 128), 1, 1}, 128, 4*128, l, out(0), out(1), sums, total)
	return k.done()
}

// LossGrad implements [device.Device].
func (d *Device) LossGrad(s device.LossSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	l, k := lossOf(s, 0), d.newKernel()
	factors := k.scratch(8 * int64(s.Shape[0]*s.Shape[1]))
	if s.Dice != 0 {
		k.launch("diceFactors", grid{blocksOf(s.Shape[0]*s.Shape[1], 128), 1, 1}, 128, 0, l, factors, in(2))
	}
	name := "lossGrad"
	if s.Shape[1] == 2 {
		name = "lossPairGrad"
	}
	k.launch(name+suffix(s.Type), grid{blocksOf(s.Shape[0]*s.Shape.Voxels(), 256), 1, 1}, 256, 0, l, out(0),
		in(0), in(1), in(2), in(3), factors)
	k.sumChannels(device.Tensor{Shape: s.Shape, Type: s.Type}, out(1), out(0))
	return k.done()
}

// rowsNumbers is matrix.cu's Rows, groups its Groups.
type (
	rowsNumbers struct{ In, Out, Columns int32 }
	groups      struct{ Groups, Rows, Columns int32 }
)

func (d *Device) rows(name string, s device.RowsSpec, rows int) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.launch(name, grid{blocksOf(rows*s.Columns, 256), 1, 1}, 256, 0,
		rowsNumbers{int32(s.In), int32(s.Out), int32(s.Columns)}, out(0), in(0), in(1))
	return k.done()
}

// GatherRows implements [device.Device].
func (d *Device) GatherRows(s device.RowsSpec) (device.Kernel, error) {
	return d.rows("gatherRows", s, s.Out)
}

// ScatterRows implements [device.Device].
func (d *Device) ScatterRows(s device.RowsSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	const vector, list = 4, 1024 // columns of a thread, rows that a block looks through at a time
	columns := 1
	if s.Columns%vector == 0 {
		columns = vector
	}
	k := d.newKernel()
	k.launch(fmt.Sprint("scatterRows_", columns), grid{blocksOf(s.In*s.Columns/columns, 256), 1, 1}, 256, 4*list,
		rowsNumbers{int32(s.In), int32(s.Out), int32(s.Columns)}, out(0), in(0), in(1))
	return k.done()
}

func (d *Device) groups(name string, s device.GroupSpec, elements int, operands ...operand) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.launch(name, grid{blocksOf(elements, 256), 1, 1}, 256, 0, groupsOf(s), operands...)
	return k.done()
}

func groupsOf(s device.GroupSpec) groups {
	return groups{int32(s.Groups), int32(s.Rows), int32(s.Columns)}
}

// MeanOfOthers implements [device.PuzzleKernels].
func (d *Device) MeanOfOthers(s device.GroupSpec) (device.Kernel, error) {
	return d.groups("meanOfOthers", s, s.Groups*s.Rows*s.Columns, out(0), in(0))
}

// PairSum implements [device.PuzzleKernels].
func (d *Device) PairSum(s device.GroupSpec) (device.Kernel, error) {
	return d.groups("pairSum", s, s.Groups*s.Rows*s.Rows*s.Columns, out(0), in(0), in(1))
}

// PairSumGrad implements [device.PuzzleKernels].
func (d *Device) PairSumGrad(s device.GroupSpec) (device.Kernel, error) {
	return d.groups("pairSumGrad", s, s.Groups*s.Rows*s.Columns, out(0), out(1), in(0))
}

// columnSums appends the sums of the columns of softmax, and returns them and the rows' statistics.
func (k *kernel) columnSums(s device.GroupSpec) (sums, statistics operand) {
	sums, statistics = k.scratch(4*int64(s.Groups*s.Columns)), k.scratch(8*int64(s.Groups*s.Rows))
	k.launch("columnSums", grid{s.Groups, 1, 1}, 128, 0, groupsOf(s), sums, statistics, in(0))
	return sums, statistics
}

// ColumnSumLoss implements [device.PuzzleKernels].
func (d *Device) ColumnSumLoss(s device.GroupSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	sums, _ := k.columnSums(s)
	k.launch("columnSumLoss", grid{1, 1, 1}, 128, 4*128, groupsOf(s), out(0), sums, in(1))
	return k.done()
}

// ColumnSumLossGrad implements [device.PuzzleKernels].
func (d *Device) ColumnSumLossGrad(s device.GroupSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	sums, statistics := k.columnSums(s)
	k.launch("columnSumLossGrad", grid{s.Groups, 1, 1}, 128, 4*128, groupsOf(s), out(0), in(0), in(1), in(2), sums,
		statistics)
	return k.done()
}

// elements is optimiser.cu's Parameters.
type elements struct{ N uint32 }

// checkElements says whether a kernel of the optimisers, or of a loss, can number them.
func checkElements(n int) error {
	if n < 1 || uint64(n) > 1<<32-1024 {
		return errors.New("an optimiser or a loss wants from 1 to 4294966272 elements in one buffer")
	}
	return nil
}

// mostTensors is how many tensors a launch of sumSquares or sgd is for.
const mostTensors = 16

// tensors is optimiser.cu's Tensors.
type tensors struct {
	Count    int32
	N, First [mostTensors]uint32
}

// tensorsOf are the next tensors of so many elements, those after them, and the blocks of so many
// elements that hold them.
func tensorsOf(n []int, chunk int) (t tensors, rest []int, blocks int) {
	count := min(len(n), mostTensors)
	t.Count = int32(count)
	for i, elements := range n[:count] {
		t.N[i], t.First[i] = uint32(elements), uint32(blocks)
		blocks += blocksOf(elements, chunk)
	}
	return t, n[count:], blocks
}

// SumSquares implements [device.Device].
func (d *Device) SumSquares(n int) (device.Kernel, error) { return d.SumSquaresOfAll([]int{n}) }

// SumSquaresOfAll implements [device.StepGrouper].
func (d *Device) SumSquaresOfAll(n []int) (device.Kernel, error) {
	k, to, from := d.newKernel(), make([]operand, len(n)), make([]operand, len(n))
	for i := range n {
		to[i], from[i] = out(i), in(i)
	}
	k.sumSquares(n, to, from)
	return k.done()
}

// sumSquares appends the sums of the squares of tensors of so many elements.
func (k *kernel) sumSquares(n []int, to, from []operand) {
	const chunk = 8192
	for _, elements := range n {
		k.err = errors.Join(k.err, checkElements(elements))
	}
	for len(n) > 0 && k.err == nil {
		t, rest, blocks := tensorsOf(n, chunk)
		parts, count := k.scratch(8*int64(blocks)), t.Count
		k.launchMany("sumSquares", grid{blocks, 1, 1}, 256, 8*256, t, append([]operand{parts}, from[:count]...)...)
		k.launchMany("sumDoubles", grid{int(count), 1, 1}, 256, 8*256, t, append([]operand{parts}, to[:count]...)...)
		n, to, from = rest, to[count:], from[count:]
	}
}

// sgd appends the steps of tensors of so many elements; the operands are parameters, velocity,
// gradient and hyperparameters of each.
func (k *kernel) sgd(n []int, operands ...operand) {
	const chunk = 4096
	for _, elements := range n {
		k.err = errors.Join(k.err, checkElements(elements))
	}
	for len(n) > 0 && k.err == nil {
		t, rest, blocks := tensorsOf(n, chunk)
		k.launchMany("sgd", grid{blocks, 1, 1}, 256, 0, t, operands[:4*t.Count]...)
		n, operands = rest, operands[4*t.Count:]
	}
}

// SGD implements [device.Device].
func (d *Device) SGD(n int) (device.Kernel, error) { return d.SGDOfAll([]int{n}) }

// SGDOfAll implements [device.StepGrouper].
func (d *Device) SGDOfAll(n []int) (device.Kernel, error) {
	k := d.newKernel()
	var operands []operand
	for i := range n {
		operands = append(operands, out(2*i), out(2*i+1), in(2*i), in(2*i+1))
	}
	k.sgd(n, operands...)
	return k.done()
}

// AdamW implements [device.Device].
func (d *Device) AdamW(n int) (device.Kernel, error) {
	k := d.newKernel()
	if k.err = checkElements(n); k.err == nil {
		k.launch("adamW", grid{blocksOf(n, 256), 1, 1}, 256, 0, elements{uint32(n)}, out(0), out(1), out(2), in(0),
			in(1))
	}
	return k.done()
}

// Average implements [device.Device].
func (d *Device) Average(n int) (device.Kernel, error) {
	k := d.newKernel()
	if k.err = checkElements(n); k.err == nil {
		k.launch("average", grid{blocksOf(n, 256), 1, 1}, 256, 0, elements{uint32(n)}, out(0), in(0), in(1))
	}
	return k.done()
}

// DecideStep implements [device.StepDecider].
func (d *Device) DecideStep(s device.DecideSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	operands, next := []operand{out(0), out(1), in(0), in(1), {}, {}}, 2
	for i, there := range []bool{s.Loss, s.Values > 0} {
		if there {
			operands[4+i] = in(next)
			next++
		}
	}
	k := d.newKernel()
	k.launch("decideStep", grid{1, 1, 1}, 256, 8*256, struct {
		Squares, Rates, Width, Pitch, Factor uint32
		One                                  int32
		Clip                                 float32
		Values                               uint32
	}{uint32(s.Squares), uint32(s.Rates), uint32(s.Width), uint32(s.Pitch), uint32(s.Factor), int32(s.One), s.Clip,
		uint32(s.Values)}, operands...)
	return k.done()
}
