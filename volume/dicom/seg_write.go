package dicom

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
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: label maps as SEG objects (PS3.3 A.51): binary, one segment a label, frames on the
// slices of the series that the labels belong to.

// WriteOptions say what [WriteSegmentation] writes beside the labels.
type WriteOptions struct {
	Algorithm string   // what drew the labels, as viewers show it
	Version   string   // of the program
	Labels    []uint16 // that are described even if they have no voxel and no name
	Read      Options  // that the series was read with
}

// WriteSegmentation writes a label map as a SEG object that refers to a series: each label is a
// segment, named by the map's names, and so is each label that has a name and no voxel. The map
// lies on the grid that [ReadWith] gives the series with o.Read; where that moved or resampled
// slices, each pixel of the series takes the label of the nearest voxel.
//
// What a PACS files objects by (patient, study, frame of reference) is copied byte for byte from
// the series' first file; it is never parsed. UIDs are made from what is written and what it refers
// to, and times are the series': the same labels of the same series make the same file. It is there
// whole or not at all.
func WriteSegmentation(path string, l *volume.LabelMap, s *Series, o WriteOptions) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	w, err := newSegWriter(l, s, o)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.Write(path, w.write)
}

// Referable says why no SEG object can refer to a series, nil if one can.
func (s *Series) Referable() error {
	for _, one := range s.slices {
		var missing []string
		for _, uid := range [][2]string{{"SOPClassUID", one.image.class}, {"SOPInstanceUID", one.image.sop}, {"SeriesInstanceUID", one.image.series}, {"StudyInstanceUID", one.image.study}} {
			if uid[1] == "" {
				missing = append(missing, uid[0])
			}
		}
		if len(missing) > 0 {
			return &volume.UnsupportedError{Path: one.image.path, Problem: "has no " + strings.Join(missing, ", no ") + ": a DICOM SEG could not refer to it"}
		}
	}
	return nil
}

// segWriter holds the labels of the series' pixels and what is said about them.
type segWriter struct {
	series  *Series
	options WriteOptions
	labels  []uint16 // of the pixels of all slices, rows in DICOM's order
	wanted  []uint16 // the segments' labels
	names   map[uint16]string
	frames  []segOutFrame
	head    encoder // all elements but the pixels
}

// segOutFrame is a label in a slice that has it.
type segOutFrame struct{ segment, slice int }

func newSegWriter(l *volume.LabelMap, s *Series, o WriteOptions) (*segWriter, error) {
	if err := o.Read.defaults(); err != nil {
		return nil, err
	}
	p, err := s.arrange(o.Read)
	if err != nil {
		return nil, err
	}
	if _, err := p.grid.Match(l.Grid); err != nil {
		return nil, fmt.Errorf("the labels do not lie on the series: %w", err)
	}
	if err := s.Referable(); err != nil {
		return nil, err
	}
	first := s.slices[0].image
	w := &segWriter{series: s, options: o, names: map[uint16]string{}}
	area := first.rows * first.columns
	w.labels = make([]uint16, area*len(s.slices))
	if err := sample(l, s, w.labels); err != nil {
		return nil, err
	}
	present := make([]map[uint16]bool, len(s.slices))
	labels := map[uint16]bool{}
	for k := range present {
		present[k] = map[uint16]bool{}
		last := uint16(0)
		for _, label := range w.labels[k*area:][:area] {
			if label != last {
				present[k][label], labels[label], last = true, true, label
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
	for n, label := range w.wanted {
		for k := range present {
			if present[k][label] {
				w.frames = append(w.frames, segOutFrame{n, k})
			}
		}
	}
	if len(w.frames) == 0 {
		// an object without frames is none: an empty one says that nothing was found
		w.frames = []segOutFrame{{0, 0}}
	}
	if len(w.frames) > maxSegFrames || int64(len(w.frames))*int64(area)/8 >= math.MaxUint32-16 {
		return nil, fmt.Errorf("%d frames of %dx%d pixels are more than a DICOM file can hold", len(w.frames), first.columns, first.rows)
	}
	return w, w.describe()
}

// sample gives each pixel of the series the label of the nearest voxel, those outside the map
// background.
func sample(l *volume.LabelMap, s *Series, out []uint16) error {
	back, err := l.Affine.Inverse()
	if err != nil {
		return err
	}
	for k := range s.slices {
		grid, err := s.slices[k].grid(1)
		if err != nil {
			return err
		}
		m := back.Mul(grid.Affine) // from pixel (column, row) to voxel
		rows, columns := grid.Shape[1], grid.Shape[0]
		for r := range rows {
			var from [3]float64
			for a := range from {
				from[a] = m[a][1]*float64(r) + m[a][3] + 0.5
			}
			for c := range columns {
				i := int(math.Floor(from[0] + m[0][0]*float64(c)))
				j := int(math.Floor(from[1] + m[1][0]*float64(c)))
				n := int(math.Floor(from[2] + m[2][0]*float64(c)))
				if i >= 0 && j >= 0 && n >= 0 && i < l.Shape[0] && j < l.Shape[1] && n < l.Shape[2] {
					out[c+columns*(r+rows*k)] = l.Labels[l.Index(i, j, n)]
				}
			}
		}
	}
	return nil
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
	fmt.Fprintf(h, "%q %q %d\n", w.options.Algorithm, w.options.Version, len(w.series.slices))
	for _, label := range w.wanted {
		fmt.Fprintf(h, "%d %q\n", label, w.names[label])
	}
	for _, s := range w.series.slices {
		fmt.Fprintf(h, "%s %d\n", s.image.sop, s.frame)
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

// describe makes all elements but the pixels.
func (w *segWriter) describe() error {
	s, first := w.series, &w.series.slices[0]
	carried, err := carry(first.image.path)
	if err != nil {
		return err
	}
	e := &w.head
	e.carry(carried)
	hash := w.hash()
	instance := w.uid(hash, "instance")
	date, time := carried.moment()
	number, _ := strconv.Atoi(s.Number)

	e.text(tag.ImageType, "CS", `DERIVED\PRIMARY`)
	e.text(tag.SOPClassUID, "UI", classSEG)
	e.text(tag.SOPInstanceUID, "UI", instance)
	e.text(tag.ContentDate, "DA", date)
	e.text(tag.ContentTime, "TM", time)
	e.text(tag.Modality, "CS", "SEG")
	e.text(tag.Manufacturer, "LO", "Voxsaw")
	e.text(tag.SeriesDescription, "LO", "Segmentation")
	e.text(tag.ManufacturerModelName, "LO", "Voxsaw")
	var referenced []*encoder
	seen := map[*image]bool{}
	for k := range s.slices {
		if im := s.slices[k].image; !seen[im] {
			seen[im] = true
			referenced = append(referenced, reference(im, 0))
		}
	}
	one := &encoder{}
	one.sequence(tag.ReferencedInstanceSequence, referenced...)
	one.text(tag.SeriesInstanceUID, "UI", first.image.series)
	e.sequence(tag.ReferencedSeriesSequence, one)
	e.text(tag.DeviceSerialNumber, "LO", "0")
	e.text(tag.SoftwareVersions, "LO", cmp.Or(ascii(w.options.Version, 64), "unknown"))
	e.text(tag.SeriesInstanceUID, "UI", w.uid(hash, "series"))
	e.text(tag.SeriesNumber, "IS", strconv.Itoa(1000+min(max(number, 0), 1<<30)))
	e.text(tag.InstanceNumber, "IS", "1")
	if !carried.has(tag.FrameOfReferenceUID) {
		e.text(tag.FrameOfReferenceUID, "UI", w.uid(sha256.Sum256([]byte(first.image.series)), "frame of reference"))
	}

	organisation := &encoder{}
	organisation.text(tag.DimensionOrganizationUID, "UI", w.uid(hash, "dimensions"))
	e.sequence(tag.DimensionOrganizationSequence, organisation)
	var dimensions []*encoder
	// first by segment, then by position
	for _, d := range [][2]tag.Tag{{tag.ReferencedSegmentNumber, tag.SegmentIdentificationSequence}, {tag.ImagePositionPatient, tag.PlanePositionSequence}} {
		index := &encoder{}
		index.text(tag.DimensionOrganizationUID, "UI", w.uid(hash, "dimensions"))
		index.tag(tag.DimensionIndexPointer, d[0])
		index.tag(tag.FunctionalGroupPointer, d[1])
		dimensions = append(dimensions, index)
	}
	e.sequence(tag.DimensionIndexSequence, dimensions...)

	e.short(tag.SamplesPerPixel, 1)
	e.text(tag.PhotometricInterpretation, "CS", "MONOCHROME2")
	e.text(tag.NumberOfFrames, "IS", strconv.Itoa(len(w.frames)))
	e.short(tag.Rows, uint16(first.image.rows))
	e.short(tag.Columns, uint16(first.image.columns))
	e.short(tag.BitsAllocated, 1)
	e.short(tag.BitsStored, 1)
	e.short(tag.HighBit, 0)
	e.short(tag.PixelRepresentation, 0)
	if !carried.has(tag.LossyImageCompression) {
		e.text(tag.LossyImageCompression, "CS", "00")
	}
	e.text(tag.SegmentationType, "CS", "BINARY")
	e.text(tag.SegmentsOverlap, "CS", "NO") // segments do not overlap
	e.text(tag.ContentLabel, "CS", "SEGMENTATION")
	e.text(tag.ContentDescription, "LO", "")
	e.text(tag.ContentCreatorName, "PN", "")
	var segments []*encoder
	for n, label := range w.wanted {
		segments = append(segments, w.segment(n+1, label))
	}
	e.sequence(tag.SegmentSequence, segments...)
	e.sequence(tag.SharedFunctionalGroupsSequence, w.shared())
	var frames []*encoder
	for _, f := range w.frames {
		frames = append(frames, w.frame(f))
	}
	e.sequence(tag.PerFrameFunctionalGroupsSequence, frames...)
	return nil
}

// segment describes a label.
func (w *segWriter) segment(number int, label uint16) *encoder {
	e := &encoder{}
	name := w.names[label]
	if name == "" || name == strconv.Itoa(int(label)) {
		name = fmt.Sprintf("label %d", label)
	}
	kind := codesOf(name)
	e.short(tag.SegmentNumber, uint16(number))
	e.name(tag.SegmentLabel, name)
	e.text(tag.SegmentAlgorithmType, "CS", "AUTOMATIC")
	e.text(tag.SegmentAlgorithmName, "LO", cmp.Or(ascii(w.options.Algorithm, 64), "Voxsaw"))
	e.sequence(tag.SegmentedPropertyCategoryCodeSequence, kind.category.encode())
	property := kind.property.encode()
	if kind.side != (code{}) {
		property.sequence(tag.SegmentedPropertyTypeModifierCodeSequence, kind.side.encode())
	}
	e.sequence(tag.SegmentedPropertyTypeCodeSequence, property)
	e.short(tag.RecommendedDisplayCIELabValue, colour(number)...)
	if int(label) != number {
		e.text(tag.VoxsawCreator, "LO", ownCreator)
		e.short(tag.VoxsawLabel, label)
	}
	return e
}

// colour is that of a segment in CIELab as DICOM stores it (PS3.3 C.10.7.1.1): equally bright,
// neighbouring numbers far apart.
func colour(number int) []uint16 {
	const goldenAngle = 2.399963
	angle := float64(number) * goldenAngle
	component := func(x float64) uint16 { return uint16(math.Round((x + 128) * 65535 / 255)) }
	return []uint16{uint16(65 * 65535 / 100), component(60 * math.Cos(angle)), component(60 * math.Sin(angle))}
}

// shared says how all frames lie.
func (w *segWriter) shared() *encoder {
	s, first := w.series, &w.series.slices[0]
	orientation := &encoder{}
	orientation.decimals(tag.ImageOrientationPatient, first.info.orientation...)
	distance := cmp.Or(first.info.thickness, first.info.between, 1)
	if n := len(s.slices); n > 1 {
		at := make([]float64, n)
		for k := range at {
			at[k] = s.slices[k].at
		}
		even := false
		if even, _, distance = evenly(at); !even {
			_, distance = gapIn(at)
		}
	}
	measures := &encoder{}
	measures.decimals(tag.SliceThickness, cmp.Or(first.info.thickness, distance))
	measures.decimals(tag.SpacingBetweenSlices, distance)
	measures.decimals(tag.PixelSpacing, first.info.spacing...)
	e := &encoder{}
	e.sequence(tag.PlaneOrientationSequence, orientation)
	e.sequence(tag.PixelMeasuresSequence, measures)
	return e
}

// frame says where a frame lies, whose it is, and which image it was made from.
func (w *segWriter) frame(f segOutFrame) *encoder {
	s := &w.series.slices[f.slice]
	number := 0
	if s.image.frames > 1 {
		number = s.frame + 1
	}
	source := reference(s.image, number)
	source.text(tag.SpatialLocationsPreserved, "CS", "YES")
	source.sequence(tag.PurposeOfReferenceCodeSequence, code{"121322", "DCM", "Source image for image processing operation"}.encode())
	derivation := &encoder{}
	derivation.sequence(tag.SourceImageSequence, source)
	derivation.sequence(tag.DerivationCodeSequence, code{"113076", "DCM", "Segmentation"}.encode())
	content := &encoder{}
	content.long(tag.DimensionIndexValues, uint32(f.segment+1), uint32(f.slice+1))
	position := &encoder{}
	position.decimals(tag.ImagePositionPatient, s.info.position...)
	segment := &encoder{}
	segment.short(tag.ReferencedSegmentNumber, uint16(f.segment+1))
	e := &encoder{}
	e.sequence(tag.DerivationImageSequence, derivation)
	e.sequence(tag.FrameContentSequence, content)
	e.sequence(tag.PlanePositionSequence, position)
	e.sequence(tag.SegmentIdentificationSequence, segment)
	return e
}

// reference names an image, and a frame of it if number is not 0.
func reference(im *image, number int) *encoder {
	e := &encoder{}
	e.text(tag.ReferencedSOPClassUID, "UI", im.class)
	e.text(tag.ReferencedSOPInstanceUID, "UI", im.sop)
	if number > 0 {
		e.text(tag.ReferencedFrameNumber, "IS", strconv.Itoa(number))
	}
	return e
}

// write writes the file.
func (w *segWriter) write(to io.Writer) error {
	out := bufio.NewWriterSize(to, 1<<16)
	meta := &encoder{}
	meta.bytes(tag.FileMetaInformationVersion, "OB", []byte{0, 1})
	meta.text(tag.MediaStorageSOPClassUID, "UI", classSEG)
	meta.text(tag.MediaStorageSOPInstanceUID, "UI", w.head.value(tag.SOPInstanceUID))
	meta.text(tag.TransferSyntaxUID, "UI", explicitLittle)
	meta.text(tag.ImplementationClassUID, "UI", implementation)
	meta.text(tag.ImplementationVersionName, "SH", "VOXSAW")
	length := &encoder{}
	length.long(tag.FileMetaInformationGroupLength, uint32(len(meta.encode())))
	out.Write(make([]byte, 128))
	out.WriteString("DICM")
	out.Write(length.encode())
	out.Write(meta.encode())
	out.Write(w.head.encode())

	first := w.series.slices[0].image
	area := first.rows * first.columns
	size := (int64(area)*int64(len(w.frames)) + 7) / 8
	size += size % 2
	header := append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, tag.PixelData.Group()), tag.PixelData.Number()), "OB\x00\x00"...)
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
