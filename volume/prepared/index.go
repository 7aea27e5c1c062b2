package prepared

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/seed"
)

// The index of a prepared case answers, without reading voxels: how much of a crop is air, and
// where is a voxel of this label.
//
//	blocks     for each block of 8x8x8 voxels (fewer at the far faces), i fastest, how many of them
//	           are not air in the first channel, as uint16
//	samples    for each label, ascending, the indices of min(count, 8192) of its voxels as uint32,
//	           ascending
const (
	blockSize  = 8
	maxSamples = 8192
)

// caseLayout says where the parts of a .vox file begin, in bytes.
type caseLayout struct {
	labels, blocks, samples, original, end int64
	labelBytes                             int // of one label: 1 or 2
	blockCount                             [3]int
}

func newCaseLayout(r Record) caseLayout {
	voxels := int64(r.Len())
	l := caseLayout{labels: 2 * voxels * int64(1+len(r.More)), labelBytes: 1}
	l.blocks = l.labels
	samples := 0
	for label, count := range r.LabelCounts {
		samples += min(count, maxSamples)
		if label > 255 {
			l.labelBytes = 2
		}
	}
	if r.HasLabels {
		l.blocks += voxels * int64(l.labelBytes)
	}
	for axis, n := range r.Shape {
		l.blockCount[axis] = (n + blockSize - 1) / blockSize
	}
	l.samples = l.blocks + 2*int64(l.blockCount[0])*int64(l.blockCount[1])*int64(l.blockCount[2])
	l.original = l.samples + 4*int64(samples)
	l.end = l.original + r.OriginalBytes
	return l
}

// countBody fills the blocks with the number of voxels that are not air, which is from one number
// to another, and returns their total.
func countBody(numbers []int16, shape, blockCount [3]int, air [2]int16) (blocks []uint16, total int) {
	blocks = make([]uint16, blockCount[0]*blockCount[1]*blockCount[2])
	for k := range shape[2] {
		for j := range shape[1] {
			row := numbers[shape[0]*(j+shape[1]*k):][:shape[0]]
			line := blocks[blockCount[0]*(j/blockSize+blockCount[1]*(k/blockSize)):][:blockCount[0]]
			for b := range line {
				n := uint16(0)
				for _, value := range row[b*blockSize : min((b+1)*blockSize, len(row))] {
					if value < air[0] || value > air[1] {
						n++
					}
				}
				line[b] += n
				total += int(n)
			}
		}
	}
	return blocks, total
}

// sampleForeground picks up to maxSamples voxels of every label: one at random in each of as many
// equal stretches of the label's voxels, so that they cover it evenly. The choice depends on the
// case's name only, so that a case prepared twice is the same.
func sampleForeground(labels []uint16, counts map[uint16]int, id string) [][]uint32 {
	type sampler struct {
		r           *rand.Rand
		seen, next  int // voxels of the label seen, and which one to take next
		count, want int
		taken       []uint32
	}
	draw := func(s *sampler) {
		t := len(s.taken)
		low, high := t*s.count/s.want, (t+1)*s.count/s.want
		s.next = low + s.r.IntN(high-low)
	}
	samplers := make(map[uint16]*sampler, len(counts))
	for label, count := range counts {
		s := &sampler{r: seed.Rand(0, "foreground/"+id, uint64(label)), count: count, want: min(count, maxSamples)}
		draw(s)
		samplers[label] = s
	}
	var last uint16
	var s *sampler
	for at, label := range labels {
		if label == 0 {
			continue
		}
		if label != last {
			last, s = label, samplers[label]
		}
		if s.seen == s.next {
			s.taken = append(s.taken, uint32(at))
			if len(s.taken) < s.want {
				draw(s)
			}
		}
		s.seen++
	}
	all := make([][]uint32, 0, len(counts))
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, samplers[label].taken)
	}
	return all
}

// Foreground draws a voxel of the label from the sample taken when the case was prepared. Label 0
// asks for any: first a label among those present, each as likely as the others, then one of its
// voxels. It returns false where the case has no such voxel.
func (c *Case) Foreground(label int, r *rand.Rand) (voxel [3]int, found bool, err error) {
	if len(c.LabelCounts) == 0 || label < 0 || label > 0xffff {
		return voxel, false, nil
	}
	v, end, ok := c.begin(&err)
	if !ok {
		return voxel, false, err
	}
	defer end()
	which := r.IntN(len(v.present))
	if label > 0 {
		if which, found = slices.BinarySearch(v.present, uint16(label)); !found {
			return voxel, false, nil
		}
	}
	at := v.layout.samples
	for _, before := range v.present[:which] {
		at += 4 * int64(min(c.LabelCounts[before], maxSamples))
	}
	at += 4 * int64(r.IntN(min(c.LabelCounts[v.present[which]], maxSamples)))
	// A damaged file must not send a crop outside the scan.
	n := int(binary.LittleEndian.Uint32(v.bytes[at:])) % c.Len()
	return [3]int{n % c.Shape[0], n / c.Shape[0] % c.Shape[1], n / (c.Shape[0] * c.Shape[1])}, true, nil
}

// AirFraction tells which share of a crop is air, what lies outside the scan included. It is read
// from counts of 8x8x8 blocks, a block that lies partly in the crop counting in proportion: a few
// microseconds, and exact where the crop's faces fall between blocks.
func (c *Case) AirFraction(origin, size [3]int) (air float64, err error) {
	if size[0] < 1 || size[1] < 1 || size[2] < 1 {
		return 1, nil
	}
	v, end, ok := c.begin(&err)
	if !ok {
		return 0, err
	}
	defer end()
	blocks := v.bytes[v.layout.blocks:v.layout.samples]
	count := v.layout.blockCount
	var first, last [3]int // blocks touched: [first, last)
	for axis := range first {
		first[axis] = max(origin[axis], 0) / blockSize
		last[axis] = min((min(origin[axis]+size[axis], c.Shape[axis])+blockSize-1)/blockSize, count[axis])
	}
	// share of a block's voxels along one axis that lie in the crop
	share := func(axis, block int) float64 {
		from, to := block*blockSize, min((block+1)*blockSize, c.Shape[axis])
		inside := min(to, origin[axis]+size[axis]) - max(from, origin[axis])
		return float64(max(inside, 0)) / float64(to-from)
	}
	body := 0.0
	for k := first[2]; k < last[2]; k++ {
		sk := share(2, k)
		for j := first[1]; j < last[1]; j++ {
			line := 0.0
			for i := first[0]; i < last[0]; i++ {
				line += share(0, i) * float64(binary.LittleEndian.Uint16(blocks[2*(i+count[0]*(j+count[1]*k)):]))
			}
			body += line * share(1, j) * sk
		}
	}
	return 1 - body/(float64(size[0])*float64(size[1])*float64(size[2])), nil
}
