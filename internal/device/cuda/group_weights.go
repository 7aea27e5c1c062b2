//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// groupWeights is group_weights.cu's GroupWeights.
type groupWeights struct {
	In, Out              int32
	Size                 [3]int32
	Images               int32
	Columns, Rows, Slabs int32
	Steps, Ring          int32
	First                [6]int32
	Items, PerBlock      [5]int32
	ByAcross, ByDown     divisor
	ByLive               [3]divisor
	ByWide               divisor
}

// groupSteps is group_weights.cu's: products that are given to the tensor cores together.
const groupSteps = 8

// groupWeightsFor says how group_weights.cu makes the gradient of a convolution's weights, if it
// can: on GPUs of compute capability 9.0, with rows of 16 voxels, or of 8 where these are fewer.
func (d *Device) groupWeightsFor(s device.ConvSpec) (a groupWeights, ok bool) {
	const most = 5 // stages
	k, o := s.Kernel[0], s.OutSize()
	same := (k == 5 || k == 3) && s.Kernel == [3]int{k, k, k} && s.Stride == [3]int{1, 1, 1} && o == s.Size
	if !d.warpgroups || !same || s.Type != device.BFloat16 || s.Grouped() || s.In%rowsChannels != 0 ||
		s.Out%rowsChannels != 0 {
		return a, false
	}
	a = groupWeights{In: int32(s.In), Out: int32(s.Out), Size: int3(o), Images: int32(s.N), Columns: 16, Rows: 16,
		Slabs: 1, Steps: groupSteps}
	if 8*blocksOf(o[2], 8) < 16*blocksOf(o[2], 16) {
		a.Columns = 8
	}
	switch {
	case o[1] > 8 && a.Columns == 16:
		a.Steps = 2 * groupSteps
	case o[1] <= 8:
		a.Rows = 8
		a.Slabs = 16 / a.Columns
	}
	a.Ring = int32(min(most, d.sharedMost/a.stageBytes(k)))
	return a, a.Ring >= 3
}

// stageBytes is the bytes of a stage: x twice, and dy with the rows above and below.
func (a groupWeights) stageBytes(k int) int {
	groupX, groupY, tall := int(a.Columns)+k-1, int(a.Columns)+2, int(a.Rows)+k-1
	if k == 5 {
		groupX += 2
	}
	return 16 * 4 * int(a.Slabs) * (int(a.Rows)*2*groupX + tall*groupY)
}

// along is how many tiles an image has along its last axes.
func (a groupWeights) along() (across, down int) {
	return blocksOf(int(a.Size[2]), int(a.Columns)), blocksOf(int(a.Size[1]), int(a.Rows))
}

// share divides the stages among blocks, one at a time on a multiprocessor, and says how many share
// a plane of taps at most.
func (a *groupWeights) share(k, channelTiles, processors int) int {
	const (
		waves      = 4        // of blocks, at most
		partsBytes = 96 << 20 // of all parts, at most
		start, sum = 6, 8     // what a block takes besides, in stages; the share of its parts' sums
	)
	across, down := a.along()
	var r, best rowsWeights // whose way to count this is, too
	all, least := 0, 0
	for kz := range k {
		planes := int(a.Images) * max(0, int(a.Size[0])-abs(kz-k/2))
		r.Strips[kz] = int32(blocksOf(planes, int(a.Slabs)) * across * down)
		all += int(r.Strips[kz])
	}
	for wave := 1; wave <= waves; wave++ {
		per := max(1, channelTiles*all/(wave*processors))
		for channelTiles*r.divide(k, per) > wave*processors && per < all {
			per++
		}
		blocks := channelTiles * r.divide(k, per)
		took := sum*r.takes(k, 1, start, channelTiles, processors) + blocks
		size := 4 * r.splits() * int(a.In) * int(a.Out) * k * k * k
		if least == 0 || took < least && size <= partsBytes {
			best, least = r, took
		}
	}
	a.First, a.Items, a.PerBlock = best.First, best.Strips, best.PerBlock
	return best.splits()
}

// groupWeights appends dw <- x, dy.
func (k *kernel) groupWeights(s device.ConvSpec, a groupWeights, dw, x, dy operand) {
	taps, channelTiles := s.Kernel[0], s.In/rowsChannels*(s.Out/rowsChannels)
	splits := a.share(taps, channelTiles, k.d.processors)
	across, down := a.along()
	a.ByAcross, a.ByDown, a.ByWide = divisorOf(across), divisorOf(down), divisorOf(int(a.Columns)+taps)
	for i := range taps/2 + 1 {
		a.ByLive[i] = divisorOf(max(1, s.Size[0]-i))
	}
	parts := k.scratch(4 * int64(splits) * int64(s.WShape().Elements()))
	k.launch(fmt.Sprintf("groupWeights_%d", taps), grid{int(a.First[taps]), channelTiles, 1}, 128*((taps+1)/2),
		int(a.Ring)*a.stageBytes(taps), a, parts, x, dy)
	sum := wholeKernel(s, 0)
	for kz := range taps {
		sum.splits[kz] = a.First[kz+1] - a.First[kz]
	}
	k.sumWeights(sum, dw, parts)
}
