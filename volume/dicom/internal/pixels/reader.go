package pixels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
)

// Reader reads frames, one after the other, into memory that serves for all of them. The file of
// the last frame stays open for the next one. Each worker has a Reader of its own.
type Reader struct {
	im   *Image // whose file is open
	file *element.File
	Raw  []byte // the last frame, as it lies in the file
	out  []uint32
}

// Close closes the file that is open, if any.
func (r *Reader) Close() {
	if r.file != nil {
		r.file.Close()
	}
	r.im, r.file = nil, nil
}

// Frame is one frame as it is stored, valid until its Reader reads the next one.
type Frame struct {
	im      *Image
	bits    int      // of each sample that count, the lowest ones
	raw     []byte   // the frame in the file, where it is not compressed
	Decoded []uint32 // otherwise what the codec made of it
}

// Read reads frame number n of an image, from 0. Errors are those of package volume, and of the
// file system.
func (r *Reader) Read(im *Image, n int) (Frame, error) {
	if err := im.Check(); err != nil {
		return Frame{}, err
	}
	if err := r.open(im); err != nil {
		return Frame{}, err
	}
	f, err := r.decode(n)
	if unsupported := (*volume.UnsupportedError)(nil); errors.As(err, &unsupported) {
		return Frame{}, &volume.UnsupportedError{Path: im.Path, Problem: unsupported.Problem}
	}
	if err != nil {
		return Frame{}, &volume.FormatError{Path: im.Path, Problem: "has damaged pixels", Err: err}
	}
	return f, nil
}

// ReadBits reads frame number n of an image of single bits: a bit a pixel, the first in the lowest
// bit of the first byte. It is for RLE and deflated frames, whose bits are packed before they are
// compressed, or take a byte each, as older programs have it.
func (r *Reader) ReadBits(im *Image, n int) ([]byte, error) {
	if err := r.open(im); err != nil {
		return nil, err
	}
	if err := r.readRaw(n); err != nil {
		return nil, err
	}
	unpack := Codecs[im.Syntax.UID].Unpack
	if im.Syntax.UID == element.RLE {
		unpack = unpackRLE
	}
	area := im.Rows * im.Columns
	bits, err := unpack(r.Raw, area)
	switch {
	case err != nil:
		return nil, err
	case len(bits) >= area && area > 1:
		return packBits(bits[:area]), nil
	case len(bits) < (area+7)/8:
		return nil, fmt.Errorf("frame %d is cut short: %d of %d bytes", n+1, len(bits), (area+7)/8)
	}
	return bits[:(area+7)/8], nil
}

// packBits packs values that are 0 or not into bits, the first into the lowest.
func packBits(values []byte) []byte {
	bits := make([]byte, (len(values)+7)/8)
	for n, v := range values {
		if v != 0 {
			bits[n/8] |= 1 << (n % 8)
		}
	}
	return bits
}

// open opens the file of an image, unless it is open.
func (r *Reader) open(im *Image) error {
	if r.im == im {
		return nil
	}
	r.Close()
	file, err := Reopen(im)
	if err != nil {
		return element.InFile(im.Path, err)
	}
	r.im, r.file = im, file
	return nil
}

// decode reads frame number n of the image whose file is open.
func (r *Reader) decode(n int) (Frame, error) {
	im := r.im
	if err := r.readRaw(n); err != nil {
		return Frame{}, err
	}
	if !im.Syntax.Compressed {
		if have := int64(len(r.Raw)); have < im.FrameBytes() {
			return Frame{}, fmt.Errorf("%d of %d bytes", have, im.FrameBytes())
		}
		return Frame{im: im, bits: im.Stored, raw: r.Raw}, nil
	}
	codec := Codecs[im.Syntax.UID]
	if codec.Unpack != nil {
		raw, err := codec.Unpack(r.Raw, int(im.FrameBytes()))
		if err == nil && int64(len(raw)) < im.FrameBytes() {
			err = fmt.Errorf("%d of %d bytes", len(raw), im.FrameBytes())
		}
		return Frame{im: im, bits: im.Stored, raw: raw}, err
	}
	area := im.Rows * im.Columns
	r.out = slices.Grow(r.out[:0], area)[:area]
	precision, err := codec.Decode(r.Raw, im.Columns, im.Rows, r.out)
	if err != nil {
		return Frame{}, err
	}
	if im.Syntax.UID == element.RLE && precision != im.Allocated {
		return Frame{}, fmt.Errorf("RLE: %d bytes a pixel, not %d", precision/8, im.Allocated/8)
	}
	if shift := im.High + 1 - im.Stored; shift > 0 && precision > im.High {
		for k := range r.out { // whole words were compressed
			r.out[k] >>= shift
		}
		precision -= shift
	}
	bits := im.Stored
	if codec.signs {
		bits = min(bits, precision)
	}
	return Frame{im: im, bits: bits, Decoded: r.out}, nil
}

// readRaw reads the bytes of frame number n.
func (r *Reader) readRaw(n int) (err error) {
	im := r.im
	spans := []Span{{im.Pixels.Value + int64(n)*im.FrameBytes(), im.FrameBytes()}}
	if im.Pixels.Length == element.Undefined {
		if spans, err = im.FrameSpans(r.file, n); err != nil {
			return err
		}
	}
	r.Raw = r.Raw[:0]
	for _, s := range spans {
		at := len(r.Raw)
		r.Raw = slices.Grow(r.Raw, int(s.Length))[:at+int(s.Length)]
		if _, err := r.file.ReadAt(r.Raw[at:], s.From); err != nil {
			return err
		}
	}
	return nil
}

// Row returns the samples of a row. Those of uncompressed pixels are put into buffer, an element
// for each column: the bits from high-stored+1 to high of words of 8, 16 or 32, and above them what
// else the word holds.
func (f *Frame) Row(n int, buffer []uint32) []uint32 {
	im := f.im
	from := n * im.Columns
	if f.raw == nil {
		return f.Decoded[from:][:im.Columns]
	}
	out := buffer[:im.Columns]
	big := im.Syntax.Order == binary.BigEndian
	shift := (im.High + 1 - im.Stored) & 31
	switch im.Allocated {
	case 8:
		// Big endian words of two pixels have the second one first.
		swap := 0
		if big && im.Pixels.VR == "OW" {
			swap = 1
		}
		for k := range out {
			if at := (from + k) ^ swap; at < len(f.raw) {
				out[k] = uint32(f.raw[at]) >> shift
			}
		}
	case 16:
		raw := f.raw[2*from:][:2*im.Columns]
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
			out[k] = im.Syntax.Order.Uint32(f.raw[4*(from+k):]) >> shift
		}
	}
	return out
}
