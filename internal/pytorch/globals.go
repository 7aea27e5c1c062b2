package pytorch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/voxsaw/voxsaw/internal/half"
)

// What the functions of [globals] make.

func newDict(_ *unpickler, args Tuple) (any, error) {
	d := &Dict{}
	if len(args) == 0 {
		return d, nil
	}
	pairs, ok := args[0].(*[]any)
	if !ok {
		return nil, fmt.Errorf("made of a %s", describe(args[0]))
	}
	for _, pair := range *pairs {
		var items []any
		switch p := pair.(type) {
		case Tuple:
			items = p
		case *[]any:
			items = *p
		}
		if len(items) != 2 {
			return nil, errors.New("made of what is no pair")
		}
		if err := d.set(items[0], items[1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func newSet(_ *unpickler, args Tuple) (any, error) {
	s := &Set{}
	if len(args) == 1 {
		if items, ok := args[0].(*[]any); ok {
			s.Items = *items
		}
	}
	return s, nil
}

// text is a value whose name alone matters.
func text(what string) callable { return func(*unpickler, Tuple) (any, error) { return what, nil } }

func posixPath(_ *unpickler, args Tuple) (any, error) {
	var parts []string
	for _, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("made of a %s", describe(a))
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "/"), nil
}

func size(_ *unpickler, args Tuple) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("made of %d values", len(args))
	}
	switch v := args[0].(type) {
	case Tuple:
		return v, nil
	case *[]any:
		return Tuple(*v), nil
	}
	return nil, fmt.Errorf("made of a %s", describe(args[0]))
}

// encode is Python's way to write bytes where a pickle has none: a text, and "latin1".
func encode(_ *unpickler, args Tuple) (any, error) {
	if len(args) != 2 || args[1] != "latin1" {
		return nil, errors.New("bytes are expected as latin1")
	}
	s, ok := args[0].(string)
	if !ok {
		return nil, fmt.Errorf("made of a %s", describe(args[0]))
	}
	var b []byte
	for _, c := range s {
		if c > 255 {
			return nil, fmt.Errorf("the character %q is no byte", c)
		}
		b = append(b, byte(c))
	}
	return b, nil
}

// dtype is numpy's type of numbers.
type dtype struct {
	kind  string // f8, i4, ...
	order byte   // '<', '>', '|' or '='
}

func newDtype(_ *unpickler, args Tuple) (any, error) {
	if len(args) > 0 {
		if kind, ok := args[0].(string); ok && len(kind) < 8 {
			return &dtype{kind: kind, order: '<'}, nil
		}
	}
	return nil, errors.New("a type without a name")
}

func (d *dtype) build(state any) error {
	items, ok := state.(Tuple)
	if !ok || len(items) < 2 {
		return errors.New("a type of numbers without a byte order")
	}
	if order, ok := items[1].(string); ok && len(order) == 1 {
		d.order = order[0]
		return nil
	}
	return errors.New("a type of numbers without a byte order")
}

// array is an array of numpy's, of which nothing is needed.
type array struct{}

func numpyArray(*unpickler, Tuple) (any, error) { return &array{}, nil }

// numpyScalar is a number of numpy's.
func numpyScalar(_ *unpickler, args Tuple) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("made of %d values", len(args))
	}
	d, ok := args[0].(*dtype)
	raw, isBytes := args[1].([]byte)
	if !ok || !isBytes {
		return nil, errors.New("made of no type and bytes")
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if d.order == '>' {
		order = binary.BigEndian
	}
	widths := map[string]int{
		"f4": 4,
		"f8": 8,
		"f2": 2,
		"i1": 1,
		"i2": 2,
		"i4": 4,
		"i8": 8,
		"u1": 1,
		"u2": 2,
		"u4": 4,
		"u8": 8,
		"b1": 1,
	}
	width, known := widths[d.kind]
	if !known || len(raw) != width {
		return nil, fmt.Errorf("%d bytes of type %s", len(raw), d.kind)
	}
	var bits uint64
	switch width {
	case 1:
		bits = uint64(raw[0])
	case 2:
		bits = uint64(order.Uint16(raw))
	case 4:
		bits = uint64(order.Uint32(raw))
	case 8:
		bits = order.Uint64(raw)
	}
	switch d.kind {
	case "f8":
		return math.Float64frombits(bits), nil
	case "f4":
		return float64(math.Float32frombits(uint32(bits))), nil
	case "f2":
		return float64(half.Float(bits).Float32()), nil
	case "b1":
		return bits != 0, nil
	}
	if d.kind[0] == 'i' { // the sign
		shift := 64 - 8*width
		return int64(bits<<shift) >> shift, nil
	}
	if bits > math.MaxInt64 {
		return nil, fmt.Errorf("the number %d is too large", bits)
	}
	return int64(bits), nil
}
