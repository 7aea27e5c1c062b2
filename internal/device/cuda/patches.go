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
	const rows, columns, voxels, leastChunks, stages, warps, together = 32, 16, 128, 2, 3, 8, 2
	blocks := grid{blocksOf(s.In, rows), blocksOf(s.Out, columns), 1}
	a := k.d.splitVoxels(s, blocks[0]*blocks[1], together, voxels, leastChunks)
	blocks[2] = int(a.Splits)
	parts := k.scratch(4 * int64(a.Splits) * int64(s.Out) * int64(s.In))
	shared := max(stages*voxels*(voxelPitch(s.Type, rows)+voxelPitch(s.Type, columns)), 4*warps*rows*columns)
	k.launch("pointWeights"+k.d.multiplier(s.Type), blocks, 256, shared, a, parts, x, dy)
	k.sumWeights(a.parts(s), dw, parts)
}
