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

// Doubt says why a label map that [Case.ReadLabelMap] read may be of another scan than the case's:
// it was predicted from other files, or, where it does not say from which, lies on other voxels.
func (c Case) Doubt(path string, l volume.Grid) (why string) {
	scan, _, known := c.Extent()
	return c.doubt(path, l, scan, known)
}

// DoubtOf is [Case.Doubt] for a case that was prepared.
func DoubtOf(r prepared.Record, path string, l volume.Grid) (why string) {
	c, err := madeFrom(r)
	if err != nil || len(r.More) > 0 { // the files are not known
		c = Case{}
	}
	if _, err := r.Grid.Match(l); err == nil {
		return c.doubt(path, l, r.Grid, true)
	}
	return c.doubt(path, l, r.Original, true)
}

func (c Case) doubt(path string, l, scan volume.Grid, known bool) string {
	if why, known := c.madeOfOthers(path); known {
		return why
	}
	_, shared := scan.Shares(l)
	if _, err := scan.Match(l); known && err != nil && !shared {
		return fmt.Sprintf("%s may be of another scan: %v", path, err)
	}
	return ""
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
