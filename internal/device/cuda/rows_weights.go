//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// rowsWeights is rows_weights.cu's RowsWeights.
type rowsWeights struct {
	In, Out                     int32
	Size                        [3]int32
	Images                      int32
	Columns, Edge               int32
	Rows, Ring                  int32
	Bundles                     int32
	Cut                         int32
	First                       [6]int32
	Strips, PerBlock            [5]int32
	ByAcross, ByCuts            divisor
	ByLive                      [3]divisor
	ByColumns, ByWide, ByHeight divisor
}

// Those of rows_weights.cu: channels of a tile, planes of a bundle, stages under way, bytes.
const rowsChannels, rowsBundle, rowsAhead, rowsVoxel, rowsPad, rowsEntry = 32, 16, 2, 64, 16, 8

// rowsWeightsFor says how rows_weights.cu makes the gradient of a convolution's weights, if it can:
// with strips of as many columns as shared memory holds, and stages of at least so many rows that
// their work is worth a barrier.
func (d *Device) rowsWeightsFor(s device.ConvSpec) (a rowsWeights, ok bool) {
	const side, stageBytes = 16, 38 << 10
	k, o := s.Kernel[0], s.OutSize()
	same := (k == 5 || k == 3) && s.Kernel == [3]int{k, k, k} && s.Stride == [3]int{1, 1, 1} && o == s.Size
	if !same || s.Type != device.BFloat16 || s.Grouped() || s.In%rowsChannels != 0 || s.Out%rowsChannels != 0 {
		return a, false
	}
	for most := side; most > 0; most-- {
		across := blocksOf(o[2], most)
		a = rowsWeights{In: int32(s.In), Out: int32(s.Out), Size: int3(o), Images: int32(s.N), Bundles: 1,
			Columns: int32(blocksOf(o[2], across)), Cut: int32(o[1])}
		if across > 1 {
			a.Edge = int32(k / 2)
		}
		rows := max(1, stageBytes/a.rowBytes())
		back := 0 // stages that are kept for the rows that later ones meet
		if rows >= o[1] {
			a.Bundles = int32(min(rows/o[1], blocksOf(s.N*o[0], rowsBundle), 16))
			rows = o[1] * int(a.Bundles)
		} else {
			rows = blocksOf(o[1], blocksOf(o[1], rows))
			back = blocksOf(k/2, rows)
		}
		a.Rows, a.Ring = int32(rows), int32(rows*(1+rowsAhead+back))
		if a.shared() <= d.sharedMost {
			return a, true
		}
	}
	return a, false
}

// rowBytes is the bytes of a row of dy and of one of x.
func (a rowsWeights) rowBytes() int {
	return rowsBundle * (rowsVoxel*int(2*a.Columns+2*a.Edge) + 2*rowsPad)
}

// shared is the bytes of shared memory of a block.
func (a rowsWeights) shared() int {
	return int(a.Ring)*a.rowBytes() + rowsEntry*rowsBundle*int(a.Rows)*int(2*a.Columns+2*a.Edge)
}

// pays says whether at least half of a bundle are planes.
func (a rowsWeights) pays() bool { return 2*a.Images*a.Size[0] >= rowsBundle }

// share divides the strips among blocks, one at a time on a multiprocessor: whole columns of an
// image, or parts of them where there would be too few, so that the last block is over first. Parts
// that are to be added up count, too.
func (a *rowsWeights) share(k, channelTiles, processors int) {
	const (
		waves      = 8        // of blocks, at most
		partsBytes = 96 << 20 // of all parts, at most
		start, sum = 16, 8    // what a block takes besides, and the share of its parts' sums
		cutAtLeast = 4
		better     = 97 // percent of what the best one takes: less is no reason for more parts
	)
	best, least := *a, 0
	for cut := a.Size[1]; ; cut = (cut + 1) / 2 {
		c := *a
		c.Cut = cut
		across, cuts := blocksOf(int(a.Size[2]), int(a.Columns)), blocksOf(int(a.Size[1]), int(cut))
		c.ByAcross, c.ByCuts = divisorOf(across), divisorOf(cuts)
		most, all := 0, 0
		for kz := range k {
			planes := int(a.Images) * max(0, int(a.Size[0])-abs(kz-k/2))
			c.Strips[kz] = int32(blocksOf(planes, rowsBundle*int(a.Bundles)) * across * cuts)
			most, all = max(most, int(c.Strips[kz])), all+int(c.Strips[kz])
		}
		rows, lead := int(cut*a.Bundles), 0
		if cuts > 1 {
			lead = k / 2
		}
		strip := int(a.Columns)*(3*rows+lead)/3 + blocksOf(rows+lead, int(a.Rows))
		for wave, per := 1, 0; wave <= waves && per != 1; wave++ {
			room := wave * processors
			for per = max(1, channelTiles*all/room); per < most && channelTiles*c.divide(k, per) > room; {
				per++
			}
			blocks := channelTiles * c.divide(k, per)
			took := sum*c.takes(k, strip, start, channelTiles, processors) + blocks
			size := 4 * c.splits() * int(a.In) * int(a.Out) * k * k * k
			if least == 0 || 100*took < better*least && size <= partsBytes {
				best, least = c, took
			}
		}
		if a.Bundles > 1 || a.Rows >= a.Size[1] || cut/2 < max(cutAtLeast, a.Rows) {
			break
		}
	}
	*a = best
}

// divide gives each block at most so many strips, as equally as can be, and says how many blocks
// there are of a tile of channels.
func (a *rowsWeights) divide(k, strips int) int {
	for kz := range k {
		n := int(a.Strips[kz])
		a.PerBlock[kz] = int32(blocksOf(n, max(1, blocksOf(n, strips))))
		a.First[kz+1] = a.First[kz]
		if n > 0 {
			a.First[kz+1] += int32(blocksOf(n, int(a.PerBlock[kz])))
		}
	}
	return int(a.First[k])
}

// splits is how many blocks share a plane of taps, at most.
func (a rowsWeights) splits() (n int) {
	for kz := range a.Strips {
		n = max(n, int(a.First[kz+1]-a.First[kz]))
	}
	return n
}

// takes is when the last block is over, if each multiprocessor takes the next one when it is free.
func (a rowsWeights) takes(k, strip, start, channelTiles, processors int) (last int) {
	free := make([]int, processors) // a heap
	for range channelTiles {
		for kz := range k {
			for left := int(a.Strips[kz]); left > 0; left -= int(a.PerBlock[kz]) {
				free[0] += start + strip*min(left, int(a.PerBlock[kz]))
				last = max(last, free[0])
				for i := 0; ; {
					child := 2*i + 1
					if child+1 < processors && free[child+1] < free[child] {
						child++
					}
					if child >= processors || free[i] <= free[child] {
						break
					}
					free[i], free[child] = free[child], free[i]
					i = child
				}
			}
		}
	}
	return last
}

func abs(n int) int { return max(n, -n) }

// rowsWeights appends dw <- x, dy.
func (k *kernel) rowsWeights(s device.ConvSpec, a rowsWeights, dw, x, dy operand) {
	taps, channelTiles := s.Kernel[0], s.In/rowsChannels*(s.Out/rowsChannels)
	a.share(taps, channelTiles, k.d.processors)
	for i := range taps/2 + 1 {
		a.ByLive[i] = divisorOf(max(1, s.Size[0]-i))
	}
	a.ByColumns, a.ByWide = divisorOf(int(a.Columns)), divisorOf(int(a.Columns+2*a.Edge))
	a.ByHeight = divisorOf(s.Size[1])
	parts := k.scratch(4 * int64(a.splits()) * int64(s.WShape().Elements()))
	blocks := grid{int(a.First[taps]), channelTiles, 1}
	k.launch(fmt.Sprintf("rowsWeights_%d", taps), blocks, 128*taps, a.shared(), a, parts, x, dy)
	sum := wholeKernel(s, 0)
	for kz := range taps {
		sum.splits[kz] = a.First[kz+1] - a.First[kz]
	}
	k.sumWeights(sum, dw, parts)
}

// wholeKernel is what sumWeights needs to know of so many parts that have all taps.
func wholeKernel(s device.ConvSpec, splits int) weightParts {
	return weightParts{out: s.Out, in: s.In, kernel: s.Kernel, whole: s.Kernel, splits: allSplits(splits)}
}

// oneWeights says whether rows_weights.cu makes the gradient of the weights of one channel.
func oneWeights(s device.ConvSpec) bool {
	return s.Type == device.BFloat16 && forward(s).is5One(s.Type) && s.Out%16 == 0
}

// oneWeights appends dw <- x, dy of a convolution of one channel with 5^3 taps.
func (k *kernel) oneWeights(s device.ConvSpec, dw, x, dy operand) {
	const blocksOfProcessor, shared = 2, 2*8*8*16*32 + 2*2*(20*12*12+32)
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
