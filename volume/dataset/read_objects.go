package dataset

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
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

// readOn reads an object onto the series that it refers to.
func (o object) readOn(s *dicom.Series, options dicom.Options) (*volume.LabelMap, error) {
	if o.structures == nil {
		return o.segmentation.ReadOn(s, options)
	}
	labels, left := o.numbered()
	if len(left) > 0 && options.Note != nil {
		options.Note("left out, because they are no anatomy or have no contours: " + strings.Join(left, ", "))
	}
	if len(labels) == 0 {
		return nil, &volume.UnsupportedError{Path: o.path,
			Problem: "has no contours of anatomy: " + cmp.Or(strings.Join(left, ", "), "it names no structure")}
	}
	return o.structures.ReadOn(s, labels, options)
}

// numbered gives structures, by their places, labels: in a set that this program predicted their
// numbers, which are the network's labels. In those of other programs numbers mean nothing, and
// structures of one name have one label. What is no anatomy, or has no contours, is left.
func (o object) numbered() (labels map[int]uint16, left []string) {
	labels = map[int]uint16{}
	if provenance.Is([]byte(o.stamp())) {
		for at, s := range o.structures.Structures {
			if s.Number > 0 && s.Number <= math.MaxUint16 {
				labels[at] = uint16(s.Number)
			}
		}
		return labels, nil
	}
	byName := map[string]uint16{}
	for at, s := range o.structures.Structures {
		if !s.Anatomy() {
			left = append(left, strings.TrimSpace(s.Name+" "+strings.ToLower(s.Type)))
			continue
		}
		name := safetext.Fold(s.Name)
		if byName[name] == 0 {
			byName[name] = uint16(at + 1)
		}
		labels[at] = byName[name]
	}
	return labels, left
}

// without says what an object lacks that a series tells.
func (o object) without() string {
	if o.structures != nil {
		return "is contours, which the slices of their series make voxels"
	}
	return "is a DICOM SEG object, which holds no empty slices"
}

// drawnOn says on which series, for an error; "" where nothing is said.
func (o object) drawnOn() string {
	if o.structures == nil || len(o.structures.Series) == 0 {
		return ""
	}
	return fmt.Sprintf(": its contours were drawn on the series %s", safetext.List(o.structures.Series))
}

// stamp is the text in which this program says that it made the object; other programs write there
// what they like.
func (o object) stamp() string {
	if o.structures != nil {
		return o.structures.Description
	}
	return o.segmentation.Parameters
}
