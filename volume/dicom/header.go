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
	"github.com/suyashkumar/dicom/pkg/tag"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/volume"
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
var volumeTags = [...]uint32{
	0x00200012, // AcquisitionNumber
	0x00209056, // StackID
	0x00209128, // TemporalPositionIndex
	0x00200100, // TemporalPositionIdentifier
	0x00209241, // NominalPercentageOfCardiacPhase
	0x00181060, // TriggerTime
	0x00180081, // EchoTime
	0x00189082, // EffectiveEchoTime
	0x00180086, // EchoNumbers
	0x00180082, // InversionTime
	0x00181314, // FlipAngle
	0x00189087, // DiffusionBValue
	0x00180060, // KVP
	0x00080008, // ImageType
	0x00181210, // ConvolutionKernel
	tagFrameTime,
	0x00080032, // AcquisitionTime
	0x00080033, // ContentTime
}

// kernelTag is where volumeTags has the ConvolutionKernel.
var kernelTag = slices.Index(volumeTags[:], 0x00181210)

// timeTags are those of volumeTags that may differ from slice to slice of one volume, and grow.
var timeTags = []uint32{tagFrameTime, 0x00080032, 0x00080033}

// wanted are the elements whose values are read, with those of volumeTags.
var wanted = map[uint32]bool{
	0x00080008: true, 0x00080016: true, 0x00080018: true, 0x00080060: true, 0x00180050: true, 0x00180088: true,
	0x0020000D: true, 0x0020000E: true, 0x00200011: true, 0x00200013: true, 0x00200032: true, 0x00200037: true, 0x00200052: true,
	0x00280002: true, 0x00280004: true, 0x00280008: true, 0x00280010: true, 0x00280011: true, 0x00280030: true,
	0x00280100: true, 0x00280101: true, 0x00280102: true, 0x00280103: true, 0x00280120: true, 0x00281052: true, 0x00281053: true,
	0x00089007: true, // FrameType
}

func init() {
	for _, t := range volumeTags {
		wanted[t] = true
	}
}

const (
	tagShared      = 0x52009229
	tagPerFrame    = 0x52009230
	tagSyntax      = 0x00020010
	tagModalityLUT = 0x00283000
	tagFrameTime   = 0x00541300 // FrameReferenceTime: milliseconds
	tagMediaClass  = 0x00020002
	maxValue       = 1024    // bytes of a wanted value: real ones have a few dozen
	maxFrames      = 1 << 16 // of one file
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
		if err != nil || e.tag>>16 != 2 {
			break
		}
		if (e.tag == tagSyntax || e.tag == tagMediaClass) && e.length <= 64 {
			b, err := w.at(e.value, int(e.length))
			if err != nil {
				return s, false, 0, err
			}
			text := strings.TrimRight(string(b), " \x00")
			if e.tag == tagSyntax {
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
		if isSEG(d.class) && e.tag >= tagShared {
			return errStop // [OpenSegmentation] reads its frames
		}
		switch e.tag {
		case tagPixelData, tagFloatPixels, tagDoublePixels:
			im.pixels = e
			return errStop
		case tagModalityLUT:
			im.table = e.length != 0
			return nil
		case tagShared:
			return w.groups(e, func(b *bag) error { return b.frame(&im.shared) })
		case tagPerFrame:
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
var groupTags = map[uint32]bool{
	0x00209111: true, // FrameContentSequence
	0x00209113: true, // PlanePositionSequence
	0x00209116: true, // PlaneOrientationSequence
	0x00289110: true, // PixelMeasuresSequence
	0x00289145: true, // PixelValueTransformationSequence
	0x00189114: true, // MREchoSequence
	0x00189118: true, // CardiacSynchronizationSequence
	0x00189325: true, // CTXRayDetailsSequence
	0x00189117: true, // MRDiffusionSequence
	0x00189226: true, // MRImageFrameTypeSequence
	0x00189329: true, // CTImageFrameTypeSequence
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
type values map[uint32]library.Value

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
			v[uint32(e.Tag.Group)<<16|uint32(e.Tag.Element)] = e.Value
		}
	}
	return v, nil
}

// strings returns an element's values as text, trimmed. Nil where there are none.
func (v values) strings(t uint32) []string {
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

func (v values) string(t uint32) string {
	if s := v.strings(t); len(s) > 0 {
		return s[0]
	}
	return ""
}

// floats returns an element's values as numbers.
func (v values) floats(t uint32) ([]float64, error) {
	var out []float64
	for _, s := range v.strings(t) {
		f, err := decimal(s)
		if err != nil {
			return nil, fmt.Errorf("%s is %w", name(t), err)
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

// name returns an element's name, for errors.
func name(t uint32) string {
	if info, err := tag.Find(tag.Tag{Group: uint16(t >> 16), Element: uint16(t)}); err == nil {
		return info.Keyword
	}
	return fmt.Sprintf("element (%04x,%04x)", t>>16, t&0xFFFF)
}

// integer returns an element's first value, which must be from least to most, or otherwise if there
// is none.
func (v values) integer(t uint32, least, most, otherwise int) (int, error) {
	s := v.string(t)
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s must be a whole number from %d to %d", name(t), least, most)
	}
	return n, nil
}

// fill reads the values of the top level.
func (im *image) fill(b *bag) error {
	v, err := b.parse()
	if err != nil {
		return err
	}
	if class := v.string(0x00080016); class != "" {
		im.class = class
	}
	im.sop, im.study, im.series = v.string(0x00080018), v.string(0x0020000D), v.string(0x0020000E)
	im.frameOfRef = v.string(0x00200052)
	im.modality, im.number, im.photometric = v.string(0x00080060), v.string(0x00200011), v.string(0x00280004)
	if n, err := strconv.Atoi(v.string(0x00200013)); err == nil {
		im.instance = n
	}
	if im.passOver() != "" {
		return nil
	}
	for _, n := range []struct {
		to                    *int
		tag                   uint32
		least, most, fallback int
	}{
		{&im.rows, 0x00280010, 1, math.MaxUint16, 0}, {&im.columns, 0x00280011, 1, math.MaxUint16, 0}, {&im.samples, 0x00280002, 1, 4, 1},
		{&im.frames, 0x00280008, 1, maxFrames, 1}, {&im.allocated, 0x00280100, 1, 64, 0}, {&im.stored, 0x00280101, 1, 64, 0}, {&im.high, 0x00280102, 0, 63, 0},
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
	im.signed = v.string(0x00280103) == "1"
	if p := v.string(0x00280120); p != "" {
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
		tag   uint32
		count int
	}{{&f.position, 0x00200032, 3}, {&f.orientation, 0x00200037, 6}, {&f.spacing, 0x00280030, 2}} {
		if *n.to, err = v.floats(n.tag); err != nil {
			return err
		}
		if len(*n.to) != 0 && len(*n.to) != n.count {
			return fmt.Errorf("%s has %d numbers, not %d", name(n.tag), len(*n.to), n.count)
		}
	}
	for _, n := range []struct {
		to  **float64
		tag uint32
	}{{&f.intercept, 0x00281052}, {&f.slope, 0x00281053}} {
		x, err := v.floats(n.tag)
		if err != nil {
			return err
		}
		if len(x) > 1 {
			return fmt.Errorf("%s has %d numbers, not one", name(n.tag), len(x))
		}
		if len(x) > 0 {
			*n.to = &x[0]
		}
	}
	for _, n := range []struct {
		to  *float64
		tag uint32
	}{{&f.thickness, 0x00180050}, {&f.between, 0x00180088}} {
		// of no importance: no error
		if x, err := v.floats(n.tag); err == nil && len(x) > 0 && math.Abs(x[0]) <= maxPlace {
			*n.to = math.Abs(x[0])
		}
	}
	f.imageType = v.strings(0x00080008)
	if f.imageType == nil {
		f.imageType = v.strings(0x00089007)
	}
	for n, t := range volumeTags {
		f.volumeKeys[n] = strings.Join(v.strings(t), "\\")
		if t == 0x00080008 {
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
