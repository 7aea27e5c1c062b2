package volume

import (
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// This file: which box of a scan is prepared. Around a patient a CT shows air, often more of it
// than patient, and a network learns nothing from it.

// A Box lies in a grid: Size voxels from Origin on.
type Box struct {
	Origin [3]int `json:"origin"`
	Size   [3]int `json:"size"`
}

// Bounds are the box of a scan that is prepared, and the grid of the whole scan.
type Bounds struct {
	Scan Grid
	Box
}

// Whole are the bounds that leave nothing out.
func (g Grid) Whole() Bounds { return Bounds{g, Box{Size: g.Shape}} }

// IsWhole reports whether nothing is left out.
func (p Bounds) IsWhole() bool { return p.Box == Box{Size: p.Scan.Shape} }

// Grid is that of the voxels in the box.
func (p Bounds) Grid() Grid {
	if p.IsWhole() {
		return p.Scan // to the bit
	}
	return p.Scan.Cropped(p.Origin, p.Size)
}

// Share is how many of the scan's voxels lie in the box, from 0 to 1.
func (p Bounds) Share() float64 {
	return float64(p.Size[0]) * float64(p.Size[1]) * float64(p.Size[2]) / float64(p.Scan.Len())
}

// Check says what is wrong with a box that does not lie inside the scan.
func (p Bounds) Check() error {
	for a := range 3 {
		if p.Origin[a] < 0 || p.Size[a] < 1 || p.Size[a] > p.Scan.Shape[a]-p.Origin[a] {
			return fmt.Errorf("a box of %v voxels from %v on does not lie in a scan of %v", numbers.Extents(p.Size[:]),
				numbers.List(p.Origin[:]), numbers.Extents(p.Scan.Shape[:]))
		}
	}
	return nil
}

// of says whether they are bounds in a scan on g.
func (p Bounds) of(g Grid) error {
	if p.Scan.Shape != g.Shape {
		return fmt.Errorf("a box in a scan of %v voxels is none in one of %v", numbers.Extents(p.Scan.Shape[:]),
			numbers.Extents(g.Shape[:]))
	}
	return p.Check()
}

// What Body takes for the patient.
const (
	bodyHU     = -500 // air is at -1000 HU, fat at -100; lung is inside
	bodyBlock  = 4.0  // mm: side of the blocks of voxels that are looked at together
	bodyMargin = 10.0 // mm that are added on every side
	// Pieces with at least this share of the largest one's volume belong to the patient: legs and
	// arms that the scan shows without what joins them.
	bodyPiece = 0.01
)

// Body is the box of the patient, found from the image alone. Blocks of about 4 mm are tissue where
// more than half of their voxels are above -500 HU. What is thinner than three blocks is taken away
// by an erosion, so that the shell of a table neither counts nor joins the patient to something
// else; pieces of less than a hundredth of the largest one's volume are left out; the erosion is
// made good, and 10 mm are added on every side. Where no tissue is found, it is the whole scan.
func (v *Volume) Body() Bounds {
	whole := v.Whole()
	b := newBodyBlocks(v)
	inner := b.eroded()
	grown := 1 // blocks that the erosion took
	if !inner.any() {
		inner, grown = b, 0
	}
	low, high, found := inner.pieces()
	if !found {
		return whole
	}
	bounds, spacing := whole, v.Spacing()
	for a := range 3 {
		margin := int(math.Ceil(bodyMargin/spacing[a])) + grown*b.side[a]
		from := max(low[a]*b.side[a]-margin, 0)
		to := min((high[a]+1)*b.side[a]+margin, v.Shape[a])
		bounds.Origin[a], bounds.Size[a] = from, to-from
	}
	return bounds
}

// Nonzero is the box around the voxels that are not 0: where there is no signal, masks and
// reconstructions of MR and PET write 0. It is what nnU-Net crops scans to. It holds what is not 0
// in any of the further channels, too, which have the same voxels. Where all voxels are 0, it is
// the whole scan.
func (v *Volume) Nonzero(more ...*Volume) Bounds {
	low, high := v.Shape, [3]int{-1, -1, -1}
	for _, channel := range append([]*Volume{v}, more...) {
		channel.widen(&low, &high)
	}
	bounds := v.Whole()
	if high[0] < 0 {
		return bounds
	}
	for a := range 3 {
		bounds.Origin[a], bounds.Size[a] = low[a], high[a]+1-low[a]
	}
	return bounds
}

// widen widens a box, from its lowest to its highest voxel, to hold the voxels that are not 0.
func (v *Volume) widen(low, high *[3]int) {
	for k := range v.Shape[2] {
		for j := range v.Shape[1] {
			first, last := v.Shape[0], -1
			at := v.Index(0, j, k)
			for i := range v.Shape[0] {
				if v.Int16 != nil && v.Int16[at+i] != 0 || v.Int16 == nil && v.Float32[at+i] != 0 {
					first, last = min(first, i), i
				}
			}
			if last >= 0 {
				*low = [3]int{min(low[0], first), min(low[1], j), min(low[2], k)}
				*high = [3]int{max(high[0], last), max(high[1], j), max(high[2], k)}
			}
		}
	}
}

// bodyBlocks says of each block of a scan's voxels whether it is tissue.
type bodyBlocks struct {
	side   [3]int // of a block in voxels; the last one along an axis may be shorter
	shape  [3]int
	tissue []bool // i fastest
}

func newBodyBlocks(v *Volume) *bodyBlocks {
	b := &bodyBlocks{}
	spacing := v.Spacing()
	for a := range 3 {
		b.side[a] = min(max(1, int(math.Round(bodyBlock/spacing[a]))), v.Shape[a])
		b.shape[a] = (v.Shape[a] + b.side[a] - 1) / b.side[a]
	}
	b.tissue = make([]bool, b.shape[0]*b.shape[1]*b.shape[2])
	parallel(b.shape[2], func(k int) { b.layer(v, k) })
	return b
}

// layer counts the voxels of one layer of blocks.
func (b *bodyBlocks) layer(v *Volume, k int) {
	above := make([]int32, b.shape[0]*b.shape[1])
	from, to := k*b.side[2], min((k+1)*b.side[2], v.Shape[2])
	for z := from; z < to; z++ {
		for y := range v.Shape[1] {
			counts := above[b.shape[0]*(y/b.side[1]):][:b.shape[0]]
			first := v.Index(0, y, z)
			if v.Int16 != nil {
				countAbove(counts, v.Int16[first:first+v.Shape[0]], b.side[0])
			} else {
				countAbove(counts, v.Float32[first:first+v.Shape[0]], b.side[0])
			}
		}
	}
	for n, count := range above {
		i, j := n%b.shape[0], n/b.shape[0]
		width := min((i+1)*b.side[0], v.Shape[0]) - i*b.side[0]
		height := min((j+1)*b.side[1], v.Shape[1]) - j*b.side[1]
		b.tissue[k*len(above)+n] = 2*int(count) > width*height*(to-from)
	}
}

// countAbove adds to each block's count the voxels of a row that are tissue.
func countAbove[T int16 | float32](counts []int32, row []T, side int) {
	for n := range counts {
		for _, x := range row[n*side : min((n+1)*side, len(row))] {
			if x > bodyHU {
				counts[n]++
			}
		}
	}
}

// eroded leaves the blocks whose six neighbours are tissue, too. Beyond the scan the patient goes
// on.
func (b *bodyBlocks) eroded() *bodyBlocks {
	o := &bodyBlocks{side: b.side, shape: b.shape, tissue: make([]bool, len(b.tissue))}
	parallel(b.shape[2], func(k int) {
		plane := b.shape[0] * b.shape[1]
		for n := k * plane; n < (k+1)*plane; n++ {
			o.tissue[n] = b.tissue[n]
			b.neighbours(n, func(m int) { o.tissue[n] = o.tissue[n] && b.tissue[m] })
		}
	})
	return o
}

func (b *bodyBlocks) any() bool { return slices.Contains(b.tissue, true) }

// neighbours calls f for each block that shares a face with block n.
func (b *bodyBlocks) neighbours(n int, f func(m int)) {
	stride := 1
	for a := range 3 {
		at := n / stride % b.shape[a]
		if at > 0 {
			f(n - stride)
		}
		if at+1 < b.shape[a] {
			f(n + stride)
		}
		stride *= b.shape[a]
	}
}

// pieces gives the corners of the box, in blocks, around all connected pieces that are large enough
// to belong to the patient.
func (b *bodyBlocks) pieces() (low, high [3]int, found bool) {
	type piece struct {
		low, high [3]int
		size      int
	}
	var all []piece
	largest := 0
	seen := make([]bool, len(b.tissue))
	var front []int
	for start, is := range b.tissue {
		if !is || seen[start] {
			continue
		}
		p := piece{low: b.shape}
		front, seen[start] = append(front[:0], start), true
		for len(front) > 0 {
			n := front[len(front)-1]
			front = front[:len(front)-1]
			p.size++
			at := [3]int{n % b.shape[0], n / b.shape[0] % b.shape[1], n / b.shape[0] / b.shape[1]}
			for a := range 3 {
				p.low[a], p.high[a] = min(p.low[a], at[a]), max(p.high[a], at[a])
			}
			b.neighbours(n, func(m int) {
				if b.tissue[m] && !seen[m] {
					seen[m] = true
					front = append(front, m)
				}
			})
		}
		all = append(all, p)
		largest = max(largest, p.size)
	}
	low = b.shape
	for _, p := range all {
		if float64(p.size) < bodyPiece*float64(largest) {
			continue
		}
		for a := range 3 {
			low[a], high[a] = min(low[a], p.low[a]), max(high[a], p.high[a])
		}
	}
	return low, high, len(all) > 0
}
