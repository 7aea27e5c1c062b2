package dataset

import (
	"fmt"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file brings labels onto a scan whose header, or whose extent, is another than theirs.

const indexHint = "; where the labels' header is wrong, or missing, and each of their voxels belongs to the scan's " +
	"voxel of the same index, --labels-by index takes them so"

// onScan brings labels from a file onto the scan: where they lie on all of its voxels, or fill its
// box, they stay as they are; where they lie on a part of its voxels, the rest becomes background.
// A note says what is odd.
func onScan(path string, l *volume.LabelMap, scan volume.Grid) (*volume.LabelMap, string, error) {
	exact, err := scan.Match(l.Grid)
	if err == nil {
		return l, onOtherVoxels(scan, l.Grid, exact), nil
	}
	if _, ok := scan.Shares(l.Grid); !ok || l.Shape == scan.Shape {
		return nil, "", refusedGrid(path, err, scan, l.Grid)
	}
	placed, lost := l.Place(scan)
	note := onPart(scan, l.Grid)
	if lost > 0 {
		if placed.Counts()[0] == placed.Len() {
			return nil, "", fmt.Errorf("%s: none of its %s lies in the scan: was it drawn on another?", path,
				numbers.Count(lost, "labelled voxel"))
		}
		note = fmt.Sprintf("WARNING: %s: labels reach beyond the scan: %s there left out; %s",
			filepath.Base(path), numbers.Count(lost, "labelled voxel"), note)
	}
	return placed, note, nil
}

// refusedGrid is why labels do not lie on their scan, and the flag that takes them all the same,
// where there is one.
func refusedGrid(path string, err error, scan, labels volume.Grid) error {
	hint := ""
	if labels.Shape == scan.Shape {
		hint = indexHint
	}
	return fmt.Errorf("%s: %w%s", path, err, hint)
}

// onPart says that labels lie on a part of a scan's voxels, and how far beside them, if they do.
func onPart(scan, labels volume.Grid) string {
	text := fmt.Sprintf("labels lie on a part of the scan's voxels, %v of %v: the rest is background",
		numbers.Extents(labels.Shape[:]), numbers.Extents(scan.Shape[:]))
	if beside := scan.Beside(labels); beside > besideRounding {
		text += fmt.Sprintf("; they lie %.2f voxels beside those, by their header", beside)
	}
	return text
}

// byIndex takes labels for those of the scan's voxels of the same index, whatever their header
// says: of a DICOM series, columns, rows and slices in the order of the series; of other files,
// voxels in the order of the file.
func byIndex(path string, l *volume.LabelMap, v *volume.Volume, s *dicom.Series, o ReadOptions) (*volume.LabelMap,
	error) {
	scan := v.Shape
	if s != nil {
		scan = s.Shape
	}
	if l.Shape != scan {
		return nil, fmt.Errorf("%s: has %v voxels, its scan has %v: labels go by index "+
			"(--labels-by index) where both have the same",
			path, numbers.Extents(l.Shape[:]), numbers.Extents(scan[:]))
	}
	if s == nil {
		return &volume.LabelMap{Grid: v.Grid, Labels: l.Labels, Names: l.Names, Undrawn: l.Undrawn, Emptied: l.Emptied},
			nil
	}
	on, err := s.Labels(l.Labels, o.dicom(nil))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	on.Names, on.Undrawn, on.Emptied = l.Names, l.Undrawn, l.Emptied
	return on, nil
}

// besideRounding is how far (voxels) labels may lie beside the scan's voxels unsaid: what rounding
// in headers does.
const besideRounding = 0.05

// onOtherVoxels says where labels lie that match a scan's grid, and what is done about it; "" where
// they lie on the scan's voxels, but for rounding.
func onOtherVoxels(scan, labels volume.Grid, exact bool) string {
	if !exact {
		return "labels lie on other voxels in the same box: resampled"
	}
	if beside := scan.Misalignment(labels); beside > besideRounding {
		return fmt.Sprintf("labels lie %.2f voxels beside those of the scan, by their header: taken voxel by voxel",
			beside)
	}
	return ""
}
