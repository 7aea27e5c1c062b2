package format

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

// This file: DICOM SEG objects and RT structure sets, which are labels.

// An Object is labels in DICOM: segments, or contours.
type Object struct {
	Path         string
	Segmentation *dicom.Segmentation
	Structures   *dicom.StructureSet // where it is no segmentation
}

// OpenObject opens a SEG object or an RT structure set, whichever the file is. Only its header is
// read.
func OpenObject(path string) (Object, error) {
	set, err := dicom.OpenStructureSet(path)
	if err == nil {
		return Object{Path: path, Structures: set}, nil
	}
	if dicom.IsStructureSet(path) {
		return Object{Path: path}, err
	}
	g, err := dicom.OpenSegmentation(path)
	return Object{Path: path, Segmentation: g}, err
}

// Kind is what the object is, as a table says it.
func (o Object) Kind() string {
	if o.Structures != nil {
		return "DICOM " + dicom.WhatRTSTRUCT
	}
	return "DICOM " + dicom.WhatSEG
}

// Find returns the series that the object was drawn on, or nil; see [dicom.Segmentation.Find] and
// [dicom.StructureSet.Find].
func (o Object) Find(series []*dicom.Series) *dicom.Series {
	if o.Structures != nil {
		return o.Structures.Find(series)
	}
	return o.Segmentation.Find(series)
}

// Candidates returns the series that the object may have been drawn on; see
// [dicom.Segmentation.Candidates] and [dicom.StructureSet.Candidates].
func (o Object) Candidates(series []*dicom.Series) []*dicom.Series {
	if o.Structures != nil {
		return o.Structures.Candidates(series)
	}
	return o.Segmentation.Candidates(series)
}

// NotFound says why [Object.Find] finds none of the series: none is the one that the object refers
// to, or it may lie on several.
func (o Object) NotFound(series []*dicom.Series) string {
	several := o.Candidates(series)
	if len(several) < 2 {
		return "none of the series here is the one that it refers to"
	}
	what, advice := "frames", "Write a SEG for each, whose frames name its images (DerivationImageSequence), "+
		"or keep the series that they were drawn on alone here"
	if o.Structures != nil {
		what, advice = "contours", "Write a structure set for each, whose contours name its slices"
	}
	names := make([]string, len(several))
	for n, s := range several {
		names[n] = s.String()
	}
	return fmt.Sprintf("its %s may lie on any of %d series here, or on several: %s. %s", what, len(several),
		safetext.List(names), advice)
}

// Is reports whether the object is the wanted one: by the UID or the number of its series, or by
// the name of its file.
func (o Object) Is(wanted string) bool {
	if o.Structures != nil {
		return o.Structures.Is(wanted)
	}
	return o.Segmentation.Is(wanted)
}

// Same reports whether both are the same object, perhaps in two files.
func (o Object) Same(other Object) bool {
	switch {
	case o.Structures != nil && other.Structures != nil:
		return o.Structures.Same(other.Structures)
	case o.Segmentation != nil && other.Segmentation != nil:
		return o.Segmentation.Same(other.Segmentation)
	}
	return false
}

// String describes the object in a line, without anything that is the patient's.
func (o Object) String() string {
	if o.Structures != nil {
		return o.Structures.String()
	}
	return o.Segmentation.String()
}

// ReadOn reads an object onto the series that it refers to.
func (o Object) ReadOn(s *dicom.Series, options dicom.Options) (*volume.LabelMap, error) {
	if o.Structures == nil {
		return o.Segmentation.ReadOn(s, options)
	}
	labels, left := o.numbered()
	if len(left) > 0 && options.Note != nil {
		options.Note("left out, because they are no anatomy or have no contours: " + strings.Join(left, ", "))
	}
	if len(labels) == 0 {
		return nil, &volume.UnsupportedError{Path: o.Path,
			Problem: "has no contours of anatomy: " + cmp.Or(strings.Join(left, ", "), "it names no structure")}
	}
	return o.Structures.ReadOn(s, labels, options)
}

// numbered gives structures, by their places, labels: in a set that this program predicted their
// numbers, which are the network's labels. In those of other programs numbers mean nothing, and
// structures of one name have one label. What is no anatomy, or has no contours, is left.
func (o Object) numbered() (labels map[int]uint16, left []string) {
	labels = map[int]uint16{}
	if provenance.Is([]byte(o.Stamp())) {
		for at, s := range o.Structures.Structures {
			if s.Number > 0 && s.Number <= math.MaxUint16 {
				labels[at] = uint16(s.Number)
			}
		}
		return labels, nil
	}
	byName := map[string]uint16{}
	for at, s := range o.Structures.Structures {
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

// Names are those of the labels that [Object.ReadOn] gives.
func (o Object) Names() map[uint16]string {
	if o.Structures == nil {
		return o.Segmentation.Names()
	}
	labels, _ := o.numbered()
	names := map[uint16]string{}
	for at, label := range labels {
		names[label] = o.Structures.Structures[at].Name
	}
	return names
}

// NamesIn are the names of labels that a file of labels says, whether or not a voxel has them; nil
// for none. No scan is needed for it.
func NamesIn(path string) map[uint16]string {
	if o, err := OpenObject(path); !IsName(path) && err == nil {
		return o.Names()
	}
	if h, err := ReadHeader(path); err == nil {
		return h.Names
	}
	return nil
}

// Without says what an object lacks that a series tells.
func (o Object) Without() string {
	if o.Structures != nil {
		return "is contours, which the slices of their series make voxels"
	}
	return "is a DICOM SEG object, which holds no empty slices"
}

// Refers is the SeriesInstanceUID of the series that the object was drawn on; "" where it names
// none, or several.
func (o Object) Refers() string {
	var series []string
	if o.Structures != nil {
		series = o.Structures.Series
	} else if o.Segmentation != nil {
		series = o.Segmentation.Series
	}
	if len(series) != 1 {
		return ""
	}
	return series[0]
}

// DrawnOn says on which series, for an error; "" where nothing is said.
func (o Object) DrawnOn() string {
	if o.Structures == nil || len(o.Structures.Series) == 0 {
		return ""
	}
	return fmt.Sprintf(": its contours were drawn on the series %s", safetext.List(o.Structures.Series))
}

// Stamp is the text in which this program says that it made the object; other programs write there
// what they like.
func (o Object) Stamp() string {
	if o.Structures != nil {
		return o.Structures.Description
	}
	return o.Segmentation.Parameters
}
