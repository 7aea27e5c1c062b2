package nnunet

import (
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: what a scan takes, and how it is taken apart where that is too much. The sums of
// logits are most of it. They are held for the rows of one band at a time, and the windows that
// reach into two bands are computed for each: no sum is another one, and it takes longer.

// band is rows of the scan's part, along axis 1, and the rows of logits that decide on them.
type band struct{ rows, logits [2]int }

// bandsOf shares rows out among so many bands, at most.
func bandsOf(rows taps, count int) (all []band) {
	n := len(rows.index) / rows.width
	count = min(count, n)
	for b := range count {
		from, to := b*n/count, (b+1)*n/count
		all = append(all, band{[2]int{from, to},
			[2]int{rows.index[from*rows.width], rows.index[to*rows.width-1] + 1}})
	}
	return all
}

// rowsOf is how many rows of logits the largest of bands has.
func rowsOf(bands []band) (most int) {
	for _, b := range bands {
		most = max(most, b.logits[1]-b.logits[0])
	}
	return most
}

// reach lists the starts along axis 1 of the windows that reach into rows of the padded scan.
func reach(padded, patch int, step float64, rows [2]int) (all []int) {
	for _, j := range starts(padded, patch, step) {
		if j < rows[1] && j+patch > rows[0] {
			all = append(all, j)
		}
	}
	return all
}

// extent is what the need of a scan follows from: its part on the network's grid, and on its own.
type extent struct {
	scan      int64  // voxels of the whole scan
	logits    [3]int // shape on the network's grid
	rows      taps   // along axis 1
	preparing int64  // bytes
	held      int64  // bytes that stay while windows are computed
}

// extentOf is that of a scan of a shape and a spacing, transposed, of which nothing is cropped.
func (p *Predictor) extentOf(shape [3]int, spacing [3]float64, voxelBytes int64) (extent, error) {
	own := shape
	e := extent{scan: int64(shape[0]) * int64(shape[1]) * int64(shape[2])}
	channels, target := int64(len(p.Plan.Channels)), p.target(spacing)
	for a := range 3 {
		m := int(math.RoundToEven(spacing[a] / target[a] * float64(shape[a])))
		if m < 1 {
			return e, fmt.Errorf("the scan of %s voxels of %v mm has no voxel of the model's %v mm along one axis",
				numbers.Extents(own[:]), spacing, target)
		}
		e.logits[a] = m
	}
	orders, _ := p.probabilities.orders(target, spacing)
	e.rows = rowTaps(e.logits, own, orders)
	resampled := 4 * int64(e.logits[0]) * int64(e.logits[1]) * int64(e.logits[2])
	// as they were read beside float32; then of one channel at a time what is made of it, beside
	// the others; all that beside what is not 0
	e.preparing = e.scan + max(channels*e.scan*max(voxelBytes+4, 4+2), 4*e.scan*(channels+1))
	if e.logits != own {
		e.preparing = max(e.preparing, channels*(4*e.scan+resampled)+
			p.data.between(own, e.logits, spacing, target)+e.scan)
	}
	if p.summed { // what other models said is there already
		e.preparing += p.told(e.scan)
	}
	e.held = channels*resampled + 2*e.scan + p.told(e.scan) // the label map
	return e, nil
}

// told is the memory of what is given beside the label map, for a scan of so many voxels.
func (p *Predictor) told(voxels int64) int64 {
	if !p.options.Probabilities {
		return 0
	}
	return 4 * int64(p.Heads()) * voxels
}

// inferring is the memory that windows over so many bands take.
func (p *Predictor) inferring(e extent, count int) int64 {
	padded, window := e.logits, int64(1)
	for a, n := range p.Patch {
		padded[a] = max(padded[a], n)
		window *= int64(n)
	}
	heads, rows := int64(p.Heads()), rowsOf(bandsOf(e.rows, count))
	_, depth := p.together(len(p.checkpoints))
	sums := int64(depth) * int64(rows) * int64(padded[2])
	// of logits: the newest, and two that decide
	planes := 3 * heads * int64(rows) * int64(padded[2])
	opinions := len(p.checkpoints)
	if p.aside() {
		opinions++
	}
	if opinions > 1 {
		planes += heads * int64(rows) * int64(padded[2])
	}
	if p.options.Agreement { // their labels of a plane, and the highest logits
		planes += int64(opinions+1) * int64(rows) * int64(padded[2])
	}
	inputs := int64(p.Network.In) * window
	if len(p.mirror) > 1 {
		inputs += inputs + p.values
	}
	if p.aside() {
		inputs += p.values
	}
	return e.held + 2*sums*(heads+1)*int64(opinions) + 2*planes + 4*inputs + 6*window
}

// windows is how many windows so many bands take, of all folds.
func (p *Predictor) windows(e extent, count int) (n int) {
	padded, before := pad(e.logits, p.Patch)
	for _, b := range bandsOf(e.rows, count) {
		n += len(reach(padded[1], p.Patch[1], p.step, [2]int{b.logits[0] + before[1], b.logits[1] + before[1]}))
	}
	n *= len(p.layers(padded[0], p.step)) * len(starts(padded[2], p.Patch[2], p.step))
	return n * len(p.checkpoints)
}

// mostBands is how many bands a scan is taken apart into at most: more save little.
const mostBands = 32

// count is into how many bands a scan is taken apart, so that it fits into the room: as few as
// possible. Where it does not fit, it is the most.
func (p *Predictor) count(e extent, room int64) int {
	for n := 1; n < mostBands; n++ {
		if p.inferring(e, n) <= room {
			return n
		}
	}
	return mostBands
}

// room is the memory that is left for a scan.
func (p *Predictor) room() int64 {
	if p.memory <= 0 {
		return math.MaxInt64
	}
	return max(p.memory-p.Bytes(), 0)
}

// scanned is the extent of a scan on a grid.
func (p *Predictor) scanned(g volume.Grid, voxelBytes int) (extent, error) {
	t, err := p.turn(g, [3]float64{})
	if err != nil {
		return extent{}, err
	}
	return p.extentOf(permuted([3]int{t.grid.Shape[2], t.grid.Shape[1], t.grid.Shape[0]}, p.Forward),
		permuted(t.spacing, p.Forward), int64(voxelBytes))
}

// Need is the memory in bytes that a scan on a grid takes at most, its voxels taking so many bytes
// in each channel as they were read, together with the network. Where there is not enough for both,
// the network is let go of while the scan is prepared, and windows are computed for a band of the
// scan at a time.
func (p *Predictor) Need(g volume.Grid, voxelBytes int) int64 {
	e, err := p.scanned(g, voxelBytes)
	if err != nil {
		return 0 // which is said when it is prepared
	}
	return max(e.preparing, p.Bytes()+p.inferring(e, p.count(e, p.room())))
}

// crowded says whether a scan cannot be prepared beside the network.
func (p *Predictor) crowded(g volume.Grid, voxelBytes int) bool {
	e, err := p.scanned(g, voxelBytes)
	return err == nil && p.memory > 0 && e.preparing > p.room()
}

// Fits says whether there is memory for a scan, before it is read.
func (p *Predictor) Fits(g volume.Grid, voxelBytes int) error {
	return p.fits(g, p.Need(g, voxelBytes))
}

// fits says whether a scan's need is within the limit of memory.
func (p *Predictor) fits(g volume.Grid, need int64) error {
	if p.memory <= 0 || need <= p.memory {
		return nil
	}
	return fmt.Errorf("a scan of %s voxels takes %d MiB of memory with this model of %d classes, "+
		"whose network takes %d of them, and %d may be taken: raise --memory, take fewer folds, or a part of the scan",
		numbers.Extents(g.Shape[:]), need>>20, p.Heads(), p.Bytes()>>20, p.memory>>20)
}

// apart says how a scan is taken apart.
func (p *Predictor) apart(e extent, count int) string {
	return fmt.Sprintf("in %d bands, to keep to the memory: the same label map, from %.1f times as many windows", count,
		float64(p.windows(e, count))/float64(p.windows(e, 1)))
}
