package dicom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: where the elements of a data set begin and end. No length is believed that leaves the
// file, and nothing is nested deeper than maxDepth.

const (
	undefined = -1 // length
	maxDepth  = 32
)

var errTruncated = errors.New("ends in the middle of an element")

// byteOrder is one of the two of encoding/binary.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// window reads a file in blocks, so that walking over headers does not read pixels.
type window struct {
	from  io.ReaderAt
	size  int64
	block []byte
	start int64 // of block in the file
}

// at returns n bytes at an offset. They are valid until the next call.
func (w *window) at(offset int64, n int) ([]byte, error) {
	if offset < 0 || n < 0 || offset+int64(n) > w.size {
		return nil, errTruncated
	}
	if offset < w.start || offset+int64(n) > w.start+int64(len(w.block)) {
		want := min(int64(max(n, 8<<10)), w.size-offset)
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

// element is where one lies in the file.
type element struct {
	tag    tag.Tag
	vr     string // "" where the transfer syntax does not say
	start  int64  // of its header
	value  int64  // of its value
	length int64  // of its value, or undefined
}

// walker goes over the elements of a data set.
type walker struct {
	*window
	order    byteOrder
	implicit bool
}

// header reads the tag, VR and length at an offset.
func (w *walker) header(offset int64) (element, error) {
	b, err := w.at(offset, 8)
	if err != nil {
		return element{}, err
	}
	e := element{tag: tag.Tag(w.order.Uint16(b))<<16 | tag.Tag(w.order.Uint16(b[2:])), start: offset, value: offset + 8}
	if w.implicit || e.tag.Group() == tag.Item.Group() {
		e.length = length32(w.order.Uint32(b[4:]))
		return e, e.check(w)
	}
	e.vr = string(b[4:6])
	switch e.vr {
	case "OB", "OW", "OD", "OF", "OL", "OV", "SQ", "UN", "UC", "UR", "UT", "SV", "UV":
		if b, err = w.at(offset, 12); err != nil {
			return element{}, err
		}
		e.value = offset + 12
		e.length = length32(w.order.Uint32(b[8:]))
	default:
		if e.vr[0] < 'A' || e.vr[0] > 'Z' || e.vr[1] < 'A' || e.vr[1] > 'Z' {
			return element{}, fmt.Errorf("element (%04x,%04x) has no valid type", e.tag.Group(), e.tag.Number())
		}
		e.length = int64(w.order.Uint16(b[6:]))
	}
	return e, e.check(w)
}

func length32(n uint32) int64 {
	if n == 0xFFFFFFFF {
		return undefined
	}
	return int64(n)
}

func (e *element) check(w *walker) error {
	// Pixels that are cut short are told from the header later, with a better message.
	if e.length != undefined && e.value+e.length > w.size && e.tag != tag.PixelData {
		return errTruncated
	}
	return nil
}

// end returns the offset behind an element, walking over sequences of undefined length.
func (w *walker) end(e element, depth int) (int64, error) {
	if e.length != undefined {
		return e.value + e.length, nil
	}
	return w.sequence(e, depth, func(in *walker, offset, limit int64, delimited bool) (int64, error) {
		return in.elements(offset, limit, delimited, depth+1, nil)
	})
}

// sequence walks over the items of a sequence and returns the offset behind it. Item is called with
// the place of each item's elements, up to the item's delimiter if it is delimited and to limit if
// not, and returns the offset behind them.
func (w *walker) sequence(e element, depth int, item func(in *walker, offset, limit int64, delimited bool) (int64, error)) (int64, error) {
	if depth >= maxDepth {
		return 0, fmt.Errorf("sequences are nested more than %d deep", maxDepth)
	}
	in := *w
	// PS3.5 6.2.2: a sequence of unknown type is encoded as implicit little endian
	if e.vr == "UN" {
		in.implicit, in.order = true, binary.LittleEndian
	}
	offset, limit, delimited := e.value, e.value+e.length, false
	if e.length == undefined {
		limit, delimited = w.size, true
	}
	for delimited || offset < limit {
		i, err := in.header(offset)
		if err != nil {
			return 0, err
		}
		switch {
		case i.tag == tag.SequenceDelimitationItem && delimited:
			return i.value, nil
		case i.tag != tag.Item:
			return 0, fmt.Errorf("a sequence holds the element (%04x,%04x) where an item should be", i.tag.Group(), i.tag.Number())
		case i.length == undefined:
			offset, err = item(&in, i.value, limit, true)
		case i.value+i.length > limit:
			return 0, errTruncated
		default:
			offset, err = item(&in, i.value, i.value+i.length, false)
		}
		if err != nil {
			return 0, err
		}
	}
	return offset, nil
}

// elements walks over elements, up to the delimiter of the item if it is delimited and to limit if
// not, and returns the offset behind them. Visit, if not nil, is called with each; it may end the
// walk with errStop.
func (w *walker) elements(offset, limit int64, delimited bool, depth int, visit func(element) error) (int64, error) {
	for delimited || offset < limit {
		e, err := w.header(offset)
		if err != nil {
			return 0, err
		}
		if e.tag == tag.ItemDelimitationItem && delimited {
			return e.value, nil
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

// errStop ends a walk: there is nothing more to see.
var errStop = errors.New("stop")
