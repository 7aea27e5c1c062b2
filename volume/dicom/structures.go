package dicom

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/segmentation"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/structures"
)

// WhatRTSTRUCT is what [Scan] calls the RT structure sets that it passes over.
const WhatRTSTRUCT = "RTSTRUCT"

// StructureSet is an RT structure set: contours on the slices of a series. Only the names of its
// structures have been read.
type StructureSet struct {
	Path       string
	UID        string // SeriesInstanceUID, its own
	Number     string // SeriesNumber, its own, "" if it has none
	Structures []Structure
	Series     []string // SeriesInstanceUIDs of those that the contours were drawn on, as it says
	Problems   []string // what is odd about its names
	// Description is its StructureSetDescription; "" if it has none.
	Description string
	set         *structures.Set
}

// Structure is a region of interest of a structure set.
type Structure struct {
	Number int // ROINumber, which the program that wrote the set has chosen
	Name   string
	// RTROIInterpretedType, such as ORGAN, PTV, EXTERNAL; "" where it is not said
	Type  string
	Drawn bool // it has contours
}

// Anatomy reports whether the structure may be anatomy or a target, by what it says: not the
// patient's outline, the table, a marker or an isodose.
func (s Structure) Anatomy() bool {
	return s.Drawn && !slices.Contains([]string{
		"EXTERNAL", "SUPPORT", "FIXATION", "BOLUS", "MARKER", "REGISTRATION", "ISOCENTER", "DOSE_REGION",
		"TREATED_VOLUME", "IRRAD_VOLUME", "DOSE_MEASUREMENT", "BRACHY_CHANNEL", "BRACHY_ACCESSORY", "CONTROL",
	}, s.Type)
}

// OpenStructureSet reads the names of a file's structures. Errors are [volume.FormatError],
// [volume.UnsupportedError] (another kind of object among them), and of the file system.
func OpenStructureSet(path string) (*StructureSet, error) {
	set, err := structures.Open(path)
	if err != nil {
		return nil, err
	}
	g := &StructureSet{Path: path, UID: set.UID, Number: set.Number, Series: set.Series, Problems: set.Doubts,
		Description: set.Description, set: set}
	for _, s := range set.Structures {
		g.Structures = append(g.Structures, Structure{Number: s.Number, Name: s.Name, Type: s.Type, Drawn: s.Drawn})
	}
	return g, nil
}

// String describes the object in a line, without anything that is the patient's.
func (g *StructureSet) String() string {
	return fmt.Sprintf("RTSTRUCT series %s: %s", cmp.Or(g.Number, "(no number)"),
		numbers.Count(len(g.Structures), "structure"))
}

// Find returns the series that the contours were drawn on: the only one of
// [StructureSet.Candidates]. It returns nil if there is none, or several.
func (g *StructureSet) Find(series []*Series) *Series {
	if found := g.Candidates(series); len(found) == 1 {
		return found[0]
	}
	return nil
}

// Candidates returns the series that the contours may have been drawn on: those that the object
// names, else those in a frame of reference that it names. Of several, such as the volumes of one
// SeriesInstanceUID, it is those that hold slices which contours name, or else slices which the
// object lists. Several that remain are not told apart by how many slices they hold: contours
// would be drawn on the slices of another.
func (g *StructureSet) Candidates(series []*Series) []*Series {
	named := func(s *Series) bool { return slices.Contains(g.set.Series, s.UID) }
	if len(g.set.Series) == 0 {
		named = func(s *Series) bool {
			return len(s.stack.Slices) > 0 && slices.Contains(g.set.Space, s.stack.Slices[0].Image.FrameOfRef)
		}
	}
	found := only(series, named)
	if len(found) < 2 {
		return found
	}
	for _, images := range []map[string]bool{g.set.Drawn, g.set.Listed} {
		if some := only(found, func(s *Series) bool { return structures.Holds(s.stack, images) }); len(some) > 0 {
			return some
		}
	}
	return found
}

// Same reports whether both are the same object, perhaps in two files.
func (g *StructureSet) Same(o *StructureSet) bool { return g.set.SOP == o.set.SOP && g.set.SOP != "" }

// Is reports whether the object is the wanted one: by the UID or the number of its series, or by
// the name of its file.
func (g *StructureSet) Is(wanted string) bool {
	file := filepath.Base(g.Path)
	return wanted == g.UID || wanted == g.Number || wanted == file ||
		wanted == strings.TrimSuffix(file, filepath.Ext(file))
}

// ReadOn fills contours on the grid that [ReadWith] gives a series with the same options: those of
// the structures that labels give a number to, by their place in g.Structures. A voxel belongs to
// a structure where its centre lies within the contours of its slice; a contour within another is
// a hole. Contours must lie in the planes of the slices. Those outside the scan are passed over: a
// label that has no others is among the label map's Undrawn, and a set that has no others is an
// error. So are structures of one label with different voxels. Where the options move or resample
// slices, voxels take the label with the largest share. Errors are [volume.FormatError],
// [volume.UnsupportedError] and of the file system.
func (g *StructureSet) ReadOn(s *Series, labels map[int]uint16, o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	byNumber := map[int]uint16{}
	for at, label := range labels {
		byNumber[g.set.Structures[at].Number] = label
	}
	return g.set.ReadOn(s.stack, byNumber, structures.Options{Options: o.stack(), Rank: o.Overlap.Rank,
		Words: o.Overlap.Words(), Note: o.Note})
}

// WriteStructureSet writes a label map as an RT structure set that refers to a series: each label
// is a structure of its number, with contours along the borders of its pixels on each slice. A hole
// is a contour within another. What is copied of the series, and how labels lie on it, is as
// [WriteSegmentation] has it. Parameters become the StructureSetDescription, of at most 1024
// characters.
func WriteStructureSet(path string, l *volume.LabelMap, s *Series, o WriteOptions) error {
	if err := o.Read.defaults(); err != nil {
		return err
	}
	return segmentation.WriteContours(path, l, s.stack, segmentation.WriteOptions{Algorithm: o.Algorithm,
		Version: o.Version, Parameters: o.Parameters, Labels: o.Labels, Read: o.Read.stack(), Manual: o.Manual})
}

// IsStructureSet reports whether a file is an RT structure set, by what it says it is.
func IsStructureSet(path string) bool { return structures.Is(path) }
