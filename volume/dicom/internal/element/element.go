// Package element reads and writes the elements of DICOM files (PS3.5, PS3.10): where each begins
// and ends, and what the few that matter say. It knows nothing about images.
//
// Start at [Open], which finds the data set in a file, and [File.Walker], which goes over its
// elements. No length is believed that leaves the file, and nothing is nested deeper than 32
// sequences. A [Collector] hands single elements to suyashkumar/dicom for their [Values]; an
// [Encoder] writes a data set.
//
// It leaves out the meaning of elements, and all that is said about the patient: only elements that
// somebody asks for are ever looked at.
package element

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

const (
	// Undefined is the length of an element that ends where a delimiter says so.
	Undefined = -1
	maxDepth  = 32 // of sequences within sequences
)

// ErrTruncated says that a file ends too early.
var ErrTruncated = errors.New("ends in the middle of an element")

// ErrStop ends a walk over elements: there is nothing more to see.
var ErrStop = errors.New("stop")

// ByteOrder is one of the two of encoding/binary.
type ByteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// Element is where an element lies in a file.
type Element struct {
	Tag    tag.Tag
	VR     string // value representation; "" where the transfer syntax does not say
	Start  int64  // of its header
	Value  int64  // of its value
	Length int64  // of its value, or Undefined
}

// Walker goes over the elements of a data set.
type Walker struct {
	*window
	Order    ByteOrder
	Implicit bool // elements do not say their VR
}

// NewWalker returns a walker over size bytes.
func NewWalker(from io.ReaderAt, size int64, order ByteOrder, implicit bool) *Walker {
	return &Walker{window: &window{from: from, size: size}, Order: order, Implicit: implicit}
}

// window reads a file in blocks, so that walking over headers does not read pixels.
type window struct {
	from  io.ReaderAt
	size  int64
	block []byte
	start int64 // of block in the file
}

// blockSize is how many bytes are read at once, at least.
const blockSize = 8 << 10

// At returns n bytes at an offset. They are valid until the next call.
func (w *window) At(offset int64, n int) ([]byte, error) {
	if offset < 0 || n < 0 || offset+int64(n) > w.size {
		return nil, ErrTruncated
	}
	if offset < w.start || offset+int64(n) > w.start+int64(len(w.block)) {
		want := min(int64(max(n, blockSize)), w.size-offset)
		if int64(cap(w.block)) < want {
			w.block = make([]byte, want)
		}
		w.block = w.block[:want]
		if _, err := w.from.ReadAt(w.block, offset); err != nil && !errors.Is(err, io.EOF) {
			w.block = w.block[:0]
			return nil, err
		}
		w.start = offset
	}
	return w.block[offset-w.start:][:n], nil
}

// Header reads the tag, VR and length at an offset.
func (w *Walker) Header(offset int64) (Element, error) {
	b, err := w.At(offset, 8)
	if err != nil {
		return Element{}, err
	}
	e := Element{Tag: tag.Tag(w.Order.Uint16(b))<<16 | tag.Tag(w.Order.Uint16(b[2:])), Start: offset, Value: offset + 8}
	if w.Implicit || e.Tag.Group() == tag.Item.Group() {
		e.Length = length32(w.Order.Uint32(b[4:]))
		return e, w.check(e)
	}
	e.VR = string(b[4:6])
	switch {
	case longForm[e.VR]:
		if b, err = w.At(offset, 12); err != nil {
			return Element{}, err
		}
		e.Value = offset + 12
		e.Length = length32(w.Order.Uint32(b[8:]))
	case capitals(e.VR):
		e.Length = int64(w.Order.Uint16(b[6:]))
	default:
		return Element{}, fmt.Errorf("element (%04x,%04x) has no valid type", e.Tag.Group(), e.Tag.Number())
	}
	return e, w.check(e)
}

// longForm are the VRs whose lengths have 32 bits (PS3.5 7.1.2).
var longForm = map[string]bool{
	"OB": true, "OW": true, "OD": true, "OF": true, "OL": true, "OV": true, "SQ": true, "UN": true, "UC": true,
	"UR": true, "UT": true, "SV": true, "UV": true,
}

// capitals reports whether a VR is made of two capital letters, as all of them are.
func capitals(vr string) bool {
	return vr[0] >= 'A' && vr[0] <= 'Z' && vr[1] >= 'A' && vr[1] <= 'Z'
}

func length32(n uint32) int64 {
	if n == 0xFFFFFFFF {
		return Undefined
	}
	return int64(n)
}

// check refuses an element that reaches beyond the end of the file. Pixels that are cut short are
// told later, from the header, with a better message.
func (w *Walker) check(e Element) error {
	if e.Length != Undefined && e.Value+e.Length > w.size && e.Tag != tag.PixelData {
		return ErrTruncated
	}
	return nil
}

// end returns the offset behind an element, walking over what has an undefined length.
func (w *Walker) end(e Element, depth int) (int64, error) {
	if e.Length != Undefined {
		return e.Value + e.Length, nil
	}
	if e.Tag == tag.PixelData || e.VR != "" && e.VR != "SQ" && e.VR != "UN" {
		// Fragments of compressed pixels, perhaps those of an icon in a sequence: their items hold
		// no elements.
		return w.Sequence(e, depth, func(_ *Walker, _, limit int64, delimited bool) (int64, error) {
			if delimited {
				return 0, errors.New("a fragment of pixels has no length")
			}
			return limit, nil
		})
	}
	return w.Sequence(e, depth, func(in *Walker, offset, limit int64, delimited bool) (int64, error) {
		return in.Elements(offset, limit, delimited, depth+1, nil)
	})
}

// Sequence walks over the items of a sequence and returns the offset behind it. It calls item with
// the place of each item's elements: up to the item's delimiter if it is delimited, up to limit
// otherwise. Item returns the offset behind them.
func (w *Walker) Sequence(e Element, depth int, item func(in *Walker, offset, limit int64, delimited bool) (int64,
	error)) (int64, error) {
	if depth >= maxDepth {
		return 0, fmt.Errorf("sequences are nested more than %d deep", maxDepth)
	}
	in := *w
	if e.VR == "UN" { // PS3.5 6.2.2: a sequence of unknown type is implicit little endian
		in.Implicit, in.Order = true, binary.LittleEndian
	}
	offset, limit, delimited := e.Value, e.Value+e.Length, false
	if e.Length == Undefined {
		limit, delimited = w.size, true
	}
	for delimited || offset < limit {
		i, err := in.Header(offset)
		if err != nil {
			return 0, err
		}
		switch {
		case i.Tag == tag.SequenceDelimitationItem && delimited:
			return i.Value, nil
		case i.Tag != tag.Item:
			return 0, fmt.Errorf("a sequence holds the element (%04x,%04x) where an item should be", i.Tag.Group(),
				i.Tag.Number())
		case i.Length == Undefined:
			offset, err = item(&in, i.Value, limit, true)
		case i.Value+i.Length > limit:
			return 0, ErrTruncated
		default:
			offset, err = item(&in, i.Value, i.Value+i.Length, false)
		}
		if err != nil {
			return 0, err
		}
	}
	return offset, nil
}

// Items calls begin (which may be nil) for each item of a sequence, and visit for each of its
// elements.
func (w *Walker) Items(e Element, depth int, begin func() error, visit func(in *Walker, e Element) error) error {
	_, err := w.Sequence(e, depth, func(in *Walker, offset, limit int64, delimited bool) (int64, error) {
		if begin != nil {
			if err := begin(); err != nil {
				return 0, err
			}
		}
		return in.Elements(offset, limit, delimited, depth+1, func(e Element) error { return visit(in, e) })
	})
	return err
}

// Elements walks over elements, up to the delimiter of their item if it is delimited, up to limit
// otherwise, and returns the offset behind them. Visit, if not nil, is called with each; it may end
// the walk with [ErrStop].
func (w *Walker) Elements(offset, limit int64, delimited bool, depth int, visit func(Element) error) (int64, error) {
	for delimited || offset < limit {
		e, err := w.Header(offset)
		if err != nil {
			return 0, err
		}
		if e.Tag == tag.ItemDelimitationItem && delimited {
			return e.Value, nil
		}
		if visit != nil {
			if err := visit(e); err != nil {
				return 0, err
			}
		}
		if offset, err = w.end(e, depth); err != nil {
			return 0, err
		}
	}
	return offset, nil
}
