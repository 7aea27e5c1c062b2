package dataset

import (
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file opens DICOM SEG objects and RT structure sets, which are labels.

// An object is labels in DICOM: segments, or contours.
type object struct {
	path         string
	segmentation *dicom.Segmentation
	structures   *dicom.StructureSet // where it is no segmentation
}

// openObject opens a SEG object or an RT structure set, whichever the file is.
func openObject(path string) (object, error) {
	set, err := dicom.OpenStructureSet(path)
	if err == nil {
		return object{path: path, structures: set}, nil
	}
	g, err := dicom.OpenSegmentation(path)
	return object{path: path, segmentation: g}, err
}

func (o object) find(series []*dicom.Series) *dicom.Series {
	if o.structures != nil {
		return o.structures.Find(series)
	}
	return o.segmentation.Find(series)
}

func (o object) is(wanted string) bool {
	if o.structures != nil {
		return o.structures.Is(wanted)
	}
	return o.segmentation.Is(wanted)
}

func (o object) same(other object) bool {
	switch {
	case o.structures != nil && other.structures != nil:
		return o.structures.Same(other.structures)
	case o.segmentation != nil && other.segmentation != nil:
		return o.segmentation.Same(other.segmentation)
	}
	return false
}

func (o object) String() string {
	if o.structures != nil {
		return o.structures.String()
	}
	return o.segmentation.String()
}

// stamp is the text in which this program says that it made the object; other programs write there
// what they like.
func (o object) stamp() string {
	if o.structures != nil {
		return o.structures.Description
	}
	return o.segmentation.Parameters
}
