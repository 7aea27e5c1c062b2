package cpu

import (
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
)

// chunk is how many elements of a plane (one block of one image) a kernel that streams through
// memory takes at a time: 64 KiB, so that two or three tensors of it stay in L2. It is fixed, and
// sums over chunks are added in their order: the result does not depend on the number of threads.
const chunk = 1024 * block

// cacheElements is how many float32 the last cache is taken to hold: 32 MiB.
const cacheElements = 8 << 20

// pastCaches says whether to store a result past the caches: where it is too large to be found
// there by whoever reads it next, and not written over an operand, whose lines are there already.
func pastCaches(y Slice, operands ...Slice) bool {
	return len(y) >= cacheElements &&
		!slices.ContainsFunc(operands, func(x Slice) bool { return len(x) > 0 && &x[0] == &y[0] })
}

// chunks cuts planes into pieces of at most one chunk, and hands out pieces in items worth a
// worker's while.
type chunks struct {
	planes, plane int // their number, and the elements of each
	perPlane      int // pieces
	perItem       int
}

func chunksOf(planes, plane int) chunks {
	c := chunks{planes: planes, plane: plane, perPlane: (plane + chunk - 1) / chunk}
	c.perItem = c.neighbours(chunk)
	return c
}

// neighbours is how many pieces make an item: so many small planes as are one chunk; of large
// tensors up to 16 chunks, a mebibyte, in a row, as long as there remain enough items for many
// workers. Processors read ahead in long runs (a sum of 32 x 64^3 takes three quarters of the time
// that it takes chunk by chunk). limit is what a piece is at most.
func (c chunks) neighbours(limit int) int {
	if c.perPlane == 1 {
		return max(1, limit/c.plane)
	}
	return min(16, max(1, c.pieces()/64))
}

// flatChunks cuts an operand of any rank, whose layout does not matter, into chunks.
func flatChunks(c *CPU, s device.Shape) chunks { return chunksOf(1, elementsOf(s)) }

// planeChunks cuts an activation into chunks of one block of one image each.
func planeChunks(l layout) chunks { return chunksOf(l.n*l.blocks, l.voxels*l.lanes) }

func (c chunks) pieces() int { return c.planes * c.perPlane }
func (c chunks) items() int  { return (c.pieces() + c.perItem - 1) / c.perItem }

// item is the range of pieces of an item.
func (c chunks) item(i int) (first, end int) {
	return i * c.perItem, min((i+1)*c.perItem, c.pieces())
}

// piece is the plane of a piece and the range of its elements, counted from the first plane's first
// one.
func (c chunks) piece(i int) (plane, lo, hi int) {
	plane = i / c.perPlane
	lo = plane*c.plane + i%c.perPlane*chunk
	return plane, lo, min(lo+chunk, (plane+1)*c.plane)
}

// forRank returns the layout of a shape of rank 2 or 5: a matrix (rows, channels) is taken as rows
// images of channels blocks of one lane and one voxel.
func forRank(s device.Shape) layout {
	if len(s) == 5 {
		return layoutOf(s)
	}
	return layout{n: s[0], channels: s[1], blocks: s[1], between: s[1], lanes: 1, size: [3]int{1, 1, 1}, voxels: 1}
}

// liveLanes is the number of lanes of block b that hold channels.
func (l layout) liveLanes(b int) int { return min(l.lanes, l.channels-b*l.lanes) }

// spread fills the lanes of block b from one value a channel. Lanes past the last channel get 0; a
// tensor of one lane lies as if each voxel were a lane, so all 16 get its value.
func (l layout) spread(dst *[block]float32, b int, channels []float32) {
	if l.lanes == 1 {
		for i := range dst {
			dst[i] = channels[b]
		}
		return
	}
	*dst = [block]float32{}
	copy(dst[:], channels[b*block:min((b+1)*block, l.channels)])
}

// fold adds up what spread spread: where there is one lane, all 16 are sums for the same channel.
func (l layout) fold(s *[block]float32) {
	if l.lanes == 1 {
		sum := float32(0)
		for _, x := range s {
			sum += x
		}
		*s = [block]float32{sum}
	}
}
