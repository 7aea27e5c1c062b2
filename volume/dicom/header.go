package dicom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	library "github.com/suyashkumar/dicom"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: what one file says about its image.
//
//   - Only the elements in wanted are looked at. They are copied, one after the other, into a small
//     data set, and that is what suyashkumar/dicom parses: lengths are known to be right by then,
//     and no name or number of a patient is among them.
//   - Sequences are walked over here; what the functional groups of an enhanced image say about a
//     frame is flattened into a data set of its own.

// image is what one file says, apart from its pixels.
type image struct {
	path        string
	syntax      syntax
	known       bool // the transfer syntax is one of syntaxes
	class       string
	sop, series string
	study       string
	frameOfRef  string // FrameOfReferenceUID
	instance    int    // InstanceNumber, 0 where there is none
	modality    string
	number      string // SeriesNumber

	rows, columns, frames, samples int
	allocated, stored, high        int
	signed                         bool
	photometric                    string
	padding                        *float64 // PixelPaddingValue, as stored
	table                          bool     // values are looked up in a Modality LUT
	shared                         frameInfo
	perFrame                       []frameInfo
	pixels                         element // zero where there are none
	size                           int64   // of the file
	encapsulated                   frames
}

// frameInfo is what can differ from frame to frame, or from slice to slice.
type frameInfo struct {
	position         []float64 // ImagePositionPatient, 3 numbers
	orientation      []float64 // ImageOrientationPatient, 6 numbers
	spacing          []float64 // PixelSpacing, 2 numbers: between rows, between columns
	slope, intercept *float64
	imageType        []string
	thickness        float64 // SliceThickness: for a single slice alone
	between          float64 // SpacingBetweenSlices: likewise
	// What tells one volume of a series from another.
	volumeKeys [len(volumeTags)]string
}

// volumeTags are the attributes that tell volumes at the same positions apart, the most telling
// first.
var volumeTags = [...]tag.Tag{
	tag.AcquisitionNumber,
	tag.StackID,
	tag.TemporalPositionIndex,
	tag.TemporalPositionIdentifier,
	tag.NominalPercentageOfCardiacPhase,
	tag.TriggerTime,
	tag.EchoTime,
	tag.EffectiveEchoTime,
	tag.EchoNumbers,
	tag.InversionTime,
	tag.FlipAngle,
	tag.DiffusionBValue,
	tag.KVP,
	tag.ImageType,
	tag.ConvolutionKernel,
	tag.FrameReferenceTime,
	tag.AcquisitionTime,
	tag.ContentTime,
}

// kernelTag is where volumeTags has the ConvolutionKernel.
var kernelTag = slices.Index(volumeTags[:], tag.ConvolutionKernel)

// timeTags are those of volumeTags that may differ from slice to slice of one volume, and grow.
var timeTags = []tag.Tag{tag.FrameReferenceTime, tag.AcquisitionTime, tag.ContentTime}

// wanted are the elements whose values are read, with those of volumeTags.
var wanted = map[tag.Tag]bool{
	tag.ImageType: true, tag.SOPClassUID: true, tag.SOPInstanceUID: true, tag.Modality: true, tag.SliceThickness: true, tag.SpacingBetweenSlices: true,
	tag.StudyInstanceUID: true, tag.SeriesInstanceUID: true, tag.SeriesNumber: true, tag.InstanceNumber: true, tag.ImagePositionPatient: true, tag.ImageOrientationPatient: true, tag.FrameOfReferenceUID: true,
	tag.SamplesPerPixel: true, tag.PhotometricInterpretation: true, tag.NumberOfFrames: true, tag.Rows: true, tag.Columns: true, tag.PixelSpacing: true,
	tag.BitsAllocated: true, tag.BitsStored: true, tag.HighBit: true, tag.PixelRepresentation: true, tag.PixelPaddingValue: true, tag.RescaleIntercept: true, tag.RescaleSlope: true,
	tag.FrameType: true,
}

func init() {
	for _, t := range volumeTags {
		wanted[t] = true
	}
}

const (
	maxValue  = 1024    // bytes of a wanted value: real ones have a few dozen
	maxFrames = 1 << 16 // of one file
)

// errNotDICOM says that a file is something else.
var errNotDICOM = errors.New("is not a DICOM file")

// data is the data set of a file, for reading at random.
type data struct {
	io.ReaderAt
	size  int64
	class string // of the object, as the meta information says
	magic bool   // the file has DICOM's magic word
	file  *os.File
}

func (d *data) Close() error { return d.file.Close() }

// open finds the data set in a file, inflated if it is deflated, and where its elements begin.
func open(path string) (d *data, s syntax, known bool, offset int64, err error) {
	file, err := folders.Open(path)
	if err != nil {
		return nil, s, false, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, s, false, 0, err
	}
	d = &data{ReaderAt: file, size: info.Size(), file: file}
	if s, known, offset, err = start(d); err == nil && s.deflated {
		err = d.inflate(offset)
		offset = 0
	}
	if err != nil {
		file.Close()
		return nil, s, false, 0, err
	}
	return d, s, known, offset, nil
}

// start reads the meta information, where there is some, and guesses the transfer syntax where it
// is not told.
func start(d *data) (s syntax, known bool, offset int64, err error) {
	d.class = ""
	w := &walker{window: &window{from: d, size: d.size}, order: binary.LittleEndian}
	magic := false
	if b, err := w.at(0, int(min(132, d.size))); err != nil {
		return s, false, 0, err
	} else if magic = len(b) == 132 && string(b[128:]) == "DICM"; magic {
		offset, d.magic = 132, true
	}
	uid := ""
	for {
		// Group 2 is always explicit little endian. Its length is not asked: some files have none,
		// others a wrong one.
		e, err := w.header(offset)
		if err != nil || e.tag.Group() != 2 {
			break
		}
		if (e.tag == tag.TransferSyntaxUID || e.tag == tag.MediaStorageSOPClassUID) && e.length <= 64 {
			b, err := w.at(e.value, int(e.length))
			if err != nil {
				return s, false, 0, err
			}
			text := strings.TrimRight(string(b), " \x00")
			if e.tag == tag.TransferSyntaxUID {
				uid = text
			} else {
				d.class = text
			}
		}
		if offset, err = w.end(e, 0); err != nil {
			return s, false, 0, err
		}
	}
	if uid != "" {
		s, known = lookup(uid)
		if s.deflated {
			return s, known, offset, nil
		}
	}
	b, err := w.at(offset, 8)
	if err != nil {
		if magic {
			return s, false, 0, errTruncated
		}
		return s, false, 0, errNotDICOM
	}
	letters := b[4] >= 'A' && b[4] <= 'Z' && b[5] >= 'A' && b[5] <= 'Z'
	if uid != "" {
		if !letters && s.order == binary.LittleEndian {
			s.implicit = true // some writers compress pixels and leave the elements implicit
		}
		return s, known, offset, nil
	}
	// Nobody says the transfer syntax: the first element must be in group 2 to 10, unless the file
	// has DICOM's magic word, in one of the three ways to write one.
	plausible := func(order binary.ByteOrder) bool {
		group := order.Uint16(b)
		return magic || group >= 2 && group <= 0x10 && group%2 == 0
	}
	switch {
	case plausible(binary.LittleEndian) && letters && binary.LittleEndian.Uint16(b) <= binary.BigEndian.Uint16(b):
		s, known = lookup(explicitLittle)
	case plausible(binary.BigEndian) && letters:
		s, known = lookup("1.2.840.10008.1.2.2")
	case plausible(binary.LittleEndian) && (magic || int64(binary.LittleEndian.Uint32(b[4:])) <= d.size):
		s, known = lookup("1.2.840.10008.1.2")
	default:
		return s, false, 0, errNotDICOM
	}
	return s, known, offset, nil
}

// readImage reads what a file says about its image. Errors are errNotDICOM, [volume.FormatError],
// or of the file system.
func readImage(path string) (*image, error) {
	d, s, known, offset, err := open(path)
	if err != nil {
		return nil, inFile(path, err)
	}
	defer d.Close()
	im := &image{path: path, syntax: s, known: known, size: d.size, class: d.class}
	w := &walker{window: &window{from: d, size: d.size}, order: s.order, implicit: s.implicit}
	top := newBag(w)
	seen := 0
	_, err = w.elements(offset, d.size, false, 0, func(e element) error {
		seen++
		if isSEG(d.class) && e.tag >= tag.SharedFunctionalGroupsSequence {
			return errStop // [OpenSegmentation] reads its frames
		}
		switch e.tag {
		case tag.PixelData, tag.FloatPixelData, tag.DoubleFloatPixelData:
			im.pixels = e
			return errStop
		case tag.ModalityLUTSequence:
			im.table = e.length != 0
			return nil
		case tag.SharedFunctionalGroupsSequence:
			return w.groups(e, func(b *bag) error { return b.frame(&im.shared) })
		case tag.PerFrameFunctionalGroupsSequence:
			return w.groups(e, func(b *bag) error {
				if len(im.perFrame) == maxFrames {
					return fmt.Errorf("has more than %d frames", maxFrames)
				}
				im.perFrame = append(im.perFrame, frameInfo{})
				return b.frame(&im.perFrame[len(im.perFrame)-1])
			})
		}
		return top.add(w, e)
	})
	if err != nil && !errors.Is(err, errStop) {
		if seen == 0 && d.class == "" && !d.magic {
			err = errNotDICOM
		}
		return nil, inFile(path, err)
	}
	return im, inFile(path, im.fill(top))
}

// inFile names the file in an error and makes it one of the two kinds.
func inFile(path string, err error) error {
	var system *os.PathError
	var format *volume.FormatError
	var unsupported *volume.UnsupportedError
	switch {
	case err == nil || errors.As(err, &system) || errors.As(err, &format) || errors.As(err, &unsupported):
		return err
	case errors.Is(err, errTruncated):
		return &volume.FormatError{Path: path, Problem: "is truncated: it " + errTruncated.Error()}
	}
	return &volume.FormatError{Path: path, Problem: "cannot be read", Err: err}
}

// groups calls f with the elements of each item of a functional groups sequence, those of the
// sequences inside laid side by side.
func (w *walker) groups(e element, f func(*bag) error) error {
	_, err := w.sequence(e, 0, func(in *walker, offset, limit int64, delimited bool) (int64, error) {
		b := newBag(in)
		end, err := in.elements(offset, limit, delimited, 1, func(group element) error {
			if group.vr != "SQ" && !in.implicit && group.length != undefined {
				return nil
			}
			if !groupTags[group.tag] {
				return nil
			}
			_, err := in.sequence(group, 1, func(in *walker, offset, limit int64, delimited bool) (int64, error) {
				return in.elements(offset, limit, delimited, 2, func(e element) error { return b.add(in, e) })
			})
			return err
		})
		if err != nil {
			return 0, err
		}
		return end, f(b)
	})
	return err
}

// groupTags are the functional groups that matter.
var groupTags = map[tag.Tag]bool{
	tag.FrameContentSequence:             true,
	tag.PlanePositionSequence:            true,
	tag.PlaneOrientationSequence:         true,
	tag.PixelMeasuresSequence:            true,
	tag.PixelValueTransformationSequence: true,
	tag.MREchoSequence:                   true,
	tag.CardiacSynchronizationSequence:   true,
	tag.CTXRayDetailsSequence:            true,
	tag.MRDiffusionSequence:              true,
	tag.MRImageFrameTypeSequence:         true,
	tag.CTImageFrameTypeSequence:         true,
}

// bag collects the wanted elements and has the library read them.
type bag struct {
	bytes.Buffer
	implicit bool
	order    byteOrder
}

func newBag(w *walker) *bag { return &bag{implicit: w.implicit, order: w.order} }

func (b *bag) add(w *walker, e element) error {
	if !wanted[e.tag] || e.length == undefined || e.length > maxValue || w.implicit != b.implicit || w.order != b.order {
		return nil
	}
	raw, err := w.at(e.start, int(e.value-e.start+e.length))
	b.Write(raw)
	return err
}

// values are those of a data set, by tag.
type values map[tag.Tag]library.Value

// parse reads the values of the elements.
func (b *bag) parse() (v values, err error) {
	// Not even the library's messages are passed on: they may show values.
	bad := errors.New("an element has a value that cannot be")
	defer func() {
		if recover() != nil {
			v, err = nil, bad
		}
	}()
	uid := "1.2.840.10008.1.2\x00"
	switch {
	case b.order == binary.BigEndian:
		uid = "1.2.840.10008.1.2.2\x00"
	case !b.implicit:
		uid = explicitLittle + "\x00"
	}
	var file bytes.Buffer
	file.Write(make([]byte, 128))
	file.WriteString("DICM")
	length := binary.LittleEndian.AppendUint32([]byte{2, 0, 0, 0, 'U', 'L', 4, 0}, uint32(8+len(uid)))
	file.Write(length)
	file.Write(binary.LittleEndian.AppendUint16([]byte{2, 0, 0x10, 0, 'U', 'I'}, uint16(len(uid))))
	file.WriteString(uid)
	file.Write(b.Bytes())
	set, err := library.Parse(&file, int64(file.Len()), nil, library.SkipPixelData())
	if err != nil {
		return nil, bad
	}
	v = values{}
	for _, e := range set.Elements {
		if e.Value != nil {
			v[tag.Tag(e.Tag.Group)<<16|tag.Tag(e.Tag.Element)] = e.Value
		}
	}
	return v, nil
}

// strings returns an element's values as text, trimmed. Nil where there are none.
func (v values) strings(t tag.Tag) []string {
	value, ok := v[t]
	if !ok {
		return nil
	}
	var out []string
	switch x := value.GetValue().(type) {
	case []string:
		for _, s := range x {
			out = append(out, strings.Trim(s, " \x00\t\r\n"))
		}
	case []int:
		for _, n := range x {
			out = append(out, strconv.Itoa(n))
		}
	case []float64:
		for _, f := range x {
			out = append(out, strconv.FormatFloat(f, 'g', -1, 64))
		}
	case []byte: // a type that is not known: text, in all cases that matter
		out = strings.Split(strings.Trim(string(x), " \x00"), "\\")
	}
	if len(out) == 1 && out[0] == "" {
		return nil
	}
	return out
}

func (v values) string(t tag.Tag) string {
	if s := v.strings(t); len(s) > 0 {
		return s[0]
	}
	return ""
}

// floats returns an element's values as numbers.
func (v values) floats(t tag.Tag) ([]float64, error) {
	var out []float64
	for _, s := range v.strings(t) {
		f, err := decimal(s)
		if err != nil {
			return nil, fmt.Errorf("%s is %w", t, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// decimal parses a number.
func decimal(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	// Go's own spellings are not DICOM's
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || strings.ContainsAny(s, "_xX") {
		return 0, errors.New("not a number")
	}
	return f, nil
}

// codeString is a value that is shown: whatever is no code string, of capitals and digits, may be
// somebody's name.
func codeString(s string) string {
	if len(s) < 1 || len(s) > 16 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ ") != "" {
		return "other"
	}
	return s
}

// integerString is a number that is shown, as it stands, or "".
func integerString(s string) string {
	if _, err := strconv.ParseInt(s, 10, 32); err != nil {
		return ""
	}
	return s
}

// integer returns an element's first value, which must be from least to most, or otherwise if there
// is none.
func (v values) integer(t tag.Tag, least, most, otherwise int) (int, error) {
	s := v.string(t)
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s must be a whole number from %d to %d", t, least, most)
	}
	return n, nil
}

// fill reads the values of the top level.
func (im *image) fill(b *bag) error {
	v, err := b.parse()
	if err != nil {
		return err
	}
	if class := v.string(tag.SOPClassUID); class != "" {
		im.class = class
	}
	im.sop, im.study, im.series = v.string(tag.SOPInstanceUID), v.string(tag.StudyInstanceUID), v.string(tag.SeriesInstanceUID)
	im.frameOfRef = v.string(tag.FrameOfReferenceUID)
	im.modality, im.number, im.photometric = v.string(tag.Modality), v.string(tag.SeriesNumber), v.string(tag.PhotometricInterpretation)
	if n, err := strconv.Atoi(v.string(tag.InstanceNumber)); err == nil {
		im.instance = n
	}
	if im.passOver() != "" {
		return nil
	}
	for _, n := range []struct {
		to                    *int
		tag                   tag.Tag
		least, most, fallback int
	}{
		{&im.rows, tag.Rows, 1, math.MaxUint16, 0}, {&im.columns, tag.Columns, 1, math.MaxUint16, 0}, {&im.samples, tag.SamplesPerPixel, 1, 4, 1},
		{&im.frames, tag.NumberOfFrames, 1, maxFrames, 1}, {&im.allocated, tag.BitsAllocated, 1, 64, 0}, {&im.stored, tag.BitsStored, 1, 64, 0}, {&im.high, tag.HighBit, 0, 63, 0},
	} {
		if *n.to, err = v.integer(n.tag, n.least, n.most, n.fallback); err != nil {
			return err
		}
	}
	if im.rows == 0 || im.columns == 0 || im.allocated == 0 {
		return errors.New("says nothing about the size of its image (Rows, Columns, BitsAllocated)")
	}
	if im.stored == 0 {
		im.stored = im.allocated
	}
	if im.high == 0 {
		im.high = im.stored - 1
	}
	if im.stored > im.allocated || im.high >= im.allocated || im.high < im.stored-1 {
		return fmt.Errorf("has impossible pixels: %d bits stored up to bit %d, of %d allocated", im.stored, im.high, im.allocated)
	}
	im.signed = v.string(tag.PixelRepresentation) == "1"
	if p := v.string(tag.PixelPaddingValue); p != "" {
		if f, err := strconv.ParseFloat(p, 64); err == nil {
			im.padding = &f
		}
	}
	var own frameInfo
	if err := own.fill(v); err != nil {
		return err
	}
	im.shared.under(own)
	return nil
}

// frame reads the values of one frame.
func (b *bag) frame(f *frameInfo) error {
	v, err := b.parse()
	if err != nil {
		return err
	}
	return f.fill(v)
}

func (f *frameInfo) fill(v values) (err error) {
	for _, n := range []struct {
		to    *[]float64
		tag   tag.Tag
		count int
	}{{&f.position, tag.ImagePositionPatient, 3}, {&f.orientation, tag.ImageOrientationPatient, 6}, {&f.spacing, tag.PixelSpacing, 2}} {
		if *n.to, err = v.floats(n.tag); err != nil {
			return err
		}
		if len(*n.to) != 0 && len(*n.to) != n.count {
			return fmt.Errorf("%s has %d numbers, not %d", n.tag, len(*n.to), n.count)
		}
	}
	for _, n := range []struct {
		to  **float64
		tag tag.Tag
	}{{&f.intercept, tag.RescaleIntercept}, {&f.slope, tag.RescaleSlope}} {
		x, err := v.floats(n.tag)
		if err != nil {
			return err
		}
		if len(x) > 1 {
			return fmt.Errorf("%s has %d numbers, not one", n.tag, len(x))
		}
		if len(x) > 0 {
			*n.to = &x[0]
		}
	}
	for _, n := range []struct {
		to  *float64
		tag tag.Tag
	}{{&f.thickness, tag.SliceThickness}, {&f.between, tag.SpacingBetweenSlices}} {
		// of no importance: no error
		if x, err := v.floats(n.tag); err == nil && len(x) > 0 && math.Abs(x[0]) <= maxPlace {
			*n.to = math.Abs(x[0])
		}
	}
	f.imageType = v.strings(tag.ImageType)
	if f.imageType == nil {
		f.imageType = v.strings(tag.FrameType)
	}
	for n, t := range volumeTags {
		f.volumeKeys[n] = strings.Join(v.strings(t), "\\")
		if t == tag.ImageType {
			f.volumeKeys[n] = strings.Join(f.imageType, "\\") // FrameType, where it is a frame's
		}
	}
	return nil
}

// under fills what f does not say from what o says.
func (f *frameInfo) under(o frameInfo) {
	if f.position == nil {
		f.position = o.position
	}
	if f.orientation == nil {
		f.orientation = o.orientation
	}
	if f.spacing == nil {
		f.spacing = o.spacing
	}
	if f.slope == nil {
		f.slope = o.slope
	}
	if f.intercept == nil {
		f.intercept = o.intercept
	}
	if f.imageType == nil {
		f.imageType = o.imageType
	}
	if f.thickness == 0 {
		f.thickness = o.thickness
	}
	if f.between == 0 {
		f.between = o.between
	}
	for n := range f.volumeKeys {
		if f.volumeKeys[n] == "" {
			f.volumeKeys[n] = o.volumeKeys[n]
		}
	}
}

// passedOver are objects that are no scans, by what their SOP class UID begins with (PS3.4 B.5).
var passedOver = []struct{ prefix, what string }{
	{"1.2.840.10008.1.3.10", "DICOMDIR"},
	{"1.2.840.10008.5.1.4.1.1.481.2", "RTDOSE"},
	{"1.2.840.10008.5.1.4.1.1.481.3", "RTSTRUCT"},
	{"1.2.840.10008.5.1.4.1.1.481.", "RT object"},
	{"1.2.840.10008.5.1.4.1.1.66.4", "SEG"},
	{"1.2.840.10008.5.1.4.1.1.66.7", "SEG"},
	{"1.2.840.10008.5.1.4.1.1.66", "registration or fiducials"},
	{"1.2.840.10008.5.1.4.1.1.88.", "SR"},
	{"1.2.840.10008.5.1.4.1.1.104.", "encapsulated document"},
	{"1.2.840.10008.5.1.4.1.1.9.", "waveform"},
	{"1.2.840.10008.5.1.4.1.1.11.", "presentation state"},
	{"1.2.840.10008.5.1.4.1.1.30", "parametric map"},
}

// passOver says what the file is if it is no image, or "".
func (im *image) passOver() string {
	for _, p := range passedOver {
		if strings.HasPrefix(im.class, p.prefix) {
			return p.what
		}
	}
	switch im.modality {
	case "RTDOSE", "RTSTRUCT", "RTPLAN", "SEG", "SR", "PR", "KO", "REG", "DOC":
		return im.modality
	}
	if im.pixels.tag == 0 {
		return "no image"
	}
	return ""
}
