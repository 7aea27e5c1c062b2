package dicom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/voxsaw/voxsaw/volume"
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

// checkPixels says whether the pixels are of a kind that is read, and whether the file can hold as many as it claims.
func (im *image) checkPixels() error {
	refuse := func(format string, args ...any) error {
		return &volume.UnsupportedError{Path: im.path, Problem: fmt.Sprintf(format, args...)}
	}
	compressed := im.pixels.length == undefined
	switch {
	case im.pixels.tag != tagPixelData:
		return refuse("holds floating-point pixels")
	case !im.known:
		return refuse("is compressed with %s, which is not read", im.syntax.name)
	case im.samples != 1 || im.photometric != "MONOCHROME2" && im.photometric != "MONOCHROME1" && im.photometric != "":
		return refuse("holds colours (%s), not a scan", im.photometric)
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

// frameBytes of an uncompressed frame.
func (im *image) frameBytes() int64 {
	return int64(im.rows) * int64(im.columns) * int64(im.allocated/8)
}

// readFrame puts the samples of one frame into out, as they are stored, and says how many of their low bits count. Out has rows*columns elements.
func (im *image) readFrame(frame int, out []uint32) (bits int, err error) {
	if err := im.checkPixels(); err != nil {
		return 0, err
	}
	d, _, _, _, err := open(im.path)
	if err != nil {
		return 0, inFile(im.path, err)
	}
	defer d.Close()
	return im.readFrameFrom(d, frame, out)
}

// readFrameFrom is readFrame of a file that is open, and whose pixels have been checked.
func (im *image) readFrameFrom(d *data, frame int, out []uint32) (bits int, err error) {
	bad := func(err error) error {
		return &volume.FormatError{Path: im.path, Problem: "has damaged pixels", Err: err}
	}
	if im.pixels.length != undefined {
		raw := make([]byte, im.frameBytes())
		if _, err := d.ReadAt(raw, im.pixels.value+int64(frame)*im.frameBytes()); err != nil {
			return 0, bad(err)
		}
		im.native(raw, out)
		return im.stored, nil
	}
	im.encapsulated.once.Do(func() { im.encapsulated.spans, im.encapsulated.err = im.fragments(d) })
	if err := im.encapsulated.err; err != nil {
		return 0, bad(err)
	}
	if frame >= len(im.encapsulated.spans) {
		return 0, bad(fmt.Errorf("there is no frame %d", frame+1))
	}
	var raw []byte
	for _, s := range im.encapsulated.spans[frame] {
		piece := make([]byte, s.length)
		if _, err := d.ReadAt(piece, s.from); err != nil {
			return 0, bad(err)
		}
		raw = append(raw, piece...)
	}
	if im.syntax.codec == nil { // encapsulated, but not compressed
		if int64(len(raw)) < im.frameBytes() {
			return 0, bad(fmt.Errorf("%d of %d bytes", len(raw), im.frameBytes()))
		}
		im.native(raw, out)
		return im.stored, nil
	}
	precision, err := im.syntax.codec(raw, im.columns, im.rows, out)
	if err != nil {
		var unsupported *volume.UnsupportedError
		if errors.As(err, &unsupported) {
			return 0, &volume.UnsupportedError{Path: im.path, Problem: unsupported.Problem}
		}
		return 0, bad(err)
	}
	return min(im.stored, precision), nil
}

// native unpacks uncompressed pixels: the bits from high-stored+1 to high of words of 8, 16 or 32.
func (im *image) native(raw []byte, out []uint32) {
	order := im.syntax.order
	shift := im.high + 1 - im.stored
	switch im.allocated {
	case 8:
		// Big endian words of two pixels have the second one first.
		swap := 0
		if order == binary.BigEndian && im.pixels.vr == "OW" {
			swap = 1
		}
		for n := range out {
			m := n ^ swap
			if m < len(raw) {
				out[n] = uint32(raw[m]) >> shift
			}
		}
	case 16:
		if order == binary.BigEndian {
			for n := range out {
				out[n] = uint32(binary.BigEndian.Uint16(raw[2*n:])) >> shift
			}
			return
		}
		for n := range out {
			out[n] = uint32(binary.LittleEndian.Uint16(raw[2*n:])) >> shift
		}
	case 32:
		for n := range out {
			out[n] = order.Uint32(raw[4*n:]) >> shift
		}
	}
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
			if errors.Is(err, errTruncated) && len(all) == im.frames && im.frames == 1 {
				break // the delimiter is missing, the pixels are there
			}
			return nil, err
		}
		if e.tag == tagSequenceEnd {
			break
		}
		if e.tag != tagItem || e.length == undefined {
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
	case len(table) == im.frames:
		out := make([][]span, im.frames)
		frame := -1
		for n, s := range starts {
			if frame+1 < len(table) && s == int64(table[frame+1]) {
				frame++
			}
			if frame < 0 {
				return nil, errors.New("the offset table does not fit the fragments")
			}
			out[frame] = append(out[frame], all[n])
		}
		if frame != im.frames-1 {
			return nil, errors.New("the offset table does not fit the fragments")
		}
		return out, nil
	}
	return nil, fmt.Errorf("%d fragments hold %d frames, and no table says which", len(all), im.frames)
}

// rescale returns the function from stored to real-world values, and whether all of them are whole numbers.
func (im *image) rescale(f *frameInfo) (slope, intercept float64, whole bool) {
	slope, intercept = 1, 0
	if f.slope != nil && *f.slope != 0 {
		slope = *f.slope
	}
	if f.intercept != nil {
		intercept = *f.intercept
	}
	return slope, intercept, slope == math.Trunc(slope) && intercept == math.Trunc(intercept)
}

// real turns stored samples of which bits count into values, upside down: the last row first. It returns false where one does not fit T.
func real[T int16 | float32](im *image, f *frameInfo, bits int, stored []uint32, out []T) bool {
	slope, intercept, _ := im.rescale(f)
	shift := 32 - bits
	signed := im.signed
	var t T
	_, small := any(t).(int16)
	fits := true
	for row := range im.rows {
		src := stored[row*im.columns:][:im.columns]
		dst := out[(im.rows-1-row)*im.columns:][:im.columns]
		if small && bits <= 16 && slope == 1 && math.Abs(intercept) < 1<<20 {
			add := int32(intercept)
			for n, s := range src {
				x := int32(s<<shift>>shift) + add
				if signed {
					x = int32(s<<shift)>>shift + add
				}
				fits = fits && x == int32(int16(x))
				dst[n] = T(x)
			}
			continue
		}
		for n, s := range src {
			x := float64(s << shift >> shift)
			if signed {
				x = float64(int32(s<<shift) >> shift)
			}
			x = slope*x + intercept
			if small && !(x >= math.MinInt16 && x <= math.MaxInt16) {
				return false
			}
			dst[n] = T(x)
		}
	}
	return fits
}
