// Package structures reads RT structure sets: the contours that radiotherapy draws on the slices of
// a series.
//
// Start at [Open], which reads what structures there are, and at [Set.ReadOn], which fills their
// contours on the slices. It leaves out points, open contours, and contours that cross slices.
package structures

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// Class is the SOP class of RT Structure Set Storage.
const Class = "1.2.840.10008.5.1.4.1.1.481.3"

// Set is a structure set. Its contours are read when they are drawn.
type Set struct {
	Path   string
	SOP    string // SOPInstanceUID
	UID    string // SeriesInstanceUID, its own
	Number string // SeriesNumber
	Series []string
	Space  []string // frames of reference that it names
	// spacesOf are, of the series that it names, by SeriesInstanceUID, the frames of reference that
	// it names them in.
	spacesOf map[string][]string
	// Drawn are the SOPInstanceUIDs of the slices that contours say they were drawn on, Listed
	// those of the slices that are listed with the series.
	Drawn, Listed map[string]bool
	Structures    []Structure
	Doubts        []string // about its texts
	// Description is its StructureSetDescription.
	Description string
}

// doubt notes what is odd about the set's texts, once.
func (s *Set) doubt(text string) {
	if !slices.Contains(s.Doubts, text) {
		s.Doubts = append(s.Doubts, text)
	}
}

// Structure is a region of interest.
type Structure struct {
	Number int // ROINumber
	Name   string
	Type   string // RTROIInterpretedType: ORGAN, PTV, EXTERNAL, ...; "" where it is not said
	Space  string // ReferencedFrameOfReferenceUID; "" where it is not said
	Drawn  bool   // it has contours

	numbered bool // it has a ROINumber
}

// maxStructures bounds what a file may describe.
const maxStructures = 1 << 14

// parser collects what the elements of a structure set say.
type parser struct {
	set     *Set
	class   string
	space   string                            // frame of reference of the item at hand
	text    func(string) string               // decodes the character set
	contour func(number int, c contour) error // of each contour; nil: its points are not read
}

func newParser(path string) *parser {
	set := &Set{Path: path, Drawn: map[string]bool{}, Listed: map[string]bool{}, spacesOf: map[string][]string{}}
	return &parser{set: set, text: element.Undeclared(set.doubt)}
}

// contour is one line around a structure.
type contour struct {
	kind   string         // ContourGeometricType
	points []stack.Vector // mm, in the patient's space (LPS)
	images []string       // SOPInstanceUIDs of the slices that it names
}

// Open reads the structures of a file. Errors are [volume.FormatError], [volume.UnsupportedError]
// (another kind of object among them), and of the file system.
func Open(path string) (*Set, error) {
	p := newParser(path)
	if err := p.read(path); err != nil {
		return nil, err
	}
	if p.class != Class {
		return nil, &volume.UnsupportedError{Path: path, Problem: "is no RT structure set"}
	}
	if err := p.set.checkNumbers(); err != nil {
		return nil, element.InFile(path, err)
	}
	return p.set, nil
}

// Is reports whether a file is a structure set, by its SOP class.
func Is(path string) bool {
	p := newParser(path)
	_ = p.read(path) // however it ends, the class that was found counts
	return p.class == Class
}

// checkNumbers refuses structures whose contours are not theirs alone: these go by ROINumber.
func (s *Set) checkNumbers() error {
	names := map[int]string{}
	for _, one := range s.Structures {
		if !one.numbered {
			return fmt.Errorf("describes ROI %q without a ROINumber, by which it has its contours: "+
				"give it one, or remove it",
				one.Name)
		}
		if other, known := names[one.Number]; known {
			return fmt.Errorf("describes ROI %d twice, as %q and %q, which would have each other's contours: "+
				"give each a ROINumber of its own, or remove one",
				one.Number, other, one.Name)
		}
		names[one.Number] = one.Name
	}
	return nil
}

// read walks over a file.
func (p *parser) read(path string) error {
	file, err := element.Open(path)
	if err != nil {
		return element.InFile(path, err)
	}
	defer file.Close()
	p.class = file.Class
	w := file.Walker()
	if _, err := w.Elements(file.Start, file.Size, false, 0,
		func(e element.Element) error { return p.top(w, e) }); err != nil && !errors.Is(err, element.ErrStop) {
		return element.InFile(path, err)
	}
	return nil
}

// top reads an element of the file itself.
func (p *parser) top(w *element.Walker, e element.Element) (err error) {
	s := p.set
	switch e.Tag {
	case tag.SOPClassUID:
		if p.class, err = w.Text(e); err == nil && p.class != Class {
			return element.ErrStop
		}
	case tag.SOPInstanceUID:
		s.SOP, err = w.Text(e)
	case tag.SeriesInstanceUID:
		s.UID, err = w.Text(e)
	case tag.SeriesNumber:
		s.Number, err = w.Text(e)
		s.Number = element.IntegerString(s.Number)
	case tag.StructureSetDescription:
		s.Description, err = w.Text(e)
	case tag.SpecificCharacterSet:
		p.text, err = w.Charset(e, s.doubt)
	case tag.ReferencedFrameOfReferenceSequence:
		begin := func() error { p.space = ""; return nil }
		return w.Items(e, 0, begin, func(in *element.Walker, e element.Element) error { return p.reference(in, e, 1) })
	case tag.StructureSetROISequence:
		begin := func() error {
			if len(s.Structures) == maxStructures {
				return fmt.Errorf("describes more than %d structures", maxStructures)
			}
			s.Structures = append(s.Structures, Structure{})
			return nil
		}
		return w.Items(e, 0, begin, p.structure)
	case tag.ROIContourSequence:
		return p.contours(w, e)
	case tag.RTROIObservationsSequence:
		number, kind := 0, ""
		keep := func() error {
			if at := p.at(number); at >= 0 && kind != "" {
				s.Structures[at].Type = kind
			}
			number, kind = 0, ""
			return nil
		}
		err = w.Items(e, 0, keep, func(in *element.Walker, e element.Element) (err error) {
			switch e.Tag {
			case tag.ReferencedROINumber:
				number, err = integer(in, e)
			case tag.RTROIInterpretedType:
				kind, err = in.Text(e)
				kind = element.CodeString(kind)
			}
			return err
		})
		return errors.Join(err, keep())
	}
	return err
}

// reference reads which series, and which space, the contours were drawn in.
func (p *parser) reference(in *element.Walker, e element.Element, depth int) error {
	switch e.Tag {
	case tag.FrameOfReferenceUID, tag.SeriesInstanceUID:
		uid, err := in.Text(e)
		if uid != "" && e.Tag == tag.SeriesInstanceUID {
			p.set.Series = append(p.set.Series, uid)
			if p.space != "" {
				p.set.spacesOf[uid] = append(p.set.spacesOf[uid], p.space)
			}
		} else if uid != "" {
			p.set.Space = append(p.set.Space, uid)
			p.space = uid
		}
		return err
	case tag.RTReferencedStudySequence, tag.RTReferencedSeriesSequence:
		return in.Items(e, depth, nil,
			func(in *element.Walker, e element.Element) error { return p.reference(in, e, depth+1) })
	case tag.ContourImageSequence:
		_, err := images(in, e, depth, p.set.Listed)
		return err
	}
	return nil
}

// maxImages bounds how many slices a file may name.
const maxImages = 1 << 20

// images reads which slices a sequence names, and adds them to those that are named.
func images(in *element.Walker, e element.Element, depth int, named map[string]bool) (list []string, err error) {
	err = in.Items(e, depth, nil, func(in *element.Walker, e element.Element) error {
		if e.Tag != tag.ReferencedSOPInstanceUID {
			return nil
		}
		uid, err := in.Text(e)
		if err != nil {
			return err
		}
		if len(named) == maxImages && !named[uid] {
			return fmt.Errorf("names more than %d slices", maxImages)
		}
		named[uid] = true
		list = append(list, uid)
		return nil
	})
	return list, err
}

// Holds reports whether a stack holds one of the slices that are named.
func Holds(s *stack.Stack, named map[string]bool) bool {
	return slices.ContainsFunc(s.Slices, func(slice stack.Slice) bool { return named[slice.Image.SOP] })
}

// structure reads an element of the last of the structures.
func (p *parser) structure(in *element.Walker, e element.Element) (err error) {
	s := &p.set.Structures[len(p.set.Structures)-1]
	switch e.Tag {
	case tag.ROINumber:
		s.Number, err = integer(in, e)
		s.numbered = err == nil
	case tag.ReferencedFrameOfReferenceUID:
		s.Space, err = in.Text(e)
	case tag.ROIName:
		s.Name, err = in.Text(e)
		s.Name = element.Printable(p.text(s.Name))
	}
	return err
}

// at is where the structure with a number is, or -1.
func (p *parser) at(number int) int {
	return slices.IndexFunc(p.set.Structures, func(s Structure) bool { return s.Number == number })
}

// contours walks over the contours of all structures. The number of the structure may come after
// them.
func (p *parser) contours(w *element.Walker, e element.Element) error {
	var drawn []contour
	number, numbered, there := 0, false, false
	keep := func() error {
		at := p.at(number)
		switch {
		case there && !numbered:
			return errors.New("has contours without a ReferencedROINumber, which says whose they are: " +
				"give them one, or remove them")
		case there && at < 0:
			p.set.doubt(fmt.Sprintf("WARNING: it has contours of ROI %d, which it does not describe: "+
				"they are passed over", number))
		case there:
			p.set.Structures[at].Drawn = true
			for _, c := range drawn {
				if err := p.contour(number, c); err != nil {
					return err
				}
			}
		}
		drawn, number, numbered, there = nil, 0, false, false
		return nil
	}
	err := w.Items(e, 0, keep, func(in *element.Walker, e element.Element) (err error) {
		switch e.Tag {
		case tag.ReferencedROINumber:
			number, err = integer(in, e)
			numbered = err == nil
		case tag.ContourSequence:
			begin := func() error {
				there = true
				if p.contour != nil {
					drawn = append(drawn, contour{})
				}
				return nil
			}
			err = in.Items(e, 1, begin, func(in *element.Walker, e element.Element) (err error) {
				if e.Tag == tag.ContourImageSequence {
					named, err := images(in, e, 2, p.set.Drawn)
					if err == nil && p.contour != nil {
						drawn[len(drawn)-1].images = named
					}
					return err
				}
				if p.contour == nil {
					return nil
				}
				c := &drawn[len(drawn)-1]
				switch e.Tag {
				case tag.ContourGeometricType:
					c.kind, err = in.Text(e)
				case tag.ContourData:
					c.points, err = points(in, e)
				}
				return err
			})
		}
		return err
	})
	return errors.Join(err, keep())
}

// integer reads a number that is stored as text.
func integer(w *element.Walker, e element.Element) (int, error) {
	text, err := w.Text(e)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number", e.Tag)
	}
	return n, nil
}

// points reads ContourData: x, y and z of each point, as text.
func points(w *element.Walker, e element.Element) ([]stack.Vector, error) {
	if e.Length == element.Undefined {
		return nil, fmt.Errorf("%s has no length", e.Tag)
	}
	raw, err := w.At(e.Value, int(e.Length))
	if err != nil {
		return nil, err
	}
	numbers, err := decimals(string(raw))
	if err != nil || len(numbers)%3 != 0 {
		return nil, fmt.Errorf("%s is not x, y and z of each point", e.Tag)
	}
	list := make([]stack.Vector, len(numbers)/3)
	for n := range list {
		list[n] = stack.Vector(numbers[3*n : 3*n+3])
	}
	return list, nil
}
