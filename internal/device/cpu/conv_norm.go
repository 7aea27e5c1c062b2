package cpu

import (
	"errors"
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Where the result of a Winograd convolution is larger than the last cache, it is stored past the
// caches, and where a norm follows, its statistics are summed up while the outputs are in
// registers: the result is written without being read before, and read once less.
//
// A piece of moments is what a block of tiles has of one layer and one block of channels. It is
// summed as [activateMoments] has it; its approximate mean is that of its first columns, of which
// there are at least a twenty-fifth of the piece's voxels as a rule.

const (
	momentsPiece   = 3 * block // elements: an approximate mean, sums of differences and of squares
	momentsColumns = 32        // that the approximate mean is of
)

// begin starts a piece, whose mean is about that of x.
func (p *passing) begin(piece, x []float32) {
	clear(piece[:momentsPiece])
	mean := vector(&piece[0], 0)
	p.lanes.runSum(x, mean)
	for lane := range mean {
		mean[lane] /= float32(len(x) / block)
	}
}

// add adds x to a piece. spare is momentsPiece elements.
func (p *passing) add(piece, x, spare []float32) {
	p.lanes.sumMoments(x, vector(&piece[0], 0), vector(&spare[0], block), vector(&spare[0], 2*block))
	p.join(piece, spare)
}

// short begins a short sum of a piece, which join adds to it: see [activateMoments].
func (p *passing) short(spare, piece []float32) {
	copy(spare[:block], piece)
	clear(spare[block:momentsPiece])
}

func (p *passing) join(piece, spare []float32) {
	for i := block; i < momentsPiece; i++ {
		piece[i] += spare[i]
	}
}

// momentsOf is the piece of a block's layer and block of channels, nil where outputs do not go past
// the caches. Where nobody asks for moments it is in the scratch memory.
func (r *result) momentsOf(work []float32, b tileBlock, layer, channels int) []float32 {
	switch {
	case r.past == nil:
		return nil
	case r.past.moments == nil:
		spare := work[r.size-momentsPiece:][:momentsPiece]
		clear(spare)
		return spare
	}
	return r.past.moments[((b.index*r.t.layers+layer)*r.blocks+channels)*momentsPiece:][:momentsPiece]
}

// momentPieces is how many pieces there are.
func (r *result) momentPieces() int { return r.t.blocks * r.t.layers * r.blocks }

// momentPiece is the image, the block of channels and the number of voxels of a piece, 0 where the
// last block has fewer layers.
func (r *result) momentPiece(i int) (image, channels, voxels int) {
	t, channels := r.t, i%r.blocks
	layer, b := i/r.blocks%t.layers, t.block(i/r.blocks/t.layers)
	if layer >= b.layers {
		return 0, 0, 0
	}
	z := (b.layer + layer) % t.tiles[0] * t.mz
	return (b.layer + layer) / t.tiles[0], channels, min(t.mz, r.l.size[0]-z) *
		min(b.rows*t.m, r.l.size[1]-b.row*t.m) * min(b.columns*t.m, r.l.size[2]-b.column*t.m)
}

// passCaches stores the outputs past the caches, if they are large.
func (k *winograd) passCaches(y Slice) {
	k.out.past, k.passing.f = nil, k.cpu.kernels.winograd[k.t.tile].past
	if uintptr(unsafe.Pointer(&y[0]))%(4*line) != 0 {
		k.passing.f = nil
	}
	if k.passing.moments != nil || k.passing.f != nil && len(y) >= k.cpu.large {
		k.out.past = &k.passing
	}
}

// NormConv implements [device.Normaliser]: for large results of Winograd convolutions by tiles.
func (c *CPU) NormConv(s device.ConvSpec, n device.ActivateSpec) (*device.NormConv, error) {
	if err := errors.Join(accept(s, s.Type), accept(n, n.Type)); err != nil {
		return nil, err
	}
	if s.Grouped() || n.Norm == device.NoNorm || n.Norm == device.BatchNorm && !n.Training ||
		elementsOf(s.YShape()) < c.large {
		return nil, nil
	}
	k, err := c.chosen(s, Forward)
	conv, ok := k.(*winograd)
	if err != nil || !ok {
		return nil, err
	}
	return &device.NormConv{
		Conv:       winogradNorm{conv},
		Statistics: &activateStatistics{activateForward{*newActivate(c, n)}, conv.out},
		Apply:      &activateApplied{*newActivate(c, n)},
		Moments:    bytesOf(conv.out.momentPieces() * momentsPiece),
	}, nil
}

// winogradNorm leaves moments.
type winogradNorm struct{ *winograd }

// Run implements [device.Kernel].
func (k winogradNorm) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.passing.moments = out[1].(Slice)
	k.winograd.Run(out, in, scratch)
	k.passing.moments = nil
}

// activateStatistics is the statistics of what a convolution has left.
type activateStatistics struct {
	activateForward
	left *result
}

// Scratch implements [device.Kernel].
func (k *activateStatistics) Scratch() int64 { return 0 }

// Run implements [device.Kernel].
func (k *activateStatistics) Run(out, in []device.Buffer, _ device.Buffer) {
	k.partial = in[0].(Slice)
	var mean, variance Slice
	if k.s.Norm == device.BatchNorm {
		mean, variance = in[1].(Slice), in[2].(Slice)
	}
	k.gather(k.left, out[0].(Slice), mean, variance)
}

// activateApplied is an activation whose statistics are there.
type activateApplied struct{ activate }

// Scratch implements [device.Kernel].
func (k *activateApplied) Scratch() int64 { return 0 }

// Run implements [device.Kernel].
func (k *activateApplied) Run(out, in []device.Buffer, _ device.Buffer) {
	ins := operands{in}
	k.y, k.x = out[0].(Slice), ins.next()
	statistics, gamma, beta := ins.next(), ins.next(), ins.next()
	k.apply(ins, gamma, beta, statistics)
}
