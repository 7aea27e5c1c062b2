package dicom

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/segmentation"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// WhatSEG is what [Scan] calls the SEG objects that it passes over.
const WhatSEG = "SEG"

// Segmentation is a SEG object: the labels of a series, as DICOM stores them. Only its header has
// been read.
type Segmentation struct {
	Path     string
	Kind     string // BINARY, FRACTIONAL or LABELMAP
	UID      string // SeriesInstanceUID, its own
	Number   string // SeriesNumber, its own, "" if it has none
	Segments []Segment
	Frames   int
	Series   []string // SeriesInstanceUIDs that it refers to, sorted
	// Parameters are the AlgorithmParameters of a segment that says them; "" if none does.
	Parameters string
	object     *segmentation.Object
}

// Segment is one of the structures of a SEG object.
type Segment struct {
	// in the label map: the SegmentNumber, unless Voxsaw wrote another label beside it
	Label uint16
	Name  string // SegmentLabel, or the meaning of its code; "" where there is neither
}

// Overlap says what becomes of voxels that several structures hold: a label map has room for one.
// Beside the constants it may be an order of structures, such as "order:tumour,pancreas": the first
// that is named has them, whatever its spelling, and those that are not named come after. Of two
// that are not named it decides nothing, and they are refused.
type Overlap string

const (
	OverlapError Overlap = "error" // refuse, naming the structures
	OverlapLast  Overlap = "last"  // the structure with the highest number has them
)

const overlapOrder = "order:"

// Check says what is wrong with the rule; "" is OverlapError.
func (o Overlap) Check() error {
	names, isOrder := strings.CutPrefix(string(o), overlapOrder)
	switch {
	case isOrder && strings.Trim(names, ", ") != "":
	case isOrder:
		return fmt.Errorf("%q names no structure", o)
	case o != "" && o != OverlapError && o != OverlapLast:
		return fmt.Errorf("%q: must be error, last, or order: and names of structures, such as order:tumour,pancreas",
			o)
	}
	return nil
}

// Rank is the place of a structure in the order in which structures have voxels that they share,
// the least first. Between structures of equal places the rule does not decide. Number is the
// structure's own.
func (o Overlap) Rank(number int, name string) int {
	if o == OverlapLast {
		return -number
	}
	order := o.Order()
	for place, wanted := range order {
		if safetext.Fold(wanted) == safetext.Fold(name) {
			return place
		}
	}
	return len(order)
}

// Order lists the names of a rule that is an order; nil for others.
func (o Overlap) Order() (order []string) {
	names, isOrder := strings.CutPrefix(string(o), overlapOrder)
	if !isOrder {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); name != "" {
			order = append(order, name)
		}
	}
	return order
}

// Words says who has voxels that structures share.
func (o Overlap) Words() string {
	if order := o.Order(); order != nil {
		return "the first in the order " + strings.Join(order, ", ") + " has them"
	}
	return "the one with the higher number has them"
}

// ErrOffGrid says that frames lie elsewhere than the voxels of a scan.
var ErrOffGrid = segmentation.ErrOffGrid

// HasCode says whether [WriteSegmentation] has a SNOMED code for a label of that name. Others are
// coded as Tissue.
func HasCode(name string) bool { return segmentation.IsKnown(name) }

// IsSegmentation reports whether a file is a SEG object, by what it says it is.
func IsSegmentation(path string) bool { return segmentation.IsSegmentation(path) }

// OpenSegmentation reads the header of a SEG file. Errors are [volume.FormatError],
// [volume.UnsupportedError] (another kind of object among them), and of the file system.
func OpenSegmentation(path string) (*Segmentation, error) {
	object, err := segmentation.Open(path)
	if err != nil {
		return nil, err
	}
	g := &Segmentation{Path: path, Kind: object.Kind, UID: object.UID, Number: object.Number, Frames: object.Frames,
		Series: object.Refers(), Parameters: object.Parameters, object: object}
	for _, s := range object.Segments {
		g.Segments = append(g.Segments, Segment{Label: s.Label, Name: s.Name})
	}
	return g, nil
}

// String describes the object in a line, without anything that is the patient's.
func (g *Segmentation) String() string {
	im := &g.object.Image
	return fmt.Sprintf("SEG series %s: %s, %d segments, %d frames of %dx%d", cmp.Or(g.Number, "(no number)"),
		strings.ToLower(g.Kind), len(g.Segments), g.Frames, im.Columns, im.Rows)
}

// Names returns the names of the labels that have one.
func (g *Segmentation) Names() map[uint16]string { return g.object.Names() }

// Find returns the series that the object was drawn on: the only one of
// [Segmentation.Candidates]. It returns nil if there is none, or several.
func (g *Segmentation) Find(series []*Series) *Series {
	if found := g.Candidates(series); len(found) == 1 {
		return found[0]
	}
	return nil
}

// Candidates returns the series that the object may have been drawn on. The first rule that finds
// some counts:
//
//  1. Those that hold images which its frames name (DerivationImageSequence). Several volumes of
//     one SeriesInstanceUID are several series here.
//  2. Those that hold other images which it refers to.
//  3. Those whose SeriesInstanceUID it names.
//  4. If it refers to nothing, those in its frame of reference.
//
// Several are not told apart by how many images they hold: frames would be drawn on another volume.
func (g *Segmentation) Candidates(series []*Series) (found []*Series) {
	stacks := make([]*stack.Stack, len(series))
	for n, s := range series {
		stacks[n] = s.stack
	}
	for _, at := range g.object.Candidates(stacks) {
		found = append(found, series[at])
	}
	return found
}

// Same reports whether both are the same object, perhaps in two files.
func (g *Segmentation) Same(o *Segmentation) bool {
	a, b := g.object.Image.SOP, o.object.Image.SOP
	return a == b && a != ""
}

// Is reports whether the object is the wanted one: by the UID or the number of its series, or by
// the name of its file.
func (g *Segmentation) Is(wanted string) bool {
	file := filepath.Base(g.Path)
	return wanted == g.UID || wanted == g.Number || wanted == file ||
		wanted == strings.TrimSuffix(file, filepath.Ext(file))
}

// ReadOn makes a label map on the grid that [ReadWith] gives a series with the same options. Each
// frame must lie on one of the slices, pixel on pixel, though it may be turned by right angles, and
// need not cover it; slices without frames are background. A frame drawn, by its own words, on
// another slice is refused. One drawn on images that the scan does not have is noted, and so is an
// object of another study or frame of reference. Where the options move or resample slices, voxels
// take the label with the largest share. Errors are [volume.FormatError], [volume.UnsupportedError]
// and of the file system.
func (g *Segmentation) ReadOn(s *Series, o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	return g.object.ReadOn(s.stack, o.segmentation())
}

// ReadOnGrid makes a label map on a grid, whose voxels the pixels of the frames must be; see
// [Segmentation.ReadOn].
func (g *Segmentation) ReadOnGrid(grid volume.Grid, o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	return g.object.ReadOnGrid(grid, o.segmentation())
}

// Read makes a label map on the smallest grid that holds all frames: it ends where they end, and
// may be smaller than the series that they were drawn on.
func (g *Segmentation) Read(o Options) (*volume.LabelMap, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	return g.object.Read(o.segmentation())
}

// Grid returns that of the label map which [Segmentation.Read] makes, without reading pixels.
func (g *Segmentation) Grid() (volume.Grid, error) { return g.object.Grid() }

// segmentation returns what the options say about SEG objects.
func (o Options) segmentation() segmentation.Options {
	return segmentation.Options{Options: o.stack(), Rank: o.Overlap.Rank, Words: o.Overlap.Words(), Note: o.Note}
}

// WriteOptions say what [WriteSegmentation] writes beside the labels.
type WriteOptions struct {
	Algorithm string // what drew the labels, as viewers show it
	Version   string // of the program
	// Parameters are the algorithm's, for programs, as AlgorithmParameters of every segment: ASCII,
	// 10240 characters at most; "" for none.
	Parameters string
	Labels     []uint16 // that are described even if they have no voxel and no name
	Read       Options  // that the series was read with
	// Manual says that people drew the labels: what is said of an algorithm does not count.
	Manual bool
}

// WriteSegmentation writes a label map as a SEG object that refers to a series: each label is a
// segment, named by the map's names, and so is each label that has a name and no voxel. The map
// lies on the grid that [ReadWith] gives the series with o.Read; where that moved or resampled
// slices, each pixel of the series takes the label with the largest share of it.
//
// What a PACS files objects by (patient, study, frame of reference) is copied byte for byte from
// the series' first file; it is never parsed. UIDs are made from what is written and what it refers
// to, and times are the series': the same labels of the same series make the same file. The file
// appears when it is complete.
func WriteSegmentation(path string, l *volume.LabelMap, s *Series, o WriteOptions) error {
	if err := o.Read.defaults(); err != nil {
		return err
	}
	return segmentation.Write(path, l, s.stack, segmentation.WriteOptions{Algorithm: o.Algorithm, Version: o.Version,
		Parameters: o.Parameters, Labels: o.Labels, Read: o.Read.stack(), Manual: o.Manual})
}

// Referable says why no SEG object can refer to a series, nil if one can.
func (s *Series) Referable() error { return segmentation.Referable(s.stack) }
