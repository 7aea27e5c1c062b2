package dataset

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file reads DICOM SEG objects and RT structure sets as labels.

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

// openObjects opens the SEG objects and structure sets among files that were passed over. Those
// that cannot be opened stay there, with the reason, and so do copies.
func openObjects(passed []dicom.Passed) (objects []object, others []dicom.Passed) {
	for _, p := range passed {
		if p.What == dicom.WhatSEG || p.What == dicom.WhatRTSTRUCT {
			o, err := openObject(p.Path)
			switch {
			case err != nil:
				p.Err = err
			case slices.ContainsFunc(objects, o.same):
				p.What = "copy"
			default:
				objects = append(objects, o)
				continue
			}
		}
		others = append(others, p)
	}
	return objects, others
}

// pairObjects gives series their labels: the SEG object or structure set that was drawn on it, or
// the one of several that is wanted. Notes say which was not taken, and why.
func pairObjects(found []seriesCase, objects []object, all []*dicom.Series, wanted string) (notes []string) {
	drawn := map[*dicom.Series][]object{}
	for _, o := range objects {
		if s := o.find(all); s != nil {
			drawn[s] = append(drawn[s], o)
		} else {
			notes = append(notes, fmt.Sprintf("%s: passed over %s: none of the series here is the one that it refers to", o.path, o))
		}
	}
	for n := range found {
		c := &found[n]
		candidates := drawn[c.series]
		delete(drawn, c.series)
		if wanted != "" && len(candidates) > 0 {
			asked := slices.DeleteFunc(slices.Clone(candidates), func(o object) bool { return !o.is(wanted) })
			if len(asked) == 0 {
				notes = append(notes, fmt.Sprintf("%s: used without labels, because none of its %s is %s:%s", c.folder, kindsOf(candidates), wanted, listObjects(candidates)))
			}
			candidates = asked
		}
		switch {
		case len(candidates) == 1:
			c.labels = candidates[0]
		case len(candidates) > 1:
			notes = append(notes, fmt.Sprintf("%s: used without labels, because it has %s: --segmentation chooses one by number, UID or file name:%s", c.folder, countKinds(candidates), listObjects(candidates)))
		}
	}
	for _, s := range all { // in their order
		for _, o := range drawn[s] {
			notes = append(notes, fmt.Sprintf("%s: passed over %s: it belongs to %s, which is not taken; --series %s takes it", o.path, o, s, nameOf(s, all)))
		}
	}
	return notes
}

// kindsOf names what objects are, in the plural.
func kindsOf(objects []object) string {
	segmentations, structures := divideKinds(objects)
	switch {
	case structures == 0:
		return "SEG objects"
	case segmentations == 0:
		return "RT structure sets"
	}
	return "SEG objects and RT structure sets"
}

// countKinds counts what objects are.
func countKinds(objects []object) string {
	segmentations, structures := divideKinds(objects)
	switch {
	case structures == 0:
		return numbers.Count(segmentations, "SEG object")
	case segmentations == 0:
		return numbers.Count(structures, "RT structure set")
	}
	return numbers.Count(segmentations, "SEG object") + " and " + numbers.Count(structures, "RT structure set")
}

func divideKinds(objects []object) (segmentations, structures int) {
	for _, o := range objects {
		if o.structures != nil {
			structures++
		}
	}
	return len(objects) - structures, structures
}

func listObjects(objects []object) string {
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "\n  %s: %s", filepath.Base(o.path), o)
	}
	return b.String()
}

// setObject gives a case the labels of a DICOM object. Of a structure set, these are the structures
// that are wanted; nobody naming any, all that have contours and may be anatomy. A note says which
// were left out.
func (c *Case) setObject(o object, choice *chosenStructures) (note string) {
	c.withoutLabels()
	c.Labels, c.segmentation, c.structures = o.path, o.segmentation, o.structures
	if o.structures == nil {
		return ""
	}
	var left []string
	chosen := len(choice.wanted) > 0
	for at, s := range o.structures.Structures {
		if s.Drawn {
			c.Masks = append(c.Masks, Mask{Path: o.path, Name: s.Name, at: at})
		}
	}
	c.Masks = slices.DeleteFunc(choice.choose(c.Masks), func(m Mask) bool { return !chosen && !o.structures.Structures[m.at].Anatomy() })
	for at, s := range o.structures.Structures {
		if !slices.ContainsFunc(c.Masks, func(m Mask) bool { return m.at == at }) {
			left = append(left, strings.TrimSpace(s.Name+" "+strings.ToLower(s.Type)))
		}
	}
	if len(c.Masks) == 0 {
		c.withoutLabels()
		return fmt.Sprintf("%s: none of its structures is taken: %s", o.path, strings.Join(left, ", "))
	}
	if len(left) > 0 && !chosen {
		return fmt.Sprintf("%s: structures left out, because they are no anatomy or have no contours: %s (--structures takes what it names)", o.path, strings.Join(left, ", "))
	}
	return ""
}

// readStructures reads a case whose labels are contours on the slices of its series.
func (c Case) readStructures(o ReadOptions) (v *volume.Volume, l *volume.LabelMap, notes []string, err error) {
	v, s, notes, err := c.readImage(o)
	if err != nil {
		return nil, nil, nil, err
	}
	if s == nil {
		return nil, nil, nil, fmt.Errorf("%s is contours on the slices of a DICOM series: they cannot be brought onto %s", c.Labels, c.Image)
	}
	labels := map[int]uint16{}
	for _, m := range c.Masks {
		labels[m.at] = m.Label
	}
	l, err = c.structures.ReadOn(s, labels, o.dicom(func(note string) {
		level := ""
		if text, ok := strings.CutPrefix(note, "WARNING: "); ok {
			level, note = "WARNING: ", text
		}
		notes = append(notes, level+filepath.Base(c.Labels)+": "+note)
	}))
	return v, l, notes, err
}

// readSegmentation reads a case whose labels are a SEG object: its scan, if nobody has chosen a
// series, is the one that the object refers to.
func (c Case) readSegmentation(o ReadOptions) (v *volume.Volume, l *volume.LabelMap, notes []string, err error) {
	g := c.segmentation
	if g == nil {
		if g, err = dicom.OpenSegmentation(c.Labels); err != nil {
			return nil, nil, nil, err
		}
	}
	if c.IsDICOM() && c.series == nil && c.Series == "" && c.refused == nil {
		all, _, err := scanDICOM(c.Image)
		if err != nil {
			return nil, nil, nil, err
		}
		if c.series = g.Find(all); c.series == nil {
			return nil, nil, nil, fmt.Errorf("%s refers to none of the series in %s", c.Labels, c.Image)
		}
	}
	if v, _, notes, err = c.readImage(o); err != nil {
		return nil, nil, nil, err
	}
	options := o.dicom(func(note string) { notes = append(notes, filepath.Base(c.Labels)+": "+note) })
	if !c.IsDICOM() {
		l, err = g.ReadOnGrid(v.Grid, options)
	} else if s, failed := c.DICOM(); failed == nil {
		l, err = g.ReadOn(s, options)
	} else {
		err = failed
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return v, l, notes, nil
}

// Scans is the DICOM series below a folder, which are found when they are first needed.
type Scans struct {
	folder string
	find   func() ([]*dicom.Series, error)
}

// ScansIn returns the series below a folder.
func ScansIn(folder string) *Scans {
	return &Scans{folder, sync.OnceValues(func() ([]*dicom.Series, error) {
		series, _, err := scanDICOM(folder)
		return series, err
	})}
}

// readOn reads a SEG object onto the series that it refers to.
func (s *Scans) readOn(g *dicom.Segmentation, o dicom.Options) (*volume.LabelMap, error) {
	all, err := s.find()
	if err != nil {
		return nil, err
	}
	series := g.Find(all)
	if series == nil {
		return nil, fmt.Errorf("%s refers to none of the series in %s", g.Path, s.folder)
	}
	return g.ReadOn(series, o)
}

// ReadLabelPair reads two files of labels that are to be compared. A DICOM SEG object stores no
// empty slices, so it is read onto the grid of the series that it refers to, which must be among
// the scans. Compared with a NIfTI file, it is read onto that file's grid if scans is nil or the
// series has another grid.
func ReadLabelPair(a, b string, scans *Scans, o ReadOptions) (la, lb *volume.LabelMap, notes []string, err error) {
	if isVoxels(b) && !isVoxels(a) {
		lb, la, notes, err = ReadLabelPair(b, a, scans, o)
		return la, lb, notes, err
	}
	if !isVoxels(a) && scans == nil {
		return nil, nil, nil, fmt.Errorf("%s and %s are DICOM SEG objects, which hold no empty slices: they are compared on the series that they refer to: %w", a, b, ErrNoScans)
	}
	read := func(path string, like *volume.Grid) (*volume.LabelMap, error) {
		note := func(text string) { notes = append(notes, path+": "+text) }
		if isVoxels(path) {
			l, more, err := readLabelFile(path, o, nil, note)
			notes = append(notes, more...)
			return l, err
		}
		g, err := dicom.OpenSegmentation(path)
		if err != nil {
			return nil, err
		}
		if like == nil {
			return scans.readOn(g, o.dicom(note))
		}
		return readOnGrid(g, *like, scans, o.dicom(note))
	}
	if la, err = read(a, nil); err != nil {
		return nil, nil, nil, err
	}
	if isVoxels(a) {
		lb, err = read(b, &la.Grid)
	} else {
		lb, err = read(b, nil)
	}
	return la, lb, notes, err
}

// ErrNoScans says that a folder of scans is needed, and was not given.
var ErrNoScans = errors.New("where these are is not said")

// readOnGrid reads a SEG object onto a grid: that of its series, as it was straightened or
// resampled, or any other whose voxels are the pixels of the object.
func readOnGrid(g *dicom.Segmentation, grid volume.Grid, scans *Scans, o dicom.Options) (*volume.LabelMap, error) {
	if scans != nil {
		l, err := scans.readOn(g, o)
		if err != nil {
			return nil, err
		}
		const rounding = 0.05 // voxels
		if exact, err := grid.Match(l.Grid); err == nil && exact && grid.Misalignment(l.Grid) < rounding {
			return l.Orient(grid.Axcodes())
		}
	}
	l, err := g.ReadOnGrid(grid, o)
	if errors.Is(err, dicom.ErrOffGrid) && scans == nil {
		return nil, fmt.Errorf("%w. If slices of its series were moved or resampled (--tilt, --gaps), the scans tell where it belongs: %w", err, ErrNoScans)
	}
	return l, err
}

// inspectSegmentation describes a SEG object.
func inspectSegmentation(path string) Entry {
	e := Entry{Path: path, Kind: kindSEG}
	g, err := dicom.OpenSegmentation(path)
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	e.Series, e.Number, e.Modality, e.Dtype = g.UID, g.Number, "SEG", strings.ToLower(g.Kind)
	l, err := g.Read(dicom.Options{Note: func(note string) { e.problem("%s", note) }})
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	e.setGrid(l.Grid)
	e.Labels, e.LabelNames = l.Counts(), l.Names
	return e
}

// inspectStructures describes an RT structure set: its structures, numbered as they come.
func inspectStructures(path string) Entry {
	e := Entry{Path: path, Kind: kindRTSTRUCT}
	g, err := dicom.OpenStructureSet(path)
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	e.Series, e.Number, e.Modality, e.LabelNames = g.UID, g.Number, "RTSTRUCT", map[uint16]string{}
	e.Problems = g.Problems
	for n, s := range g.Structures {
		name := s.Name
		if !s.Drawn {
			name += " (no contours)"
		}
		e.LabelNames[uint16(n+1)] = name
	}
	return e
}
