package dataset

import (
	"io/fs"

	"github.com/voxsaw/voxsaw/volume"
)

// This file: the memory that preparing a case takes.

// memory is the bytes that preparing a case takes, at most: the scan, its labels and the copies
// that windowing, turning and resampling make. Where the headers do not tell, known is false and
// the figure a guess.
func (c Case) memory(p volume.Preparation) (need int64, known bool) {
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
