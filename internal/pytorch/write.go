package pytorch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// This file: torch.save. What is written holds weights, texts and numbers alone, so that
// torch.load takes it with weights_only.

// A Dictionary is a dictionary to write, whose keys keep their order.
type Dictionary []Item

// An Item is a key of a dictionary and its value: nil, bool, int, float64, string, []any (a list),
// [Tuple], [Dictionary], or *[Numbers].
type Item struct {
	Key   string
	Value any
}

// Numbers is a tensor of float32 to write. One that is written by several names is one in PyTorch,
// too.
type Numbers struct {
	Shape  []int
	Values func() ([]float32, error)
}

// pickler writes a pickle of protocol 2, without a memo.
type pickler struct {
	bytes.Buffer
	keys    map[*Numbers]int
	tensors []*Numbers
}

// Save writes a file that torch.load reads.
func Save(w io.Writer, value any) error {
	p := &pickler{keys: map[*Numbers]int{}}
	p.WriteString("\x80\x02")
	if err := p.value(value); err != nil {
		return err
	}
	p.WriteByte('.')
	z := zip.NewWriter(w)
	at := int64(0) // of the end of what was written
	write := func(name string, size int, content func(w io.Writer) error) error {
		name = "archive/" + name
		// Numbers begin at a multiple of 64, behind a header of 30 bytes and an extra field.
		const header, align = 30, 64
		pad := int((align - (at+header+int64(len(name))+4)%align) % align)
		extra := append([]byte{'F', 'B', byte(pad), 0}, make([]byte, pad)...)
		sum := crc32.NewIEEE()
		if err := content(sum); err != nil {
			return err
		}
		f, err := z.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Store, Extra: extra, CRC32: sum.Sum32(),
			CompressedSize64: uint64(size), UncompressedSize64: uint64(size)})
		if err != nil {
			return err
		}
		at += int64(header + len(name) + len(extra) + size)
		return content(f)
	}
	text := func(name, s string) error {
		return write(name, len(s), func(w io.Writer) error {
			_, err := io.WriteString(w, s)
			return err
		})
	}
	if err := text("data.pkl", p.String()); err != nil {
		return err
	}
	if err := text("byteorder", "little"); err != nil {
		return err
	}
	for n, t := range p.tensors {
		if err := write(fmt.Sprintf("data/%d", n), 4*t.elements(), t.write); err != nil {
			return err
		}
	}
	if err := text("version", "3\n"); err != nil {
		return err
	}
	return z.Close()
}

func (t *Numbers) elements() int {
	n := 1
	for _, s := range t.Shape {
		n *= s
	}
	return n
}

func (t *Numbers) write(w io.Writer) error {
	values, err := t.Values()
	if err != nil {
		return err
	}
	if len(values) != t.elements() {
		return fmt.Errorf("%d numbers of a tensor of %s", len(values), numbers.Extents(t.Shape))
	}
	raw := make([]byte, 0, 4<<14)
	for piece := range slices.Chunk(values, 1<<14) {
		raw = raw[:0]
		for _, v := range piece {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

// value writes one value.
func (p *pickler) value(value any) error {
	switch v := value.(type) {
	case nil:
		p.WriteByte('N')
	case bool:
		p.WriteByte("\x89\x88"[map[bool]int{false: 0, true: 1}[v]])
	case int:
		if int(int32(v)) != v {
			return fmt.Errorf("%d does not fit into 32 bits", v)
		}
		p.WriteByte('J')
		p.Write(binary.LittleEndian.AppendUint32(nil, uint32(int32(v))))
	case float64:
		p.WriteByte('G')
		p.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case string:
		p.WriteByte('X')
		p.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(v))))
		p.WriteString(v)
	case []any:
		p.WriteString("](")
		return p.all(v, 'e')
	case Tuple:
		p.WriteByte('(')
		return p.all(v, 't')
	case Dictionary:
		p.WriteString("}(")
		var items []any
		for _, item := range v {
			items = append(items, item.Key, item.Value)
		}
		return p.all(items, 'u')
	case *Numbers:
		return p.tensor(v)
	default:
		return fmt.Errorf("a %T is not written to PyTorch's files", value)
	}
	return nil
}

func (p *pickler) all(values []any, end byte) error {
	for _, v := range values {
		if err := p.value(v); err != nil {
			return err
		}
	}
	return p.WriteByte(end)
}

// tensor calls _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()).
func (p *pickler) tensor(t *Numbers) error {
	key, known := p.keys[t]
	if !known {
		key = len(p.tensors)
		p.keys[t], p.tensors = key, append(p.tensors, t)
	}
	shape, strides, stride := make(Tuple, len(t.Shape)), make(Tuple, len(t.Shape)), 1
	for a := len(shape) - 1; a >= 0; a-- {
		shape[a], strides[a] = t.Shape[a], stride
		stride *= t.Shape[a]
	}
	p.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
	for _, v := range []any{"storage", global("torch\nFloatStorage"), fmt.Sprint(key), "cpu", t.elements()} {
		if name, ok := v.(global); ok {
			p.WriteString("c" + string(name) + "\n")
			continue
		}
		if err := p.value(v); err != nil {
			return err
		}
	}
	p.WriteString("tQ") // the storage
	for _, v := range []any{0, shape, strides, false} {
		if err := p.value(v); err != nil {
			return err
		}
	}
	p.WriteString("ccollections\nOrderedDict\n)RtR")
	return nil
}

type global string
