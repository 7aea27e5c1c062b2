// Package segmentation reads and writes DICOM SEG objects (PS3.3 A.51): label maps that refer to
// the images that they were drawn on.
//
// Start at [Open], which reads what an object says about its segments and frames, [Object.ReadOn],
// which draws the frames on a stack of slices, and [Write]. codes.go has the codes that tell
// computers what a segment shows, carry.go what an object takes over from the images that it refers
// to.
//
// It leaves out fractions other than 0 and 1, and objects without a place in the patient.
package segmentation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// The kinds of SEG objects, by SegmentationType.
const (
	segBinary     = "BINARY"
	segFractional = "FRACTIONAL"
	segLabelMap   = "LABELMAP"
)

// Object is a SEG object: the labels of a series, as DICOM stores them. Only its header has been
// read.
type Object struct {
	Path     string
	Kind     string // BINARY, FRACTIONAL or LABELMAP
	UID      string // SeriesInstanceUID, its own
	Number   string // SeriesNumber, its own, "" if it has none
	Segments []segment
	Frames   int
	// Parameters are the AlgorithmParameters of a segment that says them; "" if none does
	Parameters string
	Doubts     []string // about its texts

	Image    stack.Image     // what the pixels need
	fraction int             // MaximumFractionalValue
	padding  int             // PixelPaddingValue: background in label maps
	Space    string          // FrameOfReferenceUID
	series   map[string]bool // SeriesInstanceUIDs that it refers to
	drawn    references      // images that its frames were drawn on, as these say
	listed   references      // images that it refers to besides
	Placed   []segFrame
}

// Refers are the SeriesInstanceUIDs that the object refers to, sorted.
func (g *Object) Refers() []string { return slices.Sorted(maps.Keys(g.series)) }

// doubt notes what is odd about the object's texts, once.
func (g *Object) doubt(text string) {
	if !slices.Contains(g.Doubts, text) {
		g.Doubts = append(g.Doubts, text)
	}
}

// segment is one of the structures of a SEG object.
type segment struct {
	// in the label map: the SegmentNumber, unless Voxsaw wrote another label beside it
	Label uint16
	Name  string // SegmentLabel, or the meaning of its code; "" where there is neither

	number uint16
	own    uint16 // label that Voxsaw wrote, 0 for none
}

// segFrame is where a frame lies, and of which segment it is.
type segFrame struct {
	plane    *framePlane
	position stack.Vector
	segment  uint16   // number; 0 in label maps
	sources  []source // images that it was drawn on
}

// source is an image that is referred to, by its SOPInstanceUID, and the number of the frame that
// is meant, from 1, or 0 for all of them.
type source struct {
	sop   string
	frame int
}

// framePlane is what parallel frames share: all of where they lie but their position.
type framePlane struct {
	orientation [6]float64
	spacing     [2]float64 // between rows, between columns
}

// Names returns the names of the labels that have one.
func (g *Object) Names() map[uint16]string {
	names := map[uint16]string{}
	for _, s := range g.Segments {
		if s.Name != "" && s.Label != 0 {
			names[s.Label] = s.Name
		}
	}
	return names
}

// Candidates returns the numbers of the stacks that the object may have been drawn on. The first
// rule that finds some counts:
//
//  1. Those that hold images which its frames name (one SeriesInstanceUID may be several volumes).
//  2. Those that hold other images which it refers to.
//  3. Those whose SeriesInstanceUID it names.
//  4. If it refers to nothing, those in its frame of reference.
//
// Several are not told apart by how many images they hold: frames would be drawn on another volume.
func (g *Object) Candidates(stacks []*stack.Stack) (found []int) {
	nothing := len(g.series) == 0 && len(g.drawn) == 0 && len(g.listed) == 0
	for _, rule := range []func(*stack.Stack) bool{
		func(s *stack.Stack) bool { return slices.ContainsFunc(s.Slices, g.drawn.hold) },
		func(s *stack.Stack) bool { return slices.ContainsFunc(s.Slices, g.listed.hold) },
		func(s *stack.Stack) bool { return g.series[s.Slices[0].Image.Series] },
		func(s *stack.Stack) bool {
			return nothing && g.Space != "" && s.Slices[0].Image.FrameOfRef == g.Space
		},
	} {
		for m, s := range stacks {
			if len(s.Slices) > 0 && rule(s) {
				found = append(found, m)
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}

// IsSegmentation reports whether a file is a SEG object, by its SOP class.
func IsSegmentation(path string) bool {
	file, err := element.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	class := file.Class
	if class == "" {
		w := file.Walker()
		// However the walk ends, what was found counts.
		w.Elements(file.Start, file.Size, false, 0, func(e element.Element) (err error) {
			if e.Tag == tag.SOPClassUID {
				class, _ = w.Text(e)
			}
			if e.Tag >= tag.SOPClassUID {
				err = element.ErrStop
			}
			return err
		})
	}
	return stack.IsSEG(class)
}

const (
	maxSegFrames = 1 << 22 // a hundred organs in forty thousand slices
	// bytes that say whose a frame is or where it lies; real ones have hundreds
	minSegFrame = 32
)

// OpenSegmentation reads the header of a SEG file. Errors are [volume.FormatError],
// [volume.UnsupportedError] (another kind of object among them), and of the file system.
func Open(path string) (*Object, error) {
	file, err := element.Open(path)
	if err != nil {
		return nil, element.InFile(path, err)
	}
	defer file.Close()
	g := &Object{Path: path, series: map[string]bool{}, drawn: references{}, listed: references{}}
	g.Image = stack.Image{Image: pixels.Image{Path: path, Syntax: file.Syntax, Size: file.Size, Samples: 1, Frames: 1},
		Class: file.Class}
	p := segParser{g: g, text: element.Undeclared(g.doubt), planes: map[framePlane]*framePlane{}}
	w := file.Walker()
	if _, err := w.Elements(file.Start, file.Size, false, 0,
		func(e element.Element) error { return p.top(w, e) }); err != nil && !errors.Is(err, element.ErrStop) {
		return nil, element.InFile(path, err)
	}
	if err := p.finish(); err != nil {
		return nil, element.InFile(path, err)
	}
	return g, nil
}

// segParser collects what the elements of a SEG object say.
type segParser struct {
	g        *Object
	text     func(string) string // decodes the object's character set
	itemText func(string) string // that of the segment at hand, which may have its own
	shared   segFrameInfo
	frames   []segFrameInfo
	planes   map[framePlane]*framePlane
}

// segFrameInfo is what one set of functional groups says.
type segFrameInfo struct {
	position             stack.Vector
	orientation          [6]float64
	spacing              [2]float64
	located, turned, set bool // whether there is a position, an orientation, a spacing
	thickness, between   float64
	segment              uint16
	sources              []source
}

func (p *segParser) top(w *element.Walker, e element.Element) (err error) {
	g, im := p.g, &p.g.Image
	for _, n := range []struct {
		tag tag.Tag
		to  *int
	}{
		{tag.SamplesPerPixel, &im.Samples}, {tag.Rows, &im.Rows}, {tag.Columns, &im.Columns},
		{tag.BitsAllocated, &im.Allocated}, {tag.BitsStored, &im.Stored}, {tag.HighBit, &im.High},
		{tag.PixelPaddingValue, &g.padding}, {tag.MaximumFractionalValue, &g.fraction},
	} {
		if e.Tag == n.tag {
			var x uint16
			x, err = w.Short(e)
			*n.to = int(x)
			return err
		}
	}
	for _, n := range []struct {
		tag tag.Tag
		to  *string
	}{
		{tag.SOPClassUID, &im.Class}, {tag.SOPInstanceUID, &im.SOP}, {tag.StudyInstanceUID, &im.Study},
		{tag.SeriesInstanceUID, &g.UID}, {tag.SeriesNumber, &im.Number}, {tag.FrameOfReferenceUID, &g.Space},
		{tag.SegmentationType, &g.Kind},
	} {
		if e.Tag == n.tag {
			*n.to, err = w.Text(e)
			return err
		}
	}
	switch e.Tag {
	case tag.SpecificCharacterSet:
		p.text, err = w.Charset(e, g.doubt)
	case tag.NumberOfFrames:
		var text string
		if text, err = w.Text(e); err == nil {
			if im.Frames, err = strconv.Atoi(text); err != nil || im.Frames < 1 || im.Frames > maxSegFrames {
				err = fmt.Errorf("NumberOfFrames must be a whole number from 1 to %d", maxSegFrames)
			}
		}
	case tag.ReferencedSeriesSequence:
		err = w.Items(e, 0, nil, func(in *element.Walker, e element.Element) error {
			switch e.Tag {
			case tag.SeriesInstanceUID:
				return note(in, e, g.series)
			case tag.ReferencedInstanceSequence:
				return instances(in, e, 1, g.listed.add)
			}
			return nil
		})
	case tag.ReferencedImageSequence, tag.SourceImageSequence:
		// ReferencedImageSequence, SourceImageSequence
		err = instances(w, e, 0, g.listed.add)
	case tag.SegmentSequence:
		err = w.Items(e, 0, func() error {
			if len(g.Segments) > 1<<16 {
				return errors.New("describes more than 65536 segments")
			}
			g.Segments = append(g.Segments, segment{})
			p.itemText = p.text
			return nil
		}, p.segment)
	case tag.SharedFunctionalGroupsSequence:
		err = w.Items(e, 0, nil,
			func(in *element.Walker, e element.Element) error { return p.groups(in, e, &p.shared) })
	case tag.PerFrameFunctionalGroupsSequence:
		err = w.Items(e, 0, func() error {
			if len(p.frames) == maxSegFrames || int64(len(p.frames)) > im.Size/minSegFrame {
				return fmt.Errorf("describes %d frames and more in %d bytes", len(p.frames), im.Size)
			}
			p.frames = append(p.frames, segFrameInfo{})
			return nil
		}, func(in *element.Walker, e element.Element) error { return p.groups(in, e, &p.frames[len(p.frames)-1]) })
	case tag.PixelData, tag.FloatPixelData, tag.DoubleFloatPixelData:
		im.Pixels = e
		return element.ErrStop
	}
	return err
}

// segment reads an element of an item of SegmentSequence into the last of the segments.
func (p *segParser) segment(in *element.Walker, e element.Element) (err error) {
	s := &p.g.Segments[len(p.g.Segments)-1]
	switch e.Tag {
	case tag.SpecificCharacterSet:
		p.itemText, err = in.Charset(e, p.g.doubt)
	case tag.SegmentNumber:
		s.number, err = in.Short(e)
	case tag.SegmentLabel:
		s.Name, err = in.Text(e)
		s.Name = element.Printable(p.itemText(s.Name))
	case tag.SegmentedPropertyTypeCodeSequence:
		return in.Items(e, 1, nil, func(in *element.Walker, e element.Element) (err error) {
			if e.Tag == tag.CodeMeaning && s.Name == "" { // CodeMeaning
				s.Name, err = in.Text(e)
				s.Name = element.Printable(p.itemText(s.Name))
			}
			return err
		})
	case tag.SegmentationAlgorithmIdentificationSequence:
		return in.Items(e, 1, nil, func(in *element.Walker, e element.Element) error {
			if e.Tag != tag.AlgorithmParameters || p.g.Parameters != "" {
				return nil
			}
			if text, err := in.Text(e); err == nil { // otherwise it is too long, and not ours
				p.g.Parameters = text
			}
			return nil
		})
	case tag.VoxsawLabel:
		s.own, err = in.Short(e)
	}
	return err
}

// groups reads what one functional group of a frame, or of all frames, says.
func (p *segParser) groups(w *element.Walker, group element.Element, f *segFrameInfo) error {
	floats := func(in *element.Walker, e element.Element, to []float64, there *bool) error {
		text, err := in.Text(e)
		if err != nil || text == "" {
			return err
		}
		if err := element.Decimals(text, to); err != nil {
			return fmt.Errorf("%s: %w", e.Tag, err)
		}
		*there = true
		return nil
	}
	switch group.Tag {
	case tag.PlanePositionSequence, tag.PlaneOrientationSequence, tag.PixelMeasuresSequence:
		// PlanePositionSequence, PlaneOrientationSequence, PixelMeasuresSequence
		return w.Items(group, 1, nil, func(in *element.Walker, e element.Element) error {
			var ignored bool
			switch e.Tag {
			case tag.ImagePositionPatient:
				return floats(in, e, f.position[:], &f.located)
			case tag.ImageOrientationPatient:
				return floats(in, e, f.orientation[:], &f.turned)
			case tag.PixelSpacing:
				return floats(in, e, f.spacing[:], &f.set)
			case tag.SliceThickness, tag.SpacingBetweenSlices:
				var x [1]float64
				if floats(in, e, x[:], &ignored) == nil { // of no importance: no error
					*map[tag.Tag]*float64{tag.SliceThickness: &f.thickness,
						tag.SpacingBetweenSlices: &f.between}[e.Tag] = x[0]
				}
			}
			return nil
		})
	case tag.SegmentIdentificationSequence:
		return w.Items(group, 1, nil, func(in *element.Walker, e element.Element) (err error) {
			if e.Tag == tag.ReferencedSegmentNumber {
				f.segment, err = in.Short(e)
			}
			return err
		})
	case tag.DerivationImageSequence:
		return w.Items(group, 1, nil, func(in *element.Walker, e element.Element) error {
			if e.Tag != tag.SourceImageSequence { // SourceImageSequence
				return nil
			}
			return instances(in, e, 2, func(s source) {
				p.g.drawn.add(s)
				f.sources = append(f.sources, s)
			})
		})
	}
	return nil
}

// finish checks what was found and fills the object.
func (p *segParser) finish() error {
	g, im := p.g, &p.g.Image
	unsupported := func(format string, args ...any) error {
		return &volume.UnsupportedError{Path: g.Path, Problem: fmt.Sprintf(format, args...)}
	}
	if !stack.IsSEG(im.Class) {
		return unsupported("is no DICOM SEG (Segmentation Storage)")
	}
	switch {
	case im.Pixels.Tag != tag.PixelData:
		return errors.New("has no pixels")
	case im.Rows == 0 || im.Columns == 0:
		return errors.New("says nothing about the size of its frames (Rows, Columns)")
	case int64(im.Rows)*int64(im.Columns) > pixels.MaxFrame:
		return unsupported("has frames of %d x %d pixels: more than %d are not read", im.Columns, im.Rows,
			pixels.MaxFrame)
	case im.Samples != 1:
		return unsupported("has %d samples a pixel", im.Samples)
	case len(p.frames) != im.Frames:
		return fmt.Errorf("claims %d frames, but describes %d", im.Frames, len(p.frames))
	}
	bits := map[string][]int{segBinary: {1}, segFractional: {8}, segLabelMap: {8, 16}}[g.Kind]
	switch {
	case bits == nil:
		return unsupported("is of SegmentationType %q: BINARY, FRACTIONAL and LABELMAP are read",
			element.Printable(g.Kind))
	case !slices.Contains(bits, im.Allocated) && !(g.Kind == segBinary && im.Allocated == 8):
		// as written by those who compress
		return fmt.Errorf("is %s with %d bits a pixel", g.Kind, im.Allocated)
	case g.Kind == segFractional && (g.fraction < 1 || g.fraction > 255):
		return errors.New("MaximumFractionalValue must be from 1 to 255")
	}
	if im.Allocated == 1 && pixels.Codecs[im.Syntax.UID].Decode != nil && im.Syntax.UID != element.RLE {
		im.Allocated = 8 // the code stream says how many there are
	}
	im.Stored, im.High = im.Allocated, im.Allocated-1
	if err := checkPixels(im); err != nil {
		return err
	}
	if err := g.number(); err != nil {
		return err
	}
	labels := g.labels() // of the segments that are described
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
			return unsupported("does not say where frame %d lies in the patient "+
				"(ImagePositionPatient, ImageOrientationPatient, PixelSpacing)", n+1)
		}
		plane := framePlane{f.orientation, f.spacing}
		if p.planes[plane] == nil {
			one := stack.Slice{Info: stack.Info{Orientation: plane.orientation[:], Spacing: plane.spacing[:]}}
			if _, _, _, err := one.Axes(); err != nil {
				return fmt.Errorf("frame %d: %w", n+1, err)
			}
			p.planes[plane] = &plane
		}
		if g.Kind == segLabelMap {
			f.segment = 0
		} else if _, described := labels[f.segment]; !described {
			return fmt.Errorf("frame %d belongs to segment %d, which is not described", n+1, f.segment)
		}
		g.Placed = append(g.Placed, segFrame{p.planes[plane], f.position, f.segment, f.sources})
		if n == 0 {
			im.Shared.Thickness, im.Shared.Between = cmp.Or(f.thickness, p.shared.thickness),
				cmp.Or(f.between, p.shared.between)
		}
	}
	g.Frames, g.Number, g.UID = im.Frames, element.IntegerString(im.Number), element.UID(g.UID)
	return nil
}

// number checks the segments' numbers and gives them their labels.
func (g *Object) number() error {
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
	g.Segments = slices.DeleteFunc(g.Segments, func(s segment) bool { return s.number == 0 })
	// else two would become one: somebody has edited what Voxsaw wrote
	if len(own) == len(numbers) {
		for n := range g.Segments {
			s := &g.Segments[n]
			s.Label = cmp.Or(s.own, s.number)
		}
	}
	return nil
}

// ownCreator reserves the private block of [tag.VoxsawLabel].
const ownCreator = "VOXSAW"

// references are the images that an object refers to, by SOPInstanceUID, and of those with several
// frames the numbers, from 1.
type references map[string]map[int]bool

// hold reports whether a slice is among them. Where some frames of an image are named, the others
// are not meant.
func (r references) hold(s stack.Slice) bool {
	frames, known := r[s.Image.SOP]
	return known && (len(frames) == 0 || frames[s.Frame+1])
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
func instances(w *element.Walker, e element.Element, depth int, found func(source)) error {
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
	err := w.Items(e, depth, add, func(in *element.Walker, e element.Element) (err error) {
		switch {
		case e.Tag == tag.ReferencedSOPInstanceUID:
			sop, err = in.Text(e)
		case e.Tag == tag.ReferencedFrameNumber && e.Length <= element.MaxText:
			frames, err = in.Text(e)
		}
		return err
	})
	return cmp.Or(err, add())
}

func note(w *element.Walker, e element.Element, to map[string]bool) error {
	text, err := w.Text(e)
	if text != "" {
		to[text] = true
	}
	return err
}

// labels returns the label of each segment, by its number.
func (g *Object) labels() map[uint16]uint16 {
	table := map[uint16]uint16{}
	for _, s := range g.Segments {
		table[s.number] = s.Label
	}
	return table
}

// describe names a label, for messages.
func (g *Object) describe(label uint16) string {
	for _, s := range g.Segments {
		if s.Label == label && s.Name != "" {
			return fmt.Sprintf("%d (%s)", label, s.Name)
		}
	}
	return strconv.Itoa(int(label))
}
