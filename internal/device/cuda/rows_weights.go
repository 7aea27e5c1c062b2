//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// rowsWeights is rows_weights.cu's RowsWeights, but for the divisors.
type rowsWeights struct {
	In, Out               int32
	Size                  [3]int32
	Planes, Rows, Columns int32
	Tiles, PerSplit       int32
}

// rowsVoxel is the bytes of a voxel in shared memory, rowsStages the tiles there.
const rowsVoxel, rowsStages = 80, 3

// rowsWeightsFor says how rows_weights.cu makes the gradient of a convolution's weights, if it can.
func (d *Device) rowsWeightsFor(s device.ConvSpec) (a rowsWeights, ok bool) {
	const channels, side = 32, 16
	k, o := s.Kernel[0], s.OutSize()
	same := (k == 5 || k == 3) && s.Kernel == [3]int{k, k, k} && s.Stride == [3]int{1, 1, 1} && o == s.Size
	if !same || s.Type != device.BFloat16 || s.Grouped() || s.In%channels != 0 || s.Out%channels != 0 {
		return a, false
	}
	// tiles of about 16 x 16, as equal as can be; of small images several planes
	even := func(n int) int32 { return int32(blocksOf(n, blocksOf(n, side))) }
	a = rowsWeights{In: int32(s.In), Out: int32(s.Out), Size: int3(o), Planes: 1, Rows: even(o[1]), Columns: even(o[2])}
	a.Planes = max(1, min(int32(o[0]), side*side/2/(a.Rows*a.Columns)))
	for a.shared(k) > d.sharedMost {
		if a.Planes > 1 {
			a.Planes--
		} else if a.Rows--; a.Rows == 0 {
			return a, false
		}
	}
	across, down, deep := a.along()
	a.Tiles = int32(s.N * across * down * deep)
	return a, true
}

// along is how many tiles an image has along each axis, the last one first.
func (a rowsWeights) along() (across, down, deep int) {
	return blocksOf(int(a.Size[2]), int(a.Columns)), blocksOf(int(a.Size[1]), int(a.Rows)),
		blocksOf(int(a.Size[0]), int(a.Planes))
}

// shared is the bytes of shared memory that kernels of k taps along each axis take.
func (a rowsWeights) shared(k int) int {
	dy := blocksOf(int(a.Planes*a.Rows*a.Columns), 16) * 16
	x := int(a.Planes) * (int(a.Rows) + k - 1) * (int(a.Columns) + k - 1)
	return rowsStages * rowsVoxel * (dy + x)
}

// pays says whether tiles are large enough to be worth their halo: those of 4^3 and smaller images
// are better gathered.
func (a rowsWeights) pays() bool { return a.Rows >= 6 && a.Columns >= 6 }

// rowsWeights appends dw <- x, dy.
func (k *kernel) rowsWeights(s device.ConvSpec, a rowsWeights, dw, x, dy operand) {
	taps, channelTiles := s.Kernel[0], s.In/32*(s.Out/32)
	a.PerSplit = int32(blocksOf(int(a.Tiles), bestSplits(int(a.Tiles), taps*channelTiles, k.d.processors)))
	splits := blocksOf(int(a.Tiles), int(a.PerSplit))
	parts := k.scratch(4 * int64(splits) * int64(s.WShape().Elements()))
	across, down, deep := a.along()
	k.launch(fmt.Sprintf("rowsWeights_%d", taps), grid{taps, channelTiles, splits}, 128*taps, a.shared(taps), struct {
		rowsWeights
		ByAcross, ByDown, ByDeep              divisor
		ByColumns, ByRows, ByHalo, ByHaloRows divisor
	}{a, divisorOf(across), divisorOf(down), divisorOf(deep), divisorOf(int(a.Columns)), divisorOf(int(a.Rows)),
		divisorOf(int(a.Columns) + taps - 1), divisorOf(int(a.Rows) + taps - 1)}, parts, x, dy)
	k.sumWeights(wholeKernel(s, splits), dw, parts)
}

// wholeKernel is what sumWeights needs to know of parts that have all taps.
func wholeKernel(s device.ConvSpec, splits int) convWeights {
	return convWeights{Groups: 1, In: int32(s.In), Out: int32(s.Out), Kernel: int3(s.Kernel), Whole: int3(s.Kernel),
		Splits: int32(splits)}
}

// bestSplits is how many parts tiles are divided into, where each part takes so many blocks, of
// which a multiprocessor has one at a time: those that are over first, and of equally good ones the
// fewest, since parts are to be added up.
func bestSplits(tiles, blocks, processors int) (best int) {
	least := 0
	for splits := 1; splits <= min(tiles, max(1, 4*processors/blocks)); splits++ {
		took := blocksOf(blocks*splits, processors) * blocksOf(tiles, splits)
		if best == 0 || 100*took < 97*least {
			best, least = splits, took
		}
	}
	return best
}

// oneWeights says whether rows_weights.cu makes the gradient of the weights of one channel.
func oneWeights(s device.ConvSpec) bool {
	return s.Type == device.BFloat16 && forward(s).is5One(s.Type) && s.Out%16 == 0
}

// oneWeights appends dw <- x, dy of a convolution of one channel with 5^3 taps.
func (k *kernel) oneWeights(s device.ConvSpec, dw, x, dy operand) {
	const blocksOfProcessor, shared = 2, 8*8*16*48 + 2*2*(20*12*12+32)
	o := s.OutSize()
	along := [3]int{blocksOf(o[0], 8), blocksOf(o[1], 8), blocksOf(o[2], 16)}
	tiles, columns := s.N*along[0]*along[1]*along[2], s.Out/16
	perSplit := blocksOf(tiles, max(1, min(tiles, blocksOfProcessor*k.d.processors/columns)))
	splits := blocksOf(tiles, perSplit)
	parts := k.scratch(4 * int64(splits) * int64(s.WShape().Elements()))
	k.launch("oneWeights", grid{splits, columns, 1}, 256, shared, struct {
		Out             int32
		Size            [3]int32
		Tiles, PerSplit int32
		ByX, ByY, ByZ   divisor
	}{int32(s.Out), int3(o), int32(tiles), int32(perSplit), divisorOf(along[2]), divisorOf(along[1]),
		divisorOf(along[0])}, parts, x, dy)
	k.sumWeights(wholeKernel(s, splits), dw, parts)
}
