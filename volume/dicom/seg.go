package dicom

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/suyashkumar/dicom/pkg/charset"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: what a SEG object (PS3.3 A.51) says about its frames and segments. Its pixels are read
// in seg_read.go, others are written in seg_write.go.

// The kinds of SEG objects, by SegmentationType.
const (
	segBinary     = "BINARY"
	segFractional = "FRACTIONAL"
	segLabelMap   = "LABELMAP"
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

	image     image           // what the pixels need
	fraction  int             // MaximumFractionalValue
	padding   int             // PixelPaddingValue: background in label maps
	space     string          // FrameOfReferenceUID
	series    map[string]bool // SeriesInstanceUIDs that it refers to
	instances references      // images that it refers to
	placed    []segFrame
}

// Segment is one of the structures of a SEG object.
type Segment struct {
	// in the label map: the SegmentNumber, but where Voxsaw wrote another label beside it
	Label uint16
	Name  string // SegmentLabel, or the meaning of its code; "" where there is neither

	number uint16
	own    uint16 // label that Voxsaw wrote, 0 for none
}

// segFrame is where a frame lies, and whose it is.
type segFrame struct {
	lie      *segLie
	position vector
	segment  uint16   // number; 0 in label maps
	sources  []source // images that it was drawn on
}

// source is an image that is referred to, by its SOPInstanceUID, and the number of the frame that
// is meant, from 1, or 0 for all of them.
type source struct {
	sop   string
	frame int
}

// segLie is what frames share, but for their position.
type segLie struct {
	orientation [6]float64
	spacing     [2]float64 // between rows, between columns
}

// String describes the object in a line, without anything that is the patient's.
func (g *Segmentation) String() string {
	return fmt.Sprintf("SEG series %s: %s, %d segments, %d frames of %dx%d", cmp.Or(g.Number, "(no number)"), strings.ToLower(g.Kind), len(g.Segments), g.Frames, g.image.columns, g.image.rows)
}

// Names of the labels, where they have one.
func (g *Segmentation) Names() map[uint16]string {
	names := map[uint16]string{}
	for _, s := range g.Segments {
		if s.Name != "" && s.Label != 0 {
			names[s.Label] = s.Name
		}
	}
	return names
}

// Find returns the series that the object was drawn on: the one that holds the instances that it
// refers to (most of them, where one SeriesInstanceUID is several volumes), else the one whose UID
// it names, else, if it refers to nothing, the only one of its frame of reference. Nil if it is
// none of them.
func (g *Segmentation) Find(series []*Series) *Series {
	var best *Series
	most := 0
	for _, s := range series {
		n := 0
		for k := range s.slices {
			if g.instances.hold(&s.slices[k]) {
				n++
			}
		}
		if n > most {
			best, most = s, n
		}
	}
	if best != nil {
		return best
	}
	var only []*Series
	for _, s := range series {
		if g.series[s.UID] || len(g.series) == 0 && len(g.instances) == 0 && g.space != "" && s.slices[0].image.frameOfRef == g.space {
			only = append(only, s)
		}
	}
	if len(only) == 1 {
		return only[0]
	}
	return nil
}

// IsSegmentation says whether a file is a SEG object, by what it says it is.
func IsSegmentation(path string) bool {
	d, s, _, offset, err := open(path)
	if err != nil {
		return false
	}
	defer d.Close()
	class := d.class
	if class == "" {
		w := &walker{window: &window{from: d, size: d.size}, order: s.order, implicit: s.implicit}
		// however the walk ends: what was found counts
		w.elements(offset, d.size, false, 0, func(e element) (err error) {
			if e.tag == tag.SOPClassUID {
				class, _ = w.text(e)
			}
			if e.tag >= tag.SOPClassUID {
				err = errStop
			}
			return err
		})
	}
	return isSEG(class)
}

// Same says whether both are the same object, perhaps in two files.
func (g *Segmentation) Same(o *Segmentation) bool {
	return g.image.sop == o.image.sop && g.image.sop != ""
}

// Is says whether the object is the one that somebody asks for: by the UID or the number of its
// series, or by the name of its file.
func (g *Segmentation) Is(wanted string) bool {
	file := filepath.Base(g.Path)
	return wanted == g.UID || wanted == g.Number || wanted == file || wanted == strings.TrimSuffix(file, filepath.Ext(file))
}

const (
	maxSegFrames = 1 << 22 // a hundred organs in forty thousand slices
	// bytes that say whose a frame is or where it lies; real ones have hundreds
	minSegFrame = 32
	maxText     = 1 << 10 // bytes of a value that is looked at
)

// OpenSegmentation reads the header of a SEG file. Errors are [volume.FormatError],
// [volume.UnsupportedError] (another kind of object among them), and of the file system.
func OpenSegmentation(path string) (*Segmentation, error) {
	d, s, known, offset, err := open(path)
	if err != nil {
		return nil, inFile(path, err)
	}
	defer d.Close()
	g := &Segmentation{Path: path, series: map[string]bool{}, instances: references{}}
	g.image = image{path: path, syntax: s, known: known, size: d.size, samples: 1, frames: 1, class: d.class}
	p := segParser{g: g, text: asItIs, lies: map[segLie]*segLie{}}
	w := &walker{window: &window{from: d, size: d.size}, order: s.order, implicit: s.implicit}
	if _, err := w.elements(offset, d.size, false, 0, func(e element) error { return p.top(w, e) }); err != nil && !errors.Is(err, errStop) {
		return nil, inFile(path, err)
	}
	if err := p.finish(); err != nil {
		return nil, inFile(path, err)
	}
	return g, nil
}

// segParser collects what the elements of a SEG object say.
type segParser struct {
	g        *Segmentation
	text     func(string) string // decodes the object's character set
	itemText func(string) string // that of the segment at hand, which may have its own
	shared   segFrameInfo
	frames   []segFrameInfo
	lies     map[segLie]*segLie
}

// segFrameInfo is what one set of functional groups says.
type segFrameInfo struct {
	position             vector
	orientation          [6]float64
	spacing              [2]float64
	located, turned, set bool // whether there is a position, an orientation, a spacing
	thickness, between   float64
	segment              uint16
	sources              []source
}

func (p *segParser) top(w *walker, e element) (err error) {
	g, im := p.g, &p.g.image
	for _, n := range []struct {
		tag tag.Tag
		to  *int
	}{
		{tag.SamplesPerPixel, &im.samples}, {tag.Rows, &im.rows}, {tag.Columns, &im.columns}, {tag.BitsAllocated, &im.allocated}, {tag.BitsStored, &im.stored}, {tag.HighBit, &im.high},
		{tag.PixelPaddingValue, &g.padding}, {tag.MaximumFractionalValue, &g.fraction},
	} {
		if e.tag == n.tag {
			var x uint16
			x, err = w.short(e)
			*n.to = int(x)
			return err
		}
	}
	for _, n := range []struct {
		tag tag.Tag
		to  *string
	}{
		{tag.SOPClassUID, &im.class}, {tag.SOPInstanceUID, &im.sop}, {tag.StudyInstanceUID, &im.study}, {tag.SeriesInstanceUID, &g.UID}, {tag.SeriesNumber, &im.number}, {tag.FrameOfReferenceUID, &g.space}, {tag.SegmentationType, &g.Kind},
	} {
		if e.tag == n.tag {
			*n.to, err = w.text(e)
			return err
		}
	}
	switch e.tag {
	case tag.SpecificCharacterSet:
		p.text, err = w.charset(e)
	case tag.NumberOfFrames:
		var text string
		if text, err = w.text(e); err == nil {
			if im.frames, err = strconv.Atoi(text); err != nil || im.frames < 1 || im.frames > maxSegFrames {
				err = fmt.Errorf("NumberOfFrames must be a whole number from 1 to %d", maxSegFrames)
			}
		}
	case tag.ReferencedSeriesSequence:
		err = w.items(e, 0, nil, func(in *walker, e element) error {
			switch e.tag {
			case tag.SeriesInstanceUID:
				return in.note(e, g.series)
			case tag.ReferencedInstanceSequence:
				return in.instances(e, 1, g.instances.add)
			}
			return nil
		})
	case tag.ReferencedImageSequence, tag.SourceImageSequence: // ReferencedImageSequence, SourceImageSequence
		err = w.instances(e, 0, g.instances.add)
	case tag.SegmentSequence:
		err = w.items(e, 0, func() error {
			if len(g.Segments) > 1<<16 {
				return errors.New("describes more than 65536 segments")
			}
			g.Segments = append(g.Segments, Segment{})
			p.itemText = p.text
			return nil
		}, p.segment)
	case tag.SharedFunctionalGroupsSequence:
		err = w.items(e, 0, nil, func(in *walker, e element) error { return p.groups(in, e, &p.shared) })
	case tag.PerFrameFunctionalGroupsSequence:
		err = w.items(e, 0, func() error {
			if len(p.frames) == maxSegFrames || int64(len(p.frames)) > im.size/minSegFrame {
				return fmt.Errorf("describes %d frames and more in %d bytes", len(p.frames), im.size)
			}
			p.frames = append(p.frames, segFrameInfo{})
			return nil
		}, func(in *walker, e element) error { return p.groups(in, e, &p.frames[len(p.frames)-1]) })
	case tag.PixelData, tag.FloatPixelData, tag.DoubleFloatPixelData:
		im.pixels = e
		return errStop
	}
	return err
}

// segment reads an element of an item of SegmentSequence into the last of the segments.
func (p *segParser) segment(in *walker, e element) (err error) {
	s := &p.g.Segments[len(p.g.Segments)-1]
	switch e.tag {
	case tag.SpecificCharacterSet:
		p.itemText, err = in.charset(e)
	case tag.SegmentNumber:
		s.number, err = in.short(e)
	case tag.SegmentLabel:
		s.Name, err = in.text(e)
		s.Name = printable(p.itemText(s.Name))
	case tag.SegmentedPropertyTypeCodeSequence:
		return in.items(e, 1, nil, func(in *walker, e element) (err error) {
			if e.tag == tag.CodeMeaning && s.Name == "" { // CodeMeaning
				s.Name, err = in.text(e)
				s.Name = printable(p.itemText(s.Name))
			}
			return err
		})
	case tag.VoxsawLabel:
		s.own, err = in.short(e)
	}
	return err
}

// groups reads what one functional group of a frame, or of all frames, says.
func (p *segParser) groups(w *walker, group element, f *segFrameInfo) error {
	floats := func(in *walker, e element, to []float64, there *bool) error {
		text, err := in.text(e)
		if err != nil || text == "" {
			return err
		}
		if err := decimals(text, to); err != nil {
			return fmt.Errorf("%s: %w", e.tag, err)
		}
		*there = true
		return nil
	}
	switch group.tag {
	case tag.PlanePositionSequence, tag.PlaneOrientationSequence, tag.PixelMeasuresSequence:
		// PlanePositionSequence, PlaneOrientationSequence, PixelMeasuresSequence
		return w.items(group, 1, nil, func(in *walker, e element) error {
			var ignored bool
			switch e.tag {
			case tag.ImagePositionPatient:
				return floats(in, e, f.position[:], &f.located)
			case tag.ImageOrientationPatient:
				return floats(in, e, f.orientation[:], &f.turned)
			case tag.PixelSpacing:
				return floats(in, e, f.spacing[:], &f.set)
			case tag.SliceThickness, tag.SpacingBetweenSlices:
				var x [1]float64
				if floats(in, e, x[:], &ignored) == nil { // of no importance: no error
					*map[tag.Tag]*float64{tag.SliceThickness: &f.thickness, tag.SpacingBetweenSlices: &f.between}[e.tag] = x[0]
				}
			}
			return nil
		})
	case tag.SegmentIdentificationSequence:
		return w.items(group, 1, nil, func(in *walker, e element) (err error) {
			if e.tag == tag.ReferencedSegmentNumber {
				f.segment, err = in.short(e)
			}
			return err
		})
	case tag.DerivationImageSequence:
		return w.items(group, 1, nil, func(in *walker, e element) error {
			if e.tag != tag.SourceImageSequence { // SourceImageSequence
				return nil
			}
			return in.instances(e, 2, func(s source) {
				p.g.instances.add(s)
				f.sources = append(f.sources, s)
			})
		})
	}
	return nil
}

// finish checks what was found and fills the object.
func (p *segParser) finish() error {
	g, im := p.g, &p.g.image
	unsupported := func(format string, args ...any) error {
		return &volume.UnsupportedError{Path: g.Path, Problem: fmt.Sprintf(format, args...)}
	}
	if !isSEG(im.class) {
		return unsupported("is no DICOM SEG (Segmentation Storage)")
	}
	switch {
	case im.pixels.tag != tag.PixelData:
		return errors.New("has no pixels")
	case im.rows == 0 || im.columns == 0:
		return errors.New("says nothing about the size of its frames (Rows, Columns)")
	case int64(im.rows)*int64(im.columns) > maxFrame:
		return unsupported("has frames of %d x %d pixels: more than %d are not read", im.columns, im.rows, maxFrame)
	case im.samples != 1:
		return unsupported("has %d samples a pixel", im.samples)
	case len(p.frames) != im.frames:
		return fmt.Errorf("claims %d frames, but describes %d", im.frames, len(p.frames))
	}
	bits := map[string][]int{segBinary: {1}, segFractional: {8}, segLabelMap: {8, 16}}[g.Kind]
	switch {
	case bits == nil:
		return unsupported("is of SegmentationType %q: BINARY, FRACTIONAL and LABELMAP are read", printable(g.Kind))
	case !slices.Contains(bits, im.allocated) && !(g.Kind == segBinary && im.allocated == 8):
		// as written by those who compress
		return fmt.Errorf("is %s with %d bits a pixel", g.Kind, im.allocated)
	case g.Kind == segFractional && (g.fraction < 1 || g.fraction > 255):
		return errors.New("MaximumFractionalValue must be from 1 to 255")
	}
	if im.allocated == 1 && im.syntax.codec != nil {
		im.allocated = 8 // the code stream says how many there are
	}
	im.stored, im.high = im.allocated, im.allocated-1
	if err := im.checkSEGPixels(); err != nil {
		return err
	}
	if err := g.number(); err != nil {
		return err
	}
	for n, f := range p.frames {
		if !f.located {
			f.position, f.located = p.shared.position, p.shared.located
		}
		if !f.turned {
			f.orientation, f.turned = p.shared.orientation, p.shared.turned
		}
		if !f.set {
			f.spacing, f.set = p.shared.spacing, p.shared.set
		}
		f.segment = cmp.Or(f.segment, p.shared.segment)
		if !f.located || !f.turned || !f.set {
			return unsupported("does not say where frame %d lies in the patient (ImagePositionPatient, ImageOrientationPatient, PixelSpacing)", n+1)
		}
		lie := segLie{f.orientation, f.spacing}
		if p.lies[lie] == nil {
			one := slice{info: frameInfo{orientation: lie.orientation[:], spacing: lie.spacing[:]}}
			if _, _, _, err := one.axes(); err != nil {
				return fmt.Errorf("frame %d: %w", n+1, err)
			}
			p.lies[lie] = &lie
		}
		if g.Kind == segLabelMap {
			f.segment = 0
		} else if !slices.ContainsFunc(g.Segments, func(s Segment) bool { return s.number == f.segment }) {
			return fmt.Errorf("frame %d belongs to segment %d, which is not described", n+1, f.segment)
		}
		g.placed = append(g.placed, segFrame{p.lies[lie], f.position, f.segment, f.sources})
		if n == 0 {
			im.shared.thickness, im.shared.between = cmp.Or(f.thickness, p.shared.thickness), cmp.Or(f.between, p.shared.between)
		}
	}
	g.Frames, g.Number = im.frames, integerString(im.number)
	return nil
}

// number checks the segments' numbers and gives them their labels.
func (g *Segmentation) number() error {
	numbers, own := map[uint16]bool{}, map[uint16]bool{}
	for n := range g.Segments {
		s := &g.Segments[n]
		if numbers[s.number] {
			return fmt.Errorf("describes segment %d twice", s.number)
		}
		if s.number == 0 && g.Kind != segLabelMap {
			return errors.New("describes a segment 0: they count from 1")
		}
		numbers[s.number] = true
		s.Label = s.number
		own[cmp.Or(s.own, s.number)] = true
	}
	if len(g.Segments) == 0 {
		return errors.New("describes no segment")
	}
	// label maps may describe their background
	g.Segments = slices.DeleteFunc(g.Segments, func(s Segment) bool { return s.number == 0 })
	// else two would become one: somebody has edited what Voxsaw wrote
	if len(own) == len(numbers) {
		for n := range g.Segments {
			s := &g.Segments[n]
			s.Label = cmp.Or(s.own, s.number)
		}
	}
	return nil
}

// isSEG says whether objects of a SOP class are SEG: Segmentation Storage, Label Map Segmentation
// Storage.
func isSEG(class string) bool {
	return class == classSEG || class == classLabelMapSEG
}

const (
	classSEG         = "1.2.840.10008.5.1.4.1.1.66.4"
	classLabelMapSEG = "1.2.840.10008.5.1.4.1.1.66.7"

	// The label map's own number of a segment, where it differs from its SegmentNumber: those must
	// count from 1 without a gap. A private element.
	ownCreator = "VOXSAW"
)

// items calls begin (which may be nil) for each item of a sequence, and visit for each of its
// elements.
func (w *walker) items(e element, depth int, begin func() error, visit func(in *walker, e element) error) error {
	_, err := w.sequence(e, depth, func(in *walker, offset, limit int64, delimited bool) (int64, error) {
		if begin != nil {
			if err := begin(); err != nil {
				return 0, err
			}
		}
		return in.elements(offset, limit, delimited, depth+1, func(e element) error { return visit(in, e) })
	})
	return err
}

// references are the images that an object refers to, by SOPInstanceUID, and of those with several
// frames the numbers, from 1.
type references map[string]map[int]bool

// hold says whether a slice is among them. Where some frames of an image are named, the others are
// not meant.
func (r references) hold(s *slice) bool {
	frames, known := r[s.image.sop]
	return known && (len(frames) == 0 || frames[s.frame+1])
}

func (r references) add(s source) {
	if r[s.sop] == nil {
		r[s.sop] = map[int]bool{}
	}
	if s.frame != 0 {
		r[s.sop][s.frame] = true
	}
}

// instances calls found with what the items of a sequence refer to.
func (w *walker) instances(e element, depth int, found func(source)) error {
	sop, frames := "", ""
	add := func() error {
		if sop == "" {
			return nil
		}
		whole := true
		for text := range strings.SplitSeq(frames, `\`) {
			if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n > 0 {
				found(source{sop, n})
				whole = false
			}
		}
		if whole {
			found(source{sop, 0})
		}
		sop, frames = "", ""
		return nil
	}
	err := w.items(e, depth, add, func(in *walker, e element) (err error) {
		switch {
		case e.tag == tag.ReferencedSOPInstanceUID:
			sop, err = in.text(e)
		case e.tag == tag.ReferencedFrameNumber && e.length <= maxText:
			frames, err = in.text(e)
		}
		return err
	})
	return cmp.Or(err, add())
}

func (w *walker) note(e element, to map[string]bool) error {
	text, err := w.text(e)
	if text != "" {
		to[text] = true
	}
	return err
}

// text returns a value, trimmed.
func (w *walker) text(e element) (string, error) {
	if e.length == undefined || e.length > maxText {
		return "", fmt.Errorf("%s has a value that is too long", e.tag)
	}
	b, err := w.at(e.value, int(e.length))
	return strings.Trim(string(b), " \x00\t\r\n"), err
}

// short returns the value of an unsigned short.
func (w *walker) short(e element) (uint16, error) {
	if e.length != 2 {
		return 0, fmt.Errorf("%s is not one number of 16 bits", e.tag)
	}
	b, err := w.at(e.value, 2)
	if err != nil {
		return 0, err
	}
	return w.order.Uint16(b), nil
}

// charset returns what decodes texts, by SpecificCharacterSet. What it does not know is taken for
// UTF-8.
func (w *walker) charset(e element) (decode func(string) string, err error) {
	text, err := w.text(e)
	if err != nil {
		return nil, err
	}
	defer func() {
		if recover() != nil { // the library knows the names of sets that it does not have
			decode = asItIs
		}
	}()
	system, err := charset.ParseSpecificCharacterSet(strings.Split(text, `\`))
	if err != nil || system.Ideographic == nil {
		return asItIs, nil
	}
	return func(s string) string {
		if decoded, err := system.Ideographic.String(s); err == nil {
			return decoded
		}
		return s
	}, nil
}

func asItIs(s string) string { return s }

// printable makes a text of somebody else's harmless: one line of valid UTF-8.
func printable(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s))
}

// decimals parses numbers divided by backslashes: as many as to has.
func decimals(text string, to []float64) error {
	parts := strings.Split(text, `\`)
	if len(parts) != len(to) {
		return fmt.Errorf("%d numbers, not %d", len(parts), len(to))
	}
	for n, part := range parts {
		x, err := decimal(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		to[n] = x
	}
	return nil
}

// labels gives the label of each segment's number.
func (g *Segmentation) labels() map[uint16]uint16 {
	table := map[uint16]uint16{}
	for _, s := range g.Segments {
		table[s.number] = s.Label
	}
	return table
}

// describe names a label, for messages.
func (g *Segmentation) describe(label uint16) string {
	for _, s := range g.Segments {
		if s.Label == label && s.Name != "" {
			return fmt.Sprintf("%d (%s)", label, s.Name)
		}
	}
	return strconv.Itoa(int(label))
}
