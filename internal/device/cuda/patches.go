//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// patches is patches.cu's Patches: a convolution whose taps do not overlap.
type patches struct {
	Rows, Left, Right, Depth, Columns int32
	Gathers, Spreads                  int32
	Kernel, Fine                      [3]int32
	ByW, ByH, ByD, ByLeft, ByRight    divisor
}

// patchesFor says how patches.cu makes a convolution, if it can: one whose stride is its size,
// without groups and padding. A voxel that no patch reaches would stay unwritten, so as adjoint the
// patches must fill the image. Rows that are gathered come in pieces of 16 bytes.
func patchesFor(c convolution, t device.Type) (patches, bool) {
	coarse, fine := c.To, c.From
	if c.Transposed != 0 {
		coarse, fine = fine, coarse
	}
	if c.Groups != 1 || c.Stride != c.Kernel || c.Pad != [3]int32{} {
		return patches{}, false
	}
	for i := range 3 {
		if c.Transposed != 0 && coarse[i]*c.Kernel[i] != fine[i] {
			return patches{}, false
		}
	}
	taps := int32(volume(c.Kernel))
	a := patches{
		Rows: c.Images * int32(volume(coarse)), Left: c.In, Right: c.Out, Depth: c.In, Columns: c.Out, Kernel: c.Kernel,
		Fine: fine,
		ByW:  divisorOf(int(coarse[2])), ByH: divisorOf(int(coarse[1])), ByD: divisorOf(int(coarse[0])),
		ByLeft: divisorOf(int(c.In)), ByRight: divisorOf(int(c.Out)),
	}
	switch {
	case taps == 1:
	case c.Transposed != 0:
		a.Spreads, a.Columns = 1, taps*c.Out
	default:
		a.Gathers, a.Depth = 1, taps*c.In
	}
	return a, a.Gathers == 0 || int64(c.In)*t.Bytes()%16 == 0
}

// convPatches appends the convolution. Blocks share out tiles of rows, and where these are few
// those of columns, too: two blocks for each multiprocessor.
func (k *kernel) convPatches(a patches, p packing, t device.Type, y, moments, x, w, bias operand) {
	const stages, pitch, threads = 4, 80, 256
	packed := k.packWeights(p, t, w)
	n := columnsFor(int(a.Columns), 64, 16)
	if t == device.BFloat16 {
		n = columnsFor(int(a.Columns), 64, 32, 16)
	}
	tiles, blocks := blocksOf(int(a.Rows), convTile), 2*k.d.processors
	g := grid{min(tiles, blocks), min(blocksOf(int(a.Columns), n), max(1, blocks/tiles)), 1}
	shared := stages*(convTile+n)*pitch + 4*convTile*(n+4) + momentsBytes*threads
	k.launch(fmt.Sprintf("patches%s_%d", k.d.multiplier(t), n), g, threads, shared, a, y, moments, x, packed, bias)
}

// direct is patches.cu's Direct, and which kernel it is for.
type direct struct {
	patches
	Units, Groups, Parts int32
	From                 [8]int32
	ByWide, ByY          divisor
}

// directKernel is how a direct kernel is launched: its blocks of a multiprocessor, as its registers
// allow them.
type directKernel struct {
	name                 string
	perSM, tiles, shared int
}

// directFor says how patches go from memory to the registers of the tensor cores, if they can: in
// bfloat16, where depth and columns are pieces of 32 elements that lie next to each other, of which
// there are few. A head of 32 channels has 8 columns at most.
func (d *Device) directFor(p patches, t device.Type) (a direct, k directKernel, ok bool) {
	const piece, vector, threads, most = 32, 8, 128, 72 << 10
	if t != device.BFloat16 || p.Left%vector != 0 {
		return a, k, false
	}
	a = direct{patches: p, Units: int32(blocksOf(int(p.Rows), convTile)), ByWide: divisorOf(1), ByY: divisorOf(1)}
	run, pieces := p.Left, p.Depth/piece // elements that lie next to each other
	if p.Gathers != 0 {
		run *= p.Kernel[2]
	}
	if run%piece != 0 || pieces > int32(len(a.From)) {
		return a, k, false
	}
	for i := range pieces {
		each := run / piece
		z, y := i/each/p.Kernel[1], i/each%p.Kernel[1]
		if p.Gathers != 0 {
			a.From[i] = (z*p.Fine[1] + y) * p.Fine[2] * p.Left / vector
		}
		a.From[i] += i % each * piece / vector
	}
	k = directKernel{perSM: 4, tiles: 4}
	switch {
	case p.Columns <= vector && pieces == 1 && p.Spreads == 0 && p.Gathers == 0:
		a.Groups, k = 1, directKernel{"directHead", 6, 1, 0}
	case p.Columns%piece != 0 || p.Right%vector != 0:
		return a, k, false
	case p.Spreads == 0:
		a.Groups = p.Columns / piece
		if k.name = fmt.Sprint("directRows_", pieces); pieces != 4 {
			k.perSM = 3
		}
		if a.Groups > 2 || pieces != 1 && pieces != 2 && pieces != 4 && pieces != 8 {
			return a, k, false
		}
		a.Parts = a.Groups - 1
	default:
		run := p.Right * p.Kernel[2]
		if a.Groups = p.Columns / piece; run%piece != 0 || pieces != 1 && pieces != 2 && pieces != 4 {
			return a, k, false
		}
		a.ByWide, a.ByY = divisorOf(int(run/piece)), divisorOf(int(p.Kernel[1]))
		k.name = fmt.Sprint("directSpread_", pieces)
		// several warps share the columns of a unit where there are few units
		for a.Parts < 2 && a.Groups%(2<<a.Parts) == 0 && int(a.Units)<<a.Parts < 2*threads/32*k.perSM*d.processors {
			a.Parts++
		}
	}
	k.shared = int(a.Groups) * (int(pieces)*k.tiles*512 + 4*8*k.tiles + 4)
	return a, k, k.shared <= most
}

// convDirect appends the convolution.
func (k *kernel) convDirect(a direct, l directKernel, p packing, y, moments, x, w, bias operand) {
	const warps, reserved, multiprocessor = 4, 1 << 10, 227 << 10
	packed := k.packWeights(p, device.BFloat16, w)
	perSM := min(l.perSM, multiprocessor/(l.shared+reserved))
	blocks := min(blocksOf(int(a.Units)<<a.Parts, warps), perSM*k.d.processors)
	k.launch(l.name, grid{blocks, 1, 1}, 32*warps, l.shared, a, y, moments, x, packed, bias)
}

// fewIn says whether an adjoint has one tap and so few channels in that the ordinary units make it.
func fewIn(p patches, t device.Type) bool {
	const vector, threads, most = 8, 256, 64
	return t == device.BFloat16 && p.Gathers == 0 && p.Spreads == 0 && p.Depth == p.Left && (p.Left == 2 ||
		p.Left == 4) &&
		p.Right%vector == 0 && p.Right <= vector*most && threads%(p.Right/vector) == 0
}

// convFewIn appends such an adjoint.
func (k *kernel) convFewIn(a patches, p packing, y, x, w, bias operand) {
	const threads, vector, together, perSM = 256, 8, 4, 4
	packed := k.packWeights(p, device.BFloat16, w)
	step := together * threads * vector / int(a.Right) // rows of a block at a time
	per := blocksOf(blocksOf(int(a.Rows), step), perSM*k.d.processors) * step
	k.launch(fmt.Sprint("fewIn_", a.Left), grid{blocksOf(int(a.Rows), per), 1, 1}, threads, 0,
		struct{ Rows, Columns, PerBlock int32 }{a.Rows, a.Right, int32(per)}, y, x, packed, bias)
}

// isPoint says whether a convolution has one tap, and reads each voxel.
func isPoint(s device.ConvSpec) bool {
	one := [3]int{1, 1, 1}
	s, _ = s.Live()
	return s.Kernel == one && s.Stride == one && !s.Grouped()
}

// pointsPay says whether the weights of 1^3 have so few channels that tiles of 128 rows are empty
// for the most part. With more than 16 outputs x would be read several times.
func pointsPay(s device.ConvSpec) bool { return s.In <= 64 && s.Out <= 16 }

// pointWeights appends dw <- x, dy of a convolution with one tap.
func (k *kernel) pointWeights(s device.ConvSpec, dw, x, dy operand) {
	const rows, columns, voxels, leastChunks, stages, warps = 32, 16, 128, 2, 3, 8
	together := 2 // blocks of a multiprocessor
	if s.Type == device.BFloat16 {
		together = 4
	}
	blocks := grid{blocksOf(s.In, rows), blocksOf(s.Out, columns), 1}
	a := k.d.splitVoxels(s, blocks[0]*blocks[1], together, voxels, leastChunks)
	blocks[2] = int(a.Splits)
	parts := k.scratch(4 * int64(a.Splits) * int64(s.Out) * int64(s.In))
	shared := max(stages*voxels*(voxelPitch(s.Type, rows)+voxelPitch(s.Type, columns)), 4*warps*rows*columns)
	k.launch("pointWeights"+k.d.multiplier(s.Type), blocks, 256, shared, a, parts, x, dy)
	k.sumWeights(a.parts(s), dw, parts)
}
