package dataset

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file reads labels that have a file for each structure, such as those of TotalSegmentator.

// readMasks reads the case's masks onto the voxels of its scan, or on the voxels that they share.
// Masks that lie on different parts of the scan's voxels are placed on it, where it is known.
func (c Case) readMasks(o ReadOptions, scan *volume.Grid) (*volume.LabelMap, []string, error) {
	all := layers{scan: scan, rule: o.Overlap}
	if o.LabelsBy == LabelsByIndex {
		all.scan = nil
	}
	first := map[uint16]layer{}
	for n, m := range c.Masks {
		l, err := format.ReadLabels(m.Path, o.format(0, nil))
		if err != nil {
			return nil, nil, err
		}
		if values := l.Counts(); len(values) > 2 || len(values) == 2 && values[0] == 0 {
			return nil, nil, &volume.FormatError{Path: m.Path,
				Problem: fmt.Sprintf("is to be the mask of %s alone, but holds %d different labels", m.Name,
					len(values)-1)}
		}
		if before, known := first[m.Label]; known {
			if !before.same(l) {
				return nil, nil, fmt.Errorf("%s and %s are both %s by their names, and have "+
					"different voxels: rename or remove one of them%s",
					before.mask.Path, m.Path, m.Name, spellingHint(before.mask.Name, m.Name))
			}
			continue
		}
		if slices.ContainsFunc(c.Masks[n+1:], func(o Mask) bool { return o.Label == m.Label }) {
			first[m.Label] = layer{m, l}
		}
		if err := all.add(m, l); err != nil {
			return nil, nil, err
		}
	}
	return all.done(o)
}

// checkVolumes compares the grid of labels that are a volume each with that of their scan, before
// the volumes are compared with one another. In a file whose first axis counts the labels, they are
// slices of the patient, which overlap.
func (c Case) checkVolumes(scan volume.Grid, o ReadOptions) error {
	if c.Masks != nil || o.LabelsBy == LabelsByIndex || !format.IsName(c.Labels) {
		return nil
	}
	h, err := format.ReadHeader(c.Labels)
	if err != nil || h.Volumes < 2 { // what is wrong with it is said where it is read
		return nil
	}
	if _, err = scan.Match(h.Grid); err == nil {
		return nil
	}
	if len(h.Dims) == 4 && slices.Equal(h.Dims[1:], scan.Shape[:]) {
		return &volume.UnsupportedError{Path: c.Labels,
			Problem: fmt.Sprintf("has %v voxels and its scan %v: its first axis seems to count the labels, which "+
				"must be the last one; numpy.moveaxis(array, 0, -1) moves it there",
				numbers.Extents(h.Dims), numbers.Extents(scan.Shape[:]))}
	}
	if _, ok := scan.Shares(h.Grid); ok && h.Shape != scan.Shape {
		return nil
	}
	return refusedGrid(c.Labels, err, scan, h.Grid)
}
