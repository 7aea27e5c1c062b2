package photos

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file: as much of MATLAB's format 5 as meta.mat of ImageNet's development kit needs: an array
// of structs with the fields ILSVRC2012_ID and WNID. MAT-File Format, MathWorks, version 5.

// Types of elements, and classes of arrays.
const (
	miInt8       = 1
	miMatrix     = 14
	miCompressed = 15

	mxStruct = 2
)

// mostMeta bounds what a compressed meta.mat holds; the development kit's is below a megabyte.
const mostMeta = 64 << 20

var errMAT = errors.New("not a MAT-file of version 5 with the array synsets")

// readMetaMAT reads the synset of each ILSVRC2012_ID.
func readMetaMAT(file string) (map[int]string, error) {
	data, err := smallfile.Read(file, smallfile.Record)
	if err != nil {
		return nil, err
	}
	synsets, err := synsetsOf(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return synsets, nil
}

func synsetsOf(data []byte) (map[int]string, error) {
	const header = 128
	if len(data) < header || !bytes.HasPrefix(data, []byte("MATLAB 5.0 MAT-file")) {
		return nil, errMAT
	}
	m := mat{order: binary.LittleEndian, data: data[header:]}
	if string(data[126:128]) == "MI" {
		m.order = binary.BigEndian
	}
	for len(m.data) > 0 {
		kind, body, err := m.next()
		if err != nil {
			return nil, err
		}
		if kind == miCompressed {
			z, err := zlib.NewReader(bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			plain, err := io.ReadAll(io.LimitReader(z, mostMeta+1))
			if err != nil {
				return nil, err
			}
			if len(plain) > mostMeta {
				return nil, fmt.Errorf("it holds more than %d bytes", mostMeta)
			}
			inner := mat{m.order, plain}
			if kind, body, err = inner.next(); err != nil {
				return nil, err
			}
		}
		if kind != miMatrix {
			continue
		}
		synsets, err := mat{m.order, body}.synsets()
		if err != nil || synsets != nil {
			return synsets, err
		}
	}
	return nil, errMAT
}

// mat is elements of a MAT-file that are still to be read.
type mat struct {
	order binary.ByteOrder
	data  []byte
}

// next takes the next element.
func (m *mat) next() (kind uint32, body []byte, err error) {
	if len(m.data) < 8 {
		return 0, nil, errMAT
	}
	tag := m.order.Uint32(m.data)
	if small := tag >> 16; small != 0 { // size and data in the tag
		if small > 4 {
			return 0, nil, errMAT
		}
		body, m.data = m.data[4:4+small], m.data[8:]
		return tag & 0xffff, body, nil
	}
	size := uint64(m.order.Uint32(m.data[4:]))
	padded := size
	if tag != miCompressed {
		padded = (size + 7) / 8 * 8
	}
	if size > uint64(len(m.data)-8) {
		return 0, nil, errMAT
	}
	body = m.data[8 : 8+size]
	m.data = m.data[8+min(padded, uint64(len(m.data)-8)):]
	return tag, body, nil
}

// array reads what all arrays begin with: class, number of values, name.
func (m *mat) array() (class byte, n int, err error) {
	_, flags, err := m.next()
	if err != nil || len(flags) < 8 {
		return 0, 0, errMAT
	}
	class = byte(m.order.Uint32(flags))
	_, dimensions, err := m.next()
	if err != nil {
		return 0, 0, err
	}
	n = 1
	for ; len(dimensions) >= 4; dimensions = dimensions[4:] {
		size := int(int32(m.order.Uint32(dimensions)))
		if size < 0 || size > 0 && n > 1<<24/size {
			return 0, 0, errMAT
		}
		n *= size
	}
	_, _, err = m.next()
	return class, n, err
}

// synsets reads an array of structs; nil where it is another array.
func (m mat) synsets() (map[int]string, error) {
	class, n, err := m.array()
	if err != nil || class != mxStruct {
		return nil, err
	}
	_, width, err := m.next()
	if err != nil || len(width) < 4 {
		return nil, errMAT
	}
	_, names, err := m.next()
	if err != nil {
		return nil, err
	}
	size := int(m.order.Uint32(width))
	if size < 1 || len(names)%size != 0 {
		return nil, errMAT
	}
	id, wnid := -1, -1
	fields := len(names) / size
	for k := range fields {
		name, _, _ := bytes.Cut(names[k*size:(k+1)*size], []byte{0})
		switch string(name) {
		case "ILSVRC2012_ID":
			id = k
		case "WNID":
			wnid = k
		}
	}
	if id < 0 || wnid < 0 {
		return nil, nil
	}
	synsets := map[int]string{}
	for range n {
		number, synset := 0, ""
		for k := range fields {
			kind, body, err := m.next()
			if err != nil || kind != miMatrix {
				return nil, errMAT
			}
			switch value := (mat{m.order, body}); k {
			case id:
				number, err = value.number()
			case wnid:
				synset, err = value.text()
			}
			if err != nil {
				return nil, err
			}
		}
		if !isSynset(synset) || synsets[number] != "" {
			return nil, fmt.Errorf("synset %q of number %d: want n and eight digits, each number once", synset, number)
		}
		synsets[number] = synset
	}
	return synsets, nil
}

// number reads an array of one number.
func (m mat) number() (int, error) {
	if _, n, err := m.array(); err != nil || n != 1 {
		return 0, errMAT
	}
	kind, b, err := m.next()
	if err != nil {
		return 0, err
	}
	v := 0.0
	switch {
	case kind == 9 && len(b) == 8:
		v = math.Float64frombits(m.order.Uint64(b))
	case (kind == 1 || kind == 2) && len(b) == 1:
		v = float64(b[0])
	case (kind == 3 || kind == 4) && len(b) == 2:
		v = float64(m.order.Uint16(b))
	case (kind == 5 || kind == 6) && len(b) == 4:
		v = float64(m.order.Uint32(b))
	case (kind == 12 || kind == 13) && len(b) == 8:
		v = float64(m.order.Uint64(b))
	default:
		return 0, errMAT
	}
	if !(v >= 0 && v <= 1<<20) || v != math.Trunc(v) {
		return 0, errMAT
	}
	return int(v), nil
}

// text reads an array of characters.
func (m mat) text() (string, error) {
	if _, _, err := m.array(); err != nil {
		return "", err
	}
	kind, b, err := m.next()
	if err != nil {
		return "", err
	}
	if kind == 4 || kind == 17 { // 16 bits a character
		var text []byte
		for ; len(b) >= 2; b = b[2:] {
			c := m.order.Uint16(b)
			if c > 0x7f {
				return "", errMAT
			}
			text = append(text, byte(c))
		}
		return string(text), nil
	}
	if kind != miInt8 && kind != 2 && kind != 16 {
		return "", errMAT
	}
	return string(b), nil
}
