//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// suffix names the variant of a kernel for a type.
func suffix(t device.Type) string {
	if t == device.BFloat16 {
		return "_bf16"
	}
	return "_f32"
}

// vectorOf is how many elements 16 bytes hold.
func vectorOf(t device.Type) int { return int(16 / t.Bytes()) }

// channels is channels.h's Channels: images of voxels of channels, cut into chunks of voxels, and
// the owners of channels into groups.
type channels struct{ Images, Channels, Voxels, Chunk, Group int32 }

// cut is how a kernel of channels.h is launched.
type cut struct {
	channels
	suffix string // of the kernel: type and vector
	grid   grid
	chunks int
	vector int // channels of an owner
}

// sums is the shared memory that adding so many sums of each thread takes, or merging moments with
// 2.
func (c cut) sums(n int) int { return 4 * n * ownerThreads * (c.vector + 1) }

// ownerThreads is the threads of a block in channels.h.
const ownerThreads = 256

// cutOf cuts a tensor so that the GPU has enough blocks, and each enough to do. Matrices are one
// image. Parts of several tensors with more channels ask for vectors themselves: vectors says
// whether their channels allow them.
func (d *Device) cutOf(s device.Shape, t device.Type, vectors bool) cut {
	images, voxels := s[0], 1
	if len(s) == 5 {
		voxels = s.Voxels()
	} else {
		images, voxels = 1, s[0]
	}
	v := 1
	if vectors && s[1]%vectorOf(t) == 0 {
		v = vectorOf(t)
	}
	owners := s[1] / v
	rows := max(1, ownerThreads/min(owners, ownerThreads)) // voxels that a block has at a time
	// Some twelve blocks a multiprocessor, which are three or four waves, and more where there are
	// many images, so that the last wave costs little; eight voxels a thread, or fewer where this
	// leaves multiprocessors without work.
	chunks := max(1, 12*d.processors/images, min(8, 24*d.processors/images))
	most := blocksOf(voxels, 8*rows)
	if images*most < 3*d.processors {
		most = blocksOf(voxels, 2*rows)
	}
	chunk := blocksOf(voxels, min(chunks, most))
	group := min(owners, ownerThreads)
	c := cut{channels{int32(images), int32(s[1]), int32(voxels), int32(chunk), int32(group)},
		fmt.Sprintf("%s_%d", suffix(t), v), grid{}, blocksOf(voxels, chunk), v}
	c.grid = grid{c.chunks, images, blocksOf(owners, group)}
	return c
}

// flat is tensor.cu's Flat.
type flat struct {
	Low, High uint32
	Factor    float32
}

func (d *Device) addScaled(t device.Tensor, factor float32, operands ...operand) (device.Kernel, error) {
	n := t.Shape.Elements()
	k := d.newKernel()
	k.launch("addScaled"+suffix(t.Type), grid{blocksOf(n, 256*vectorOf(t.Type)), 1, 1}, 256, 0,
		flat{uint32(n), uint32(uint64(n) >> 32), factor}, operands...)
	return k.done()
}

// Add implements [device.Device].
func (d *Device) Add(t device.Tensor) (device.Kernel, error) {
	return d.addScaled(t, 1, out(0), in(0), in(1))
}

// AddWeights implements [device.Device].
func (d *Device) AddWeights(n int) (device.Kernel, error) {
	return d.Add(device.Tensor{Shape: device.Shape{n}})
}

// Scale implements [device.Device].
func (d *Device) Scale(t device.Tensor, factor float32) (device.Kernel, error) {
	return d.addScaled(t, factor, out(0), in(0), operand{})
}

// ScaleChannels implements [device.Device].
func (d *Device) ScaleChannels(t device.Tensor) (device.Kernel, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	c := d.cutOf(t.Shape, t.Type, true)
	if len(t.Shape) == 2 { // a factor for each element: every row is an image of one voxel
		c = d.cutOf(device.Shape{t.Shape[0], t.Shape[1], 1, 1, 1}, t.Type, true)
	}
	k.launch("scaleChannels"+c.suffix, c.grid, ownerThreads, 0, c.channels, out(0), in(0), in(1))
	return k.done()
}

// SumChannels implements [device.Device].
func (d *Device) SumChannels(t device.Tensor) (device.Kernel, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.sumChannels(t, out(0), in(0))
	return k.done()
}

// sumChannels appends b (C) <- x (N, C, ...).
func (k *kernel) sumChannels(t device.Tensor, b, x operand) {
	c := k.d.cutOf(t.Shape, t.Type, true)
	parts := k.scratch(4 * int64(c.chunks) * int64(c.Images) * int64(c.Channels))
	k.launch("sumChannels"+c.suffix, c.grid, ownerThreads, c.sums(1), c.channels, parts, x)
	k.sumTiles(1, c.chunks*int(c.Images), int(c.Channels), 1, 0, b, parts)
}

// sumTiles appends to (outer, inner) <- the sum over the tiles of from (outer, tiles, inner,
// stride).
func (k *kernel) sumTiles(outer, tiles, inner, stride, offset int, to, from operand) {
	const width, rows = 8, 32
	k.launch("sumTiles", grid{blocksOf(inner, width), outer, 1}, width*rows, 4*width*rows,
		struct{ Tiles, Inner, Stride, Offset int32 }{int32(tiles), int32(inner), int32(stride), int32(offset)}, to,
		from)
}

// part is tensor.cu's Part.
type part struct {
	channels
	YChannels, YFirst, XChannels, XFirst int32
}

// Concat implements [device.Device].
func (d *Device) Concat(s device.ConcatSpec) (device.Kernel, error) { return d.concat(s, false) }

// Split implements [device.Device].
func (d *Device) Split(s device.ConcatSpec) (device.Kernel, error) { return d.concat(s, true) }

func (d *Device) concat(s device.ConcatSpec, split bool) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := d.newKernel()
	whole, first, vectors := s.Whole()[1], 0, true
	for _, c := range s.Channels {
		vectors = vectors && c%vectorOf(s.Type) == 0
	}
	for i, n := range s.Channels {
		c := d.cutOf(s.Operand(i), s.Type, vectors)
		p, operands := part{c.channels, int32(whole), int32(first), int32(n), 0}, []operand{out(0), in(i)}
		if split {
			p, operands = part{c.channels, int32(n), 0, int32(whole), int32(first)}, []operand{out(i), in(0)}
		}
		k.launch("copyChannels"+c.suffix, c.grid, ownerThreads, 0, p, operands...)
		first += n
	}
	k.joins = len(s.Channels) == 1 || s.Whole().Voxels() == 1 && s.N == 1
	return k.done()
}

// Adjacent implements [device.Joiner]: channels lie innermost, so only what is one voxel joins.
func (k *kernel) Adjacent() bool { return k.joins }

// Flatten implements [device.Device].
func (d *Device) Flatten(t device.Tensor) (device.Kernel, error) { return d.transposed(t, true) }

// Unflatten implements [device.Device].
func (d *Device) Unflatten(t device.Tensor) (device.Kernel, error) { return d.transposed(t, false) }

func (d *Device) transposed(t device.Tensor, back bool) (device.Kernel, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	k, err := d.newTranspose(t, back)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// newTranspose makes the kernel from float32 in row-major order to a tensor, or back.
func (d *Device) newTranspose(t device.Tensor, back bool) (*kernel, error) {
	k := d.newKernel()
	k.transpose(t, back, out(0), in(0))
	return k, k.err
}

// transpose appends to <- from: float32 in row-major order to a tensor, or back.
func (k *kernel) transpose(t device.Tensor, back bool, to, from operand) {
	if len(t.Shape) == 2 {
		t.Shape = device.Shape{t.Shape[0], t.Shape[1], 1, 1, 1}
	}
	rows, columns, kinds := t.Shape[1], t.Shape.Voxels(), suffix(t.Type)+"_f32"
	if back {
		rows, columns, kinds = columns, rows, "_f32"+suffix(t.Type)
	}
	if rows == 1 || columns == 1 {
		n := t.Shape.Elements()
		k.launch("convert"+kinds, grid{blocksOf(n, 256), 1, 1}, 256, 0, flat{uint32(n), uint32(uint64(n) >> 32), 1}, to,
			from)
		return
	}
	// the columns are in the second axis of the grid, which is short: so are channels, but not
	// voxels
	blocks, images := grid{blocksOf(rows, 32), blocksOf(columns, 32), t.Shape[0]}, t.Shape[0]
	for first := 0; first < blocks[1]; first += 65535 {
		for image := 0; image < images; image += 65535 {
			some := grid{blocks[0], min(65535, blocks[1]-first), min(65535, images-image)}
			k.launch("transpose"+kinds, some, 256, 4*32*33,
				struct{ Rows, Columns, FirstColumn, FirstImage int32 }{int32(rows), int32(columns), int32(32 * first),
					int32(image)}, to, from)
		}
	}
}

// pooling is tensor.cu's Pool.
type pooling struct {
	Channels                  int32
	X, Y, Kernel, Stride, Pad [3]int32
	Average                   int32
	Low, High                 uint32
}

func (d *Device) pooling(name string, s device.PoolSpec, result device.Shape, operands ...operand) (device.Kernel,
	error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	n, o := result.Elements(), s.OutShape()
	p := pooling{int32(s.Shape[1]), int3([3]int(s.Shape[2:])), int3([3]int(o[2:])), int3(s.Kernel), int3(s.Stride),
		int3(s.Pad), flag(s.Average), uint32(n), uint32(uint64(n) >> 32)}
	k := d.newKernel()
	k.launch(name+suffix(s.Type), grid{blocksOf(n, 256), 1, 1}, 256, 0, p, operands...)
	return k.done()
}

// Pool implements [device.Device].
func (d *Device) Pool(s device.PoolSpec) (device.Kernel, error) {
	return d.pooling("pool", s, s.OutShape(), out(0), in(0))
}

// PoolGrad implements [device.Device].
func (d *Device) PoolGrad(s device.PoolSpec) (device.Kernel, error) {
	return d.pooling("poolGrad", s, s.Shape, out(0), in(0), in(2))
}
