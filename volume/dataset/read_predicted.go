package dataset

import (
	"fmt"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// ReadLabelMap reads a label map of the case's scan that is not its own labels, such as a
// prediction: a file of voxels as it lies there, a DICOM SEG object or RT structure set on the
// voxels of the scan, which it must refer to.
func (c Case) ReadLabelMap(path string, o ReadOptions) (*volume.LabelMap, error) {
	return readLabelMap(path, o, func() (*dicom.Series, dicom.Options, error) {
		if !c.IsDICOM() {
			return nil, dicom.Options{}, nil
		}
		s, err := c.DICOM()
		return s, o.dicom(nil), err
	})
}

// ReadLabelMapOf is [Case.ReadLabelMap] for a case that was prepared: a DICOM object is read onto
// the series that the case was made from, as [SeriesOf] finds it.
func ReadLabelMapOf(r prepared.Record, path string, o ReadOptions) (*volume.LabelMap, error) {
	return readLabelMap(path, o, func() (*dicom.Series, dicom.Options, error) { return SeriesOf(r) })
}

func readLabelMap(path string, o ReadOptions, series func() (*dicom.Series, dicom.Options, error)) (*volume.LabelMap,
	error) {
	if format.IsName(path) {
		l, _, err := readLabelFile(path, o, nil, nil)
		return l, err
	}
	g, err := format.OpenObject(path)
	if err != nil {
		return nil, err
	}
	s, how, err := series()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: the series that it lies on: %w", path, err)
	case s == nil:
		return nil, fmt.Errorf("%s %s, and the scan that it is shown with is no DICOM series", path, g.Without())
	case g.Find([]*dicom.Series{s}) == nil:
		return nil, fmt.Errorf("%s refers to another series than that of the scan, %s%s", path, s, g.DrawnOn())
	}
	return g.ReadOn(s, how)
}
