package segmentation

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/ballot"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// WriteSegOptions say what is written beside the labels.
type WriteOptions struct {
	Algorithm string // what drew the labels, as viewers show it
	Version   string // of the program
	// Parameters are the algorithm's, for programs: ASCII, 10240 characters at most; "" for none.
	Parameters string
	Labels     []uint16 // that are described even if they have no voxel and no name
	Read       stack.Options
	Manual     bool // people drew the labels: what is said of an algorithm does not count
}

// drawnBy is how labels came about, as DICOM says it.
func (o WriteOptions) drawnBy() string {
	if o.Manual {
		return "MANUAL"
	}
	return "AUTOMATIC"
}

// writeObject writes a label map as a SEG object that refers to a stack; see
// dicom.WriteSegmentation.
func Write(path string, l *volume.LabelMap, s *stack.Stack, o WriteOptions) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	w, err := newSegWriter(l, s, o)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := w.describe(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.Write(path, w.write)
}

// Referable says why no SEG object can refer to a series, nil if one can.
func Referable(s *stack.Stack) error {
	for _, one := range s.Slices {
		var missing []string
		for _, uid := range [][2]string{{"SOPClassUID", one.Image.Class}, {"SOPInstanceUID", one.Image.SOP},
			{"SeriesInstanceUID", one.Image.Series}, {"StudyInstanceUID", one.Image.Study}} {
			if uid[1] == "" {
				missing = append(missing, uid[0])
			}
		}
		if len(missing) > 0 {
			return &volume.UnsupportedError{Path: one.Image.Path, Problem: "has no " + strings.Join(missing, ", no ") +
				": a DICOM SEG could not refer to it: write NIfTI instead"}
		}
	}
	return nil
}

// segWriter holds the labels of the series' pixels and what is said about them.
type segWriter struct {
	stack   *stack.Stack
	options WriteOptions
	labels  []uint16          // of the pixels of all slices, rows in DICOM's order
	wanted  []uint16          // the segments' labels
	present []map[uint16]bool // the labels of each slice
	names   map[uint16]string
	frames  []segOutFrame
	head    element.Encoder // all elements but the pixels
}

// segOutFrame is a label in a slice that has it.
type segOutFrame struct{ segment, slice int }

func newSegWriter(l *volume.LabelMap, s *stack.Stack, o WriteOptions) (*segWriter, error) {
	p, err := s.Arrange(o.Read)
	if err != nil {
		return nil, err
	}
	if _, err := p.Grid.Match(l.Grid); err != nil {
		return nil, fmt.Errorf("the labels do not lie on the series: %w", err)
	}
	if err := Referable(s); err != nil {
		return nil, err
	}
	first := s.Slices[0].Image
	w := &segWriter{stack: s, options: o, names: map[uint16]string{}}
	area := first.Rows * first.Columns
	w.labels = make([]uint16, area*len(s.Slices))
	if err := sample(l, s, w.labels); err != nil {
		return nil, err
	}
	w.present = make([]map[uint16]bool, len(s.Slices))
	labels := map[uint16]bool{}
	for k := range w.present {
		w.present[k] = map[uint16]bool{}
		last := uint16(0)
		for _, label := range w.labels[k*area:][:area] {
			if label != last {
				w.present[k][label], labels[label], last = true, true, label
			}
		}
	}
	for label, name := range l.Names {
		labels[label] = true
		w.names[label] = name
	}
	for _, label := range o.Labels {
		labels[label] = true
	}
	delete(labels, 0)
	w.wanted = slices.Sorted(maps.Keys(labels))
	if len(w.wanted) == 0 {
		return nil, errors.New("there is no label: a DICOM SEG needs one segment at least")
	}
	return w, nil
}

// sample gives each pixel of the slices the label that has the largest share of it, by linear
// interpolation of the labels' masks. Outside of the map there is background.
func sample(l *volume.LabelMap, s *stack.Stack, out []uint16) error {
	back, err := l.Affine.Inverse()
	if err != nil {
		return err
	}
	order := ballot.Rarest(l.Labels)
	var b ballot.Ballot
	for k := range s.Slices {
		grid, err := s.Slices[k].Grid(1)
		if err != nil {
			return err
		}
		m := back.Mul(grid.Affine) // from pixel (column, row) to voxel
		rows, columns := grid.Shape[1], grid.Shape[0]
		for r := range rows {
			for c := range columns {
				at := m.Apply([3]float64{float64(c), float64(r), 0})
				out[c+columns*(r+rows*k)] = around(l, at, &b, order)
			}
		}
	}
	return nil
}

// around is the label that has the largest share of a place, which is given in voxels of the map.
func around(l *volume.LabelMap, at [3]float64, b *ballot.Ballot, order ballot.Order) uint16 {
	const rounding = 1e-4 // voxels, of headers
	var low [3]int
	var up [3]float64 // share of the next voxel
	for a, x := range at {
		n := l.Shape[a]
		if !(x >= -0.5-rounding && x < float64(n)-0.5+rounding) {
			return 0
		}
		x = min(max(x, 0), float64(n-1))
		if whole := math.Round(x); math.Abs(x-whole) < rounding {
			x = whole
		}
		low[a] = int(x)
		up[a] = x - float64(low[a])
	}
	b.Clear()
	for corner := range 8 {
		share, v := 1.0, low
		for a := range v {
			if corner>>a&1 == 1 {
				v[a]++
				share *= up[a]
			} else {
				share *= 1 - up[a]
			}
		}
		if share > 0 {
			b.Add(l.At(v[0], v[1], v[2]), share)
		}
	}
	return b.Winner(order)
}

// uid makes a UID of what is written: 2.25 and a UUID (PS3.5 B.2) of its hash.
func (w *segWriter) uid(hash [sha256.Size]byte, what string) string {
	sum := sha256.Sum256(append(hash[:], what...))
	sum[6] = sum[6]&0x0F | 0x80 // RFC 9562, version 8: of the maker's own
	sum[8] = sum[8]&0x3F | 0x80
	return "2.25." + new(big.Int).SetBytes(sum[:16]).String()
}

// hash is of the labels, their names, who drew them, and the instances that they belong to.
func (w *segWriter) hash() (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d\n", w.options.Algorithm, w.options.Version, len(w.stack.Slices))
	if w.options.Manual {
		fmt.Fprintln(h, w.options.drawnBy())
	} else if w.options.Parameters != "" {
		fmt.Fprintf(h, "%q\n", w.options.Parameters)
	}
	for _, label := range w.wanted {
		fmt.Fprintf(h, "%d %q\n", label, w.names[label])
	}
	for _, s := range w.stack.Slices {
		fmt.Fprintf(h, "%s %d\n", s.Image.SOP, s.Frame)
	}
	var block [4096]byte
	for from := 0; from < len(w.labels); from += len(block) / 2 {
		part := w.labels[from:min(from+len(block)/2, len(w.labels))]
		for n, label := range part {
			binary.LittleEndian.PutUint16(block[2*n:], label)
		}
		h.Write(block[:2*len(part)])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// describe makes all elements except the pixels.
func (w *segWriter) describe() error {
	s, first := w.stack, &w.stack.Slices[0]
	area := first.Image.Rows * first.Image.Columns
	for n, label := range w.wanted {
		for k := range w.present {
			if w.present[k][label] {
				w.frames = append(w.frames, segOutFrame{n, k})
			}
		}
	}
	if len(w.frames) == 0 {
		// An object must have a frame. An empty one says that nothing was found.
		w.frames = []segOutFrame{{0, 0}}
	}
	if len(w.frames) > maxSegFrames || int64(len(w.frames))*int64(area)/8 >= math.MaxUint32-16 {
		return fmt.Errorf("%d frames of %dx%d pixels are more than a DICOM file can hold", len(w.frames),
			first.Image.Columns, first.Image.Rows)
	}
	carried, err := carry(first.Image.Path)
	if err != nil {
		return err
	}
	e := &w.head
	carried.add(e)
	hash := w.hash()
	instance := w.uid(hash, "instance")
	date, time := carried.moment()
	number, _ := strconv.Atoi(s.Number)

	e.Text(tag.ImageType, "CS", `DERIVED\PRIMARY`)
	e.Text(tag.SOPClassUID, "UI", stack.ClassSEG)
	e.Text(tag.SOPInstanceUID, "UI", instance)
	e.Text(tag.ContentDate, "DA", date)
	e.Text(tag.ContentTime, "TM", time)
	e.Text(tag.Modality, "CS", "SEG")
	e.Text(tag.Manufacturer, "LO", "Voxsaw")
	e.Text(tag.SeriesDescription, "LO", "Segmentation")
	e.Text(tag.ManufacturerModelName, "LO", "Voxsaw")
	var referenced []*element.Encoder
	seen := map[*stack.Image]bool{}
	for k := range s.Slices {
		if im := s.Slices[k].Image; !seen[im] {
			seen[im] = true
			referenced = append(referenced, reference(im, 0))
		}
	}
	one := &element.Encoder{}
	one.Sequence(tag.ReferencedInstanceSequence, referenced...)
	one.Text(tag.SeriesInstanceUID, "UI", first.Image.Series)
	e.Sequence(tag.ReferencedSeriesSequence, one)
	e.Text(tag.DeviceSerialNumber, "LO", "0")
	e.Text(tag.SoftwareVersions, "LO", cmp.Or(element.ASCII(w.options.Version, 64), "unknown"))
	e.Text(tag.SeriesInstanceUID, "UI", w.uid(hash, "series"))
	e.Text(tag.SeriesNumber, "IS", strconv.Itoa(1000+min(max(number, 0), 1<<30)))
	e.Text(tag.InstanceNumber, "IS", "1")
	if !carried.has(tag.FrameOfReferenceUID) {
		e.Text(tag.FrameOfReferenceUID, "UI", w.uid(sha256.Sum256([]byte(first.Image.Series)), "frame of reference"))
	}

	organisation := &element.Encoder{}
	organisation.Text(tag.DimensionOrganizationUID, "UI", w.uid(hash, "dimensions"))
	e.Sequence(tag.DimensionOrganizationSequence, organisation)
	var dimensions []*element.Encoder
	// first by segment, then by position
	for _, d := range [][2]tag.Tag{{tag.ReferencedSegmentNumber, tag.SegmentIdentificationSequence},
		{tag.ImagePositionPatient, tag.PlanePositionSequence}} {
		index := &element.Encoder{}
		index.Text(tag.DimensionOrganizationUID, "UI", w.uid(hash, "dimensions"))
		index.Tag(tag.DimensionIndexPointer, d[0])
		index.Tag(tag.FunctionalGroupPointer, d[1])
		dimensions = append(dimensions, index)
	}
	e.Sequence(tag.DimensionIndexSequence, dimensions...)

	e.Short(tag.SamplesPerPixel, 1)
	e.Text(tag.PhotometricInterpretation, "CS", "MONOCHROME2")
	e.Text(tag.NumberOfFrames, "IS", strconv.Itoa(len(w.frames)))
	e.Short(tag.Rows, uint16(first.Image.Rows))
	e.Short(tag.Columns, uint16(first.Image.Columns))
	e.Short(tag.BitsAllocated, 1)
	e.Short(tag.BitsStored, 1)
	e.Short(tag.HighBit, 0)
	e.Short(tag.PixelRepresentation, 0)
	if !carried.has(tag.LossyImageCompression) {
		e.Text(tag.LossyImageCompression, "CS", "00")
	}
	e.Text(tag.SegmentationType, "CS", "BINARY")
	e.Text(tag.SegmentsOverlap, "CS", "NO") // segments do not overlap
	e.Text(tag.ContentLabel, "CS", "SEGMENTATION")
	e.Text(tag.ContentDescription, "LO", "")
	e.Text(tag.ContentCreatorName, "PN", "")
	var segments []*element.Encoder
	for n, label := range w.wanted {
		segments = append(segments, w.segment(n+1, label))
	}
	e.Sequence(tag.SegmentSequence, segments...)
	e.Sequence(tag.SharedFunctionalGroupsSequence, w.shared())
	var frames []*element.Encoder
	for _, f := range w.frames {
		frames = append(frames, w.frame(f))
	}
	e.Sequence(tag.PerFrameFunctionalGroupsSequence, frames...)
	return nil
}

// name is that of a label, for people.
func (w *segWriter) name(label uint16) string {
	if name := w.names[label]; name != "" && name != strconv.Itoa(int(label)) {
		return name
	}
	return fmt.Sprintf("label %d", label)
}

// segment describes a label.
func (w *segWriter) segment(number int, label uint16) *element.Encoder {
	e := &element.Encoder{}
	name := w.name(label)
	kind := CodesOf(name)
	e.Short(tag.SegmentNumber, uint16(number))
	e.Name(tag.SegmentLabel, name)
	e.Text(tag.SegmentAlgorithmType, "CS", w.options.drawnBy())
	if !w.options.Manual {
		e.Text(tag.SegmentAlgorithmName, "LO", cmp.Or(element.ASCII(w.options.Algorithm, 64), "Voxsaw"))
	}
	if w.options.Parameters != "" && !w.options.Manual {
		e.Sequence(tag.SegmentationAlgorithmIdentificationSequence, w.algorithm())
	}
	e.Sequence(tag.SegmentedPropertyCategoryCodeSequence, kind.Category.encode())
	property := kind.Property.encode()
	if kind.Side != (Code{}) {
		property.Sequence(tag.SegmentedPropertyTypeModifierCodeSequence, kind.Side.encode())
	}
	e.Sequence(tag.SegmentedPropertyTypeCodeSequence, property)
	e.Short(tag.RecommendedDisplayCIELabValue, colour(number)...)
	if int(label) != number {
		e.Text(tag.VoxsawCreator, "LO", ownCreator)
		e.Short(tag.VoxsawLabel, label)
	}
	return e
}

// algorithm says which one drew a segment, with its parameters (PS3.3 10.16).
func (w *segWriter) algorithm() *element.Encoder {
	e := &element.Encoder{}
	e.Sequence(tag.AlgorithmFamilyCodeSequence, learned.encode())
	e.Text(tag.AlgorithmName, "LO", cmp.Or(element.ASCII(w.options.Algorithm, 64), "Voxsaw"))
	e.Text(tag.AlgorithmVersion, "LO", cmp.Or(element.ASCII(w.options.Version, 64), "unknown"))
	e.Text(tag.AlgorithmParameters, "LT", element.ASCII(w.options.Parameters, 10240))
	return e
}

// colour returns the colour of a segment in CIELab, as DICOM stores it (PS3.3 C.10.7.1.1). All are
// equally bright; those of neighbouring numbers differ most.
func colour(number int) []uint16 {
	const goldenAngle = 2.399963
	angle := float64(number) * goldenAngle
	component := func(x float64) uint16 { return uint16(math.Round((x + 128) * 65535 / 255)) }
	return []uint16{uint16(65 * 65535 / 100), component(60 * math.Cos(angle)), component(60 * math.Sin(angle))}
}

// shared says how all frames lie.
func (w *segWriter) shared() *element.Encoder {
	s, first := w.stack, &w.stack.Slices[0]
	orientation := &element.Encoder{}
	orientation.Decimals(tag.ImageOrientationPatient, first.Info.Orientation...)
	distance := cmp.Or(first.Info.Thickness, first.Info.Between, 1)
	if n := len(s.Slices); n > 1 {
		at := make([]float64, n)
		for k := range at {
			at[k] = s.Slices[k].At
		}
		even := false
		if even, _, distance = stack.Evenly(at); !even {
			_, distance = stack.GapIn(at)
		}
	}
	measures := &element.Encoder{}
	measures.Decimals(tag.SliceThickness, cmp.Or(first.Info.Thickness, distance))
	measures.Decimals(tag.SpacingBetweenSlices, distance)
	measures.Decimals(tag.PixelSpacing, first.Info.Spacing...)
	e := &element.Encoder{}
	e.Sequence(tag.PlaneOrientationSequence, orientation)
	e.Sequence(tag.PixelMeasuresSequence, measures)
	return e
}

// frame says where a frame lies, whose it is, and which image it was made from.
func (w *segWriter) frame(f segOutFrame) *element.Encoder {
	s := &w.stack.Slices[f.slice]
	number := 0
	if s.Image.Frames > 1 {
		number = s.Frame + 1
	}
	source := reference(s.Image, number)
	source.Text(tag.SpatialLocationsPreserved, "CS", "YES")
	source.Sequence(tag.PurposeOfReferenceCodeSequence,
		Code{"121322", "DCM", "Source image for image processing operation"}.encode())
	derivation := &element.Encoder{}
	derivation.Sequence(tag.SourceImageSequence, source)
	derivation.Sequence(tag.DerivationCodeSequence, Code{"113076", "DCM", "Segmentation"}.encode())
	content := &element.Encoder{}
	content.Long(tag.DimensionIndexValues, uint32(f.segment+1), uint32(f.slice+1))
	position := &element.Encoder{}
	position.Decimals(tag.ImagePositionPatient, s.Info.Position...)
	segment := &element.Encoder{}
	segment.Short(tag.ReferencedSegmentNumber, uint16(f.segment+1))
	e := &element.Encoder{}
	e.Sequence(tag.DerivationImageSequence, derivation)
	e.Sequence(tag.FrameContentSequence, content)
	e.Sequence(tag.PlanePositionSequence, position)
	e.Sequence(tag.SegmentIdentificationSequence, segment)
	return e
}

// reference names an image, and a frame of it if number is not 0.
func reference(im *stack.Image, number int) *element.Encoder {
	e := &element.Encoder{}
	e.Text(tag.ReferencedSOPClassUID, "UI", im.Class)
	e.Text(tag.ReferencedSOPInstanceUID, "UI", im.SOP)
	if number > 0 {
		e.Text(tag.ReferencedFrameNumber, "IS", strconv.Itoa(number))
	}
	return e
}

// writeHead writes all elements but the pixels of an object of a class.
func (w *segWriter) writeHead(out *bufio.Writer, class string) {
	meta := &element.Encoder{}
	meta.Bytes(tag.FileMetaInformationVersion, "OB", []byte{0, 1})
	meta.Text(tag.MediaStorageSOPClassUID, "UI", class)
	meta.Text(tag.MediaStorageSOPInstanceUID, "UI", w.head.Value(tag.SOPInstanceUID))
	meta.Text(tag.TransferSyntaxUID, "UI", element.ExplicitLittle)
	meta.Text(tag.ImplementationClassUID, "UI", implementation)
	meta.Text(tag.ImplementationVersionName, "SH", "VOXSAW")
	length := &element.Encoder{}
	length.Long(tag.FileMetaInformationGroupLength, uint32(len(meta.Encode())))
	out.Write(make([]byte, 128))
	out.WriteString("DICM")
	out.Write(length.Encode())
	out.Write(meta.Encode())
	out.Write(w.head.Encode())
}

// write writes the file.
func (w *segWriter) write(to io.Writer) error {
	out := bufio.NewWriterSize(to, 1<<16)
	w.writeHead(out, stack.ClassSEG)
	first := w.stack.Slices[0].Image
	area := first.Rows * first.Columns
	size := (int64(area)*int64(len(w.frames)) + 7) / 8
	size += size % 2
	header := append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, tag.PixelData.Group()),
		tag.PixelData.Number()), "OB\x00\x00"...)
	out.Write(binary.LittleEndian.AppendUint32(header, uint32(size)))
	// Frames follow each other bit by bit, the first pixel in the lowest bit, without a gap between
	// them.
	var bits byte
	filled, written := 0, int64(0)
	for _, f := range w.frames {
		label := w.wanted[f.segment]
		for _, l := range w.labels[f.slice*area:][:area] {
			if l == label {
				bits |= 1 << filled
			}
			if filled++; filled == 8 {
				out.WriteByte(bits)
				bits, filled = 0, 0
				written++
			}
		}
	}
	for ; written < size; written++ {
		out.WriteByte(bits)
		bits = 0
	}
	return out.Flush()
}

// implementation is Voxsaw's ImplementationClassUID: a UUID that was drawn for it.
const implementation = "2.25.166020274645311082511515903517001096356"
