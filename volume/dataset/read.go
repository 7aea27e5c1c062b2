package dataset

import (
	"fmt"
	"maps"
	"os"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// ReadImage reads a scan: a NIfTI file, or the largest axial series of a folder of DICOM files. Notes say what was chosen and repaired.
func ReadImage(path string) (v *volume.Volume, notes []string, err error) {
	return Case{Image: path}.ReadImage()
}

// ReadLabels reads a file of labels.
func ReadLabels(path string) (*volume.LabelMap, error) { return nifti.ReadLabels(path) }

// ReadImage reads the case's scan. Notes say what was chosen and repaired.
func (c Case) ReadImage() (v *volume.Volume, notes []string, err error) {
	stat, err := os.Stat(c.Image)
	if err != nil {
		return nil, nil, err
	}
	if stat.IsDir() || !isNIfTI(c.Image) {
		return readSeries(c.Image, c.Series)
	}
	v, err = nifti.ReadWith(c.Image, nifti.Options{Volume: c.Volume})
	return v, nil, err
}

// Flips says what to do about labels whose axes run against their scan's.
type Flips string

// What can be done about labels that fit their scan better when they are flipped.
const (
	FlipsCheck Flips = "check" // refuse the case, and say which flip fits
	FlipsFix   Flips = "fix"   // flip them, and say so
	FlipsOff   Flips = "off"   // do not look
)

// Read reads the case's scan and labels (nil where it has none), and brings the labels onto the scan's voxels where they go by index.
func (c Case) Read(flips Flips, names map[uint16]string) (v *volume.Volume, l *volume.LabelMap, notes []string, err error) {
	v, notes, err = c.ReadImage()
	if err != nil {
		return nil, nil, nil, err
	}
	if c.Labels == "" {
		return v, nil, notes, nil
	}
	if l, err = ReadLabels(c.Labels); err != nil {
		return nil, nil, nil, err
	}
	l.Names = maps.Clone(names)
	if !c.ByIndex {
		exact, err := v.Match(l.Grid)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", c.Labels, err)
		}
		if !exact {
			notes = append(notes, "labels lie on other voxels in the same box: resampled")
		}
		return v, l, notes, nil
	}
	// Columns of a DICOM slice run to the patient's left, rows to the back, and the slices of this data set to the head: its labels count in that order.
	if v, err = v.Orient("LPS"); err != nil {
		return nil, nil, nil, err
	}
	if l.Shape != v.Shape {
		return nil, nil, nil, fmt.Errorf("%s has %v voxels, its scan has %v", c.Labels, l.Shape, v.Shape)
	}
	l = &volume.LabelMap{Grid: v.Grid, Labels: l.Labels, Names: l.Names}
	if flips == FlipsOff {
		return v, l, notes, nil
	}
	better := BetterFlip(v, l)
	switch {
	case better == "":
	case flips == FlipsFix:
		l = flipLabels(l, better)
		notes = append(notes, fmt.Sprintf("labels flipped along %s, where they fit the scan better", better))
	default:
		return nil, nil, nil, fmt.Errorf("%s fits its scan better when flipped along %s, by the HU under it: --flips fix flips it, --flips off takes it as it is", c.Labels, better)
	}
	return v, l, notes, nil
}
