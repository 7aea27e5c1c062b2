package dataset

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file plans memory: what is known from headers says how much reading, preparing or comparing
// will take, before any of it is taken. The figures are upper bounds of what was measured
// (TestPreparingTakesWhatIsPlanned); what a header does not say is held by the readers, which ask
// internal/memory themselves.

// Bytes for each voxel.
const (
	labelBytes = 2
	// preparing: a scan as it was read and once more, cropped, windowed or turned
	copiesOfScan = 3
	// labels as they were read and turned; what else is made of them comes when the scan is gone
	copiesOfLabels = 2
	// what is resampled linearly is made plane by plane, in the scan's type and then as int16;
	// other ways hold float32 of both grids
	otherBytes         = 16
	preparedLabelBytes = 4
)

// An extent is what a header says of voxels: how many there are, and the bytes of one in memory.
type extent struct {
	voxels, voxelBytes int64
	grid               volume.Grid
}

func (e extent) bytes() int64 { return e.voxels * e.voxelBytes }

// extentOf is that of one volume of a file, or, where all are read, of them together.
func extentOf(h *format.Header, all bool) extent {
	e := extent{int64(h.Len()), int64(h.VoxelBytes), h.Grid}
	if all {
		e.voxels *= int64(max(h.Volumes, 1))
	}
	return e
}

func (c Case) extentOfSeries() extent {
	return extent{int64(c.series.Grid.Len()), int64(c.seriesBytes()), c.series.Grid}
}

// seriesBytes is the bytes of a voxel of the case's series.
func (c Case) seriesBytes() int {
	if c.suv {
		return 4
	}
	return c.series.VoxelBytes()
}

// Located is the case with its series, where that is one that nobody has chosen yet: the header
// tells how large it is.
func (c Case) Located() Case {
	asksSegments := c.Labels != "" && c.Masks == nil && c.structures == nil && !format.IsName(c.Labels) &&
		c.Series == ""
	if c.refused != nil || c.series != nil || asksSegments || !c.IsDICOM() {
		return c
	}
	if s, why, err := c.findSeries(); err == nil { // reading says what is wrong
		c.series, c.why = s, why
	}
	return c
}

// scanExtent is that of the case's scan; unknown before it is read where known is false.
func (c Case) scanExtent() (e extent, known bool) {
	switch {
	case c.series != nil:
		return c.extentOfSeries(), c.series.Err == nil
	case c.refused != nil || c.IsDICOM():
		return e, false
	}
	h, err := format.ReadHeader(c.Image)
	if err != nil {
		return e, false
	}
	return extentOf(h, false), true
}

// labelsAtOnce is the bytes that reading labels from a file takes: of several volumes, each is
// there as it was read and as a mask.
func labelsAtOnce(h *format.Header) int64 {
	if h.Volumes > 1 {
		return 3 * labelBytes * int64(h.Len()) * int64(h.Volumes)
	}
	return labelBytes * int64(h.Len())
}

// labelBytesOf is the bytes of a case's labels once they are read, and those that reading them
// takes beside: masks are read one after another.
func (c Case) labelBytesOf(scan extent) (labels, beside int64) {
	if c.Labels == "" {
		return 0, 0
	}
	paths := []string{c.Labels}
	if c.Masks != nil && c.structures == nil {
		paths = maskPaths(c.Masks)
	}
	labels = labelBytes * scan.voxels // contours, segments and what cannot be read
	for _, path := range paths {
		if !format.IsName(path) {
			continue
		}
		if h, err := format.ReadHeader(path); err == nil {
			labels = max(labels, labelBytes*int64(h.Len()))
			beside = max(beside, labelsAtOnce(h))
		}
	}
	return labels, beside
}

// PreparedBytes is what a case takes on the disk once it is prepared, but for a few KiB: an image
// of each channel and, if there are any, labels. Where a part of the scan is cropped, it is less.
// It is 0 where the headers do not tell.
func (c Case) PreparedBytes(p volume.Preparation) int64 {
	scan, known := c.Located().scanExtent()
	if !known {
		return 0
	}
	g, err := p.Grid(scan.grid)
	if err != nil {
		return 0 // preparing says what is wrong
	}
	const imageBytes, mostLabelBytes = 2, 1 // numbers of labels above 255 take two
	need := imageBytes * int64(g.Len()) * int64(1+len(c.More))
	if c.Labels != "" {
		need += mostLabelBytes * int64(g.Len())
	}
	return need
}

// Memory is the bytes that preparing a case takes, at most: the scan, its labels and the copies
// that windowing, turning and resampling make. Where the headers do not tell, known is false and
// the figure a guess.
func (c Case) Memory(p volume.Preparation) (need int64, known bool) {
	scan, known := c.scanExtent()
	if !known {
		const unknown = 16 // bytes for each byte of files that may be compressed
		size := int64(0)
		_ = walk(c.Image, func(_ string, entry fs.FileInfo, err error) error {
			if err == nil && !entry.IsDir() {
				size += entry.Size()
			}
			return nil
		})
		return unknown * size, false
	}
	need = copiesOfScan * scan.bytes()
	// further channels are read, and perhaps resampled, before the first is prepared
	need += int64(len(c.More)) * (4*scan.voxels + scan.bytes())
	const standardised = 6 // bytes a voxel: float32, and what a mask of it takes
	if p.Scheme() != volume.CTWindow {
		need += standardised * scan.voxels
	}
	labels, beside := c.labelBytesOf(scan)
	need += max(copiesOfLabels*labels, labels+beside)
	if p.Spacing != [3]float64{} {
		g, err := p.Grid(scan.grid)
		if err != nil {
			return need, true // preparing says what is wrong
		}
		prepared := int64(g.Len())
		each := scan.voxelBytes
		if each > 2 {
			each += 2
		}
		if p.Interpolation != "linear" {
			each = otherBytes
			need += otherBytes * scan.voxels
		}
		need += each * prepared
		if labels > 0 {
			need += preparedLabelBytes * prepared
		}
	}
	return need, true
}

// reading is the bytes that reading the case's scan and labels takes; 0: that is not known.
func (c Case) reading() int64 {
	scan, known := c.scanExtent()
	if !known {
		return 0
	}
	labels, beside := c.labelBytesOf(scan)
	return scan.bytes() + labels + beside
}

// TooLarge is an error about memory with the name of what needs it.
func (c Case) TooLarge(err error) error {
	_, tooMuch := errors.AsType[*memory.Error](err)
	if e, known := c.scanExtent(); known && tooMuch {
		return fmt.Errorf("%s, with %s voxels, %w", c.Image, numbers.Extents(e.grid.Shape[:]), err)
	}
	return err
}
