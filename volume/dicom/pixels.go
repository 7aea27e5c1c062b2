package dicom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: the stored values of one frame.

// span is a piece of the data.
type span struct{ from, length int64 }

// frames finds the compressed frames of a file, each in one or more fragments.
type frames struct {
	once  sync.Once
	spans [][]span
	err   error
}

const (
	maxShrink = 4096    // pixels a byte: more than any codec reaches on an image that is not empty
	maxFrame  = 1 << 26 // pixels: 8192 x 8192
)

// checkPixels says whether the pixels are of a kind that is read, and whether the file can hold as
// many as it claims.
func (im *image) checkPixels() error {
	refuse := func(format string, args ...any) error {
		return &volume.UnsupportedError{Path: im.path, Problem: fmt.Sprintf(format, args...)}
	}
	compressed := im.pixels.length == undefined
	switch {
	case im.pixels.tag != tag.PixelData:
		return refuse("holds floating-point pixels")
	case !im.known:
		return refuse("is compressed with %s, which is not read", im.syntax.name)
	case im.samples != 1 || im.photometric != "MONOCHROME2" && im.photometric != "MONOCHROME1" && im.photometric != "":
		return refuse("holds colours (%s), not a scan", codeString(im.photometric))
	case slices.Contains(im.shared.imageType, "MOSAIC"):
		return refuse("tiles many slices in one image (a mosaic), which is not read")
	case im.table:
		return refuse("maps its values through a table (Modality LUT Sequence), which is not read")
	case im.allocated != 8 && im.allocated != 16 && im.allocated != 32:
		return refuse("has %d bits a pixel: 8, 16 and 32 are read", im.allocated)
	}
	if int64(im.rows)*int64(im.columns) > maxFrame {
		return refuse("has %d x %d pixels: more than %d are not read", im.columns, im.rows, maxFrame)
	}
	if compressed {
		if n := int64(im.rows) * int64(im.columns) * int64(im.frames); n > maxShrink*(im.size-im.pixels.value) {
			return &volume.FormatError{Path: im.path, Problem: fmt.Sprintf("claims %d pixels in %d bytes", n, im.size-im.pixels.value)}
		}
		return nil
	}
	if im.syntax.codec != nil {
		return &volume.FormatError{Path: im.path, Problem: "says that its pixels are compressed with " + im.syntax.name + ", but they are not"}
	}
	need := im.frameBytes() * int64(im.frames)
	have := min(im.pixels.length, im.size-im.pixels.value)
	if have < need {
		return &volume.FormatError{Path: im.path, Problem: fmt.Sprintf("is truncated: %d of %d bytes of pixels", max(have, 0), need)}
	}
	return nil
}

// oneFrame are the classes of scans that hold one image a file, by UID (PS3.4 B.5). The enhanced
// ones hold more, and say of each where it lies.
var oneFrame = map[string]string{
	"1.2.840.10008.5.1.4.1.1.2":   "CT Image Storage",
	"1.2.840.10008.5.1.4.1.1.4":   "MR Image Storage",
	"1.2.840.10008.5.1.4.1.1.128": "Positron Emission Tomography Image Storage",
}

// checkFrames says whether there are as many frames as are described.
func (im *image) checkFrames() error {
	problem := ""
	switch class, single := oneFrame[im.class]; {
	case single && im.frames > 1 && len(im.perFrame) == 0:
		problem = fmt.Sprintf("claims %d frames (NumberOfFrames), but is of %s, which holds one: where the others lie is not said", im.frames, class)
	case len(im.perFrame) > 0 && len(im.perFrame) != im.frames:
		problem = fmt.Sprintf("claims %d frames (NumberOfFrames), but describes %d", im.frames, len(im.perFrame))
	default:
		return nil
	}
	return &volume.FormatError{Path: im.path, Problem: problem}
}

// spare says whether there are so many more pixels than the header claims that it may be wrong.
func (im *image) spare() bool {
	return im.pixels.length != undefined && im.samples == 1 && im.allocated >= 8 && im.pixels.length >= im.frameBytes()*int64(im.frames+1)
}

// frameBytes of an uncompressed frame.
func (im *image) frameBytes() int64 {
	return int64(im.rows) * int64(im.columns) * int64(im.allocated/8)
}

// frameReader reads frames, one after the other, into memory that serves for all of them. The file
// of the last frame stays open for the next one. A worker has one of its own.
type frameReader struct {
	im   *image // whose file is open
	data *data
	raw  []byte
	out  []uint32
}

func (r *frameReader) close() {
	if r.data != nil {
		r.data.Close()
	}
	r.im, r.data = nil, nil
}

// frame is one frame as it is stored, valid until the next one is read.
type frame struct {
	im      *image
	bits    int      // that count of each sample, the lowest ones
	raw     []byte   // the frame in the file, where it is not compressed
	decoded []uint32 // otherwise what the codec made of it
}

// read reads frame number n of an image, from 0.
func (r *frameReader) read(im *image, n int) (frame, error) {
	if err := im.checkPixels(); err != nil {
		return frame{}, err
	}
	if r.im != im {
		r.close()
		d, err := reopen(im)
		if err != nil {
			return frame{}, inFile(im.path, err)
		}
		r.im, r.data = im, d
	}
	bad := func(err error) (frame, error) {
		return frame{}, &volume.FormatError{Path: im.path, Problem: "has damaged pixels", Err: err}
	}
	spans := []span{{im.pixels.value + int64(n)*im.frameBytes(), im.frameBytes()}}
	if im.pixels.length == undefined {
		im.encapsulated.once.Do(func() { im.encapsulated.spans, im.encapsulated.err = im.fragments(r.data) })
		if err := im.encapsulated.err; err != nil {
			return bad(err)
		}
		if n >= len(im.encapsulated.spans) {
			return bad(fmt.Errorf("there is no frame %d", n+1))
		}
		spans = im.encapsulated.spans[n]
	}
	r.raw = r.raw[:0]
	for _, s := range spans {
		at := len(r.raw)
		r.raw = slices.Grow(r.raw, int(s.length))[:at+int(s.length)]
		if _, err := r.data.ReadAt(r.raw[at:], s.from); err != nil {
			return bad(err)
		}
	}
	if im.syntax.codec == nil {
		if have := int64(len(r.raw)); have < im.frameBytes() {
			return bad(fmt.Errorf("%d of %d bytes", have, im.frameBytes()))
		}
		return frame{im: im, bits: im.stored, raw: r.raw}, nil
	}
	r.out = slices.Grow(r.out[:0], im.rows*im.columns)[:im.rows*im.columns]
	precision, err := im.syntax.codec(r.raw, im.columns, im.rows, r.out)
	if err == nil && im.syntax.uid == rle && precision != im.allocated {
		err = fmt.Errorf("RLE: %d bytes a pixel, not %d", precision/8, im.allocated/8)
	}
	if err != nil {
		var unsupported *volume.UnsupportedError
		if errors.As(err, &unsupported) {
			return frame{}, &volume.UnsupportedError{Path: im.path, Problem: unsupported.Problem}
		}
		return bad(err)
	}
	if shift := im.high + 1 - im.stored; shift > 0 && precision > im.high {
		for k := range r.out { // whole words were compressed
			r.out[k] >>= shift
		}
		precision -= shift
	}
	bits := im.stored
	if im.syntax.signs {
		bits = min(bits, precision)
	}
	return frame{im: im, bits: bits, decoded: r.out}, nil
}

// reopen opens the file of an image for its pixels. Where they are is known.
func reopen(im *image) (*data, error) {
	if im.syntax.deflated {
		d, _, _, _, err := open(im.path)
		if err != nil {
			return nil, err
		}
		if _, large := d.ReaderAt.(*inflater); large && im.pixels.length != undefined {
			if err := d.hold(im.pixels.value, min(im.pixels.length, (int64(im.frames)*int64(im.rows)*int64(im.columns)*int64(im.allocated)+7)/8)); err != nil {
				d.Close()
				return nil, err
			}
		}
		return d, nil
	}
	file, err := os.Open(im.path)
	if err != nil {
		return nil, err
	}
	return &data{ReaderAt: file, size: im.size, file: file}, nil
}

// row returns the samples of a row. Those of uncompressed pixels are put into buffer, an element
// for each column: the bits from high-stored+1 to high of words of 8, 16 or 32, and above them what
// else the word holds.
func (f *frame) row(n int, buffer []uint32) []uint32 {
	im := f.im
	from := n * im.columns
	if f.raw == nil {
		return f.decoded[from:][:im.columns]
	}
	out := buffer[:im.columns]
	big := im.syntax.order == binary.BigEndian
	shift := (im.high + 1 - im.stored) & 31
	switch im.allocated {
	case 8:
		// Big endian words of two pixels have the second one first.
		swap := 0
		if big && im.pixels.vr == "OW" {
			swap = 1
		}
		for k := range out {
			if at := (from + k) ^ swap; at < len(f.raw) {
				out[k] = uint32(f.raw[at]) >> shift
			}
		}
	case 16:
		raw := f.raw[2*from:][:2*im.columns]
		if big {
			for k := range out {
				out[k] = uint32(binary.BigEndian.Uint16(raw[2*k:])) >> shift
			}
			break
		}
		for k := range out {
			out[k] = uint32(binary.LittleEndian.Uint16(raw[2*k:])) >> shift
		}
	case 32:
		for k := range out {
			out[k] = im.syntax.order.Uint32(f.raw[4*(from+k):]) >> shift
		}
	}
	return out
}

// fragments finds where the frames of encapsulated pixels are (PS3.5 A.4).
func (im *image) fragments(d *data) ([][]span, error) {
	w := &walker{window: &window{from: d, size: d.size}, order: im.syntax.order}
	var all []span
	var starts []int64 // of fragments, relative to the first, as the offset table counts
	var table []uint32
	offset := im.pixels.value
	for first := true; ; {
		e, err := w.header(offset)
		if err != nil {
			if errors.Is(err, errTruncated) && offset == d.size && len(all) > 0 {
				break // the delimiter is missing, the pixels are there
			}
			return nil, err
		}
		if e.tag == tag.SequenceDelimitationItem {
			break
		}
		if e.tag != tag.Item || e.length == undefined {
			return nil, errors.New("the fragments are not items")
		}
		if first {
			if e.length > 4*maxFrames {
				return nil, errors.New("the offset table is too long")
			}
			b, err := w.at(e.value, int(e.length))
			if err != nil {
				return nil, err
			}
			for n := 0; n+4 <= len(b); n += 4 {
				table = append(table, binary.LittleEndian.Uint32(b[n:]))
			}
			first = false
		} else {
			if len(starts) == 0 {
				starts = append(starts, 0)
			} else {
				starts = append(starts, e.start-all[0].from+8)
			}
			all = append(all, span{e.value, e.length})
		}
		offset = e.value + e.length
	}
	switch {
	case im.frames == 1:
		return [][]span{all}, nil
	case len(all) == im.frames:
		out := make([][]span, len(all))
		for n := range all {
			out[n] = all[n : n+1]
		}
		return out, nil
	}
	if out := byTable(table, starts, all); len(out) == im.frames {
		return out, nil
	}
	if out, err := byStart(d, all); err != nil || len(out) == im.frames {
		return out, err
	}
	return nil, fmt.Errorf("%d fragments hold %d frames, and no table says which", len(all), im.frames)
}

// byTable divides fragments by the offset table, or returns nil where the two do not fit.
func byTable(table []uint32, starts []int64, all []span) (out [][]span) {
	for n, s := range starts {
		if len(out) < len(table) && s == int64(table[len(out)]) {
			out = append(out, nil)
		}
		if len(out) == 0 {
			return nil
		}
		out[len(out)-1] = append(out[len(out)-1], all[n])
	}
	if len(out) != len(table) {
		return nil
	}
	return out
}

// byStart divides fragments where a code stream begins: that of a JPEG, JPEG-LS or JPEG 2000 image.
func byStart(d *data, all []span) (out [][]span, err error) {
	for _, s := range all {
		var start [4]byte
		if _, err := d.ReadAt(start[:min(len(start), int(s.length))], s.from); err != nil {
			return nil, err
		}
		if start[0] == 0xFF && start[1] == 0xD8 || start == [4]byte{0xFF, 0x4F, 0xFF, 0x51} {
			out = append(out, nil)
		}
		if len(out) == 0 {
			return nil, nil
		}
		out[len(out)-1] = append(out[len(out)-1], s)
	}
	return out, nil
}

// rescale returns the function from stored to real-world values, and whether all of them are whole
// numbers.
func (im *image) rescale(f *frameInfo) (slope, intercept float64, whole bool) {
	slope, intercept = 1, 0
	if f.slope != nil {
		slope = *f.slope
	}
	if f.intercept != nil {
		intercept = *f.intercept
	}
	return slope, intercept, slope == math.Trunc(slope) && intercept == math.Trunc(intercept)
}

// real turns a frame into values, upside down: the last row first. It returns false where one does
// not fit T. Buffer has room for a row.
func real[T int16 | float32](info *frameInfo, f frame, buffer []uint32, out []T) bool {
	im := f.im
	slope, intercept, _ := im.rescale(info)
	var t T
	_, small := any(t).(int16)
	top := uint32(1) << (f.bits - 1)
	// the sign bit, for signed samples: flipped and taken away again, it spreads upwards
	flip := uint32(0)
	if im.signed {
		flip = top
	}
	mask := top | (top - 1)
	add := int32(0)
	quick := small && f.bits <= 16 && slope == 1 && math.Abs(intercept) < 1<<20
	if quick {
		add = int32(intercept) - int32(flip)
	}
	for row := range im.rows {
		src := f.row(row, buffer)
		dst := out[(im.rows-1-row)*im.columns:][:len(src)]
		if quick {
			beyond := int32(0)
			for n, s := range src {
				x := int32(s&mask^flip) + add
				beyond |= x - int32(int16(x))
				dst[n] = T(x)
			}
			if beyond != 0 {
				return false
			}
			continue
		}
		for n, s := range src {
			x := slope*(float64(s&mask^flip)-float64(flip)) + intercept
			if small && !(x >= math.MinInt16 && x <= math.MaxInt16) {
				return false
			}
			dst[n] = T(x)
		}
	}
	return true
}

// doubt says what the header and the samples contradict each other in, and what was made of it, or
// "". Buffer has room for a row.
func (f *frame) doubt(buffer []uint32) string {
	im := f.im
	switch {
	case f.spills(buffer):
		return fmt.Sprintf("has pixels of more than the %d bits that it claims (BitsStored): what is above them, an overlay or a part of the value, is left out", im.stored)
	case im.signed && f.bits < im.stored && slices.ContainsFunc(f.decoded, func(s uint32) bool { return s>>(f.bits-1) == 1 }):
		return fmt.Sprintf("is compressed with %d bits, unsigned, and claims %d, signed: values of more than %d are taken for negative ones", f.bits, im.stored, uint32(1)<<(f.bits-1)-1)
	}
	return ""
}

// spills says whether samples have more than their bits: above the highest one there is something
// that is neither 0 nor their sign. Buffer has room for a row.
func (f *frame) spills(buffer []uint32) bool {
	im := f.im
	// the word's bits, without those below, which are gone, and the sample's
	above := uint32(1)<<(im.allocated-im.high-1+im.stored) - uint32(1)<<f.bits
	if f.clear(above) {
		return false
	}
	sign := uint32(0)
	if im.signed {
		sign = 1 << (f.bits - 1)
	}
	for row := range im.rows {
		for _, s := range f.row(row, buffer) {
			if a := s & above; a != 0 && (a != above || s&sign == 0) {
				return true
			}
		}
	}
	return false
}

// clear says whether no sample has one of the bits above its own: those of the words of an
// uncompressed frame, or as many in what a codec made of it.
func (f *frame) clear(above uint32) bool {
	im := f.im
	if above == 0 {
		return true
	}
	if f.raw == nil {
		any := uint32(0)
		for _, s := range f.decoded {
			any |= s
		}
		return any&above == 0
	}
	// Eight bytes at a time, whatever their order; it is known again in the end.
	var any uint64
	raw := f.raw[:im.frameBytes()]
	for ; len(raw) >= 8; raw = raw[8:] {
		any |= binary.LittleEndian.Uint64(raw)
	}
	var last [8]byte
	copy(last[:], raw)
	any |= binary.LittleEndian.Uint64(last[:])
	binary.LittleEndian.PutUint64(last[:], any)
	wanted := uint64(above) << (im.high + 1 - im.stored)
	for width := im.allocated; width < 64; width *= 2 {
		wanted |= wanted << width
	}
	return im.syntax.order.Uint64(last[:])&wanted == 0
}
