package element

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// Encoder writes a data set, explicit little endian, in the order of the tags.
type Encoder struct {
	elements []encoded
}

// encoded is an element as it is written.
type encoded struct {
	tag    tag.Tag
	header int // bytes before the value
	bytes  []byte
}

// Bytes adds an element. Its value is padded to an even length, as its VR asks for.
func (e *Encoder) Bytes(t tag.Tag, vr string, value []byte) {
	b := binary.LittleEndian.AppendUint16(nil, t.Group())
	b = append(binary.LittleEndian.AppendUint16(b, t.Number()), vr...)
	length := len(value) + len(value)%2
	if vr == "SQ" || vr == "OB" {
		b = binary.LittleEndian.AppendUint32(append(b, 0, 0), uint32(length))
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(length))
	}
	header := len(b)
	b = append(b, value...)
	if len(value)%2 == 1 {
		b = append(b, map[bool]byte{true: 0, false: ' '}[vr == "UI" || vr == "OB"])
	}
	e.elements = append(e.elements, encoded{t, header, b})
}

// Text adds an element whose value is text, as it is.
func (e *Encoder) Text(t tag.Tag, vr, value string) { e.Bytes(t, vr, []byte(value)) }

// Name adds a text for people, of at most 64 characters. Where it is not ASCII, the data set that
// it stands in says that it is UTF-8.
func (e *Encoder) Name(t tag.Tag, value string) {
	value = strings.ReplaceAll(Printable(value), `\`, "/")
	if n := []rune(value); len(n) > 64 {
		value = string(n[:64])
	}
	for _, b := range []byte(value) {
		if b >= utf8.RuneSelf {
			e.Text(tag.SpecificCharacterSet, "CS", "ISO_IR 192")
			break
		}
	}
	e.Text(t, "LO", value)
}

// Short adds unsigned shorts.
func (e *Encoder) Short(t tag.Tag, values ...uint16) {
	var b []byte
	for _, x := range values {
		b = binary.LittleEndian.AppendUint16(b, x)
	}
	e.Bytes(t, "US", b)
}

// Long adds unsigned longs.
func (e *Encoder) Long(t tag.Tag, values ...uint32) {
	var b []byte
	for _, x := range values {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	e.Bytes(t, "UL", b)
}

// Tag adds a tag as a value.
func (e *Encoder) Tag(t, value tag.Tag) {
	e.Bytes(t, "AT", binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, value.Group()),
		value.Number()))
}

// Decimals adds numbers with as many digits as fit a decimal string's 16 characters.
func (e *Encoder) Decimals(t tag.Tag, values ...float64) {
	texts := make([]string, len(values))
	for n, x := range values {
		texts[n] = strconv.FormatFloat(x, 'g', -1, 64)
		for precision := 16; len(texts[n]) > 16; precision-- {
			texts[n] = strconv.FormatFloat(x, 'g', precision, 64)
		}
	}
	e.Text(t, "DS", strings.Join(texts, `\`))
}

// Sequence adds a sequence of items.
func (e *Encoder) Sequence(t tag.Tag, items ...*Encoder) {
	var b []byte
	for _, item := range items {
		inner := item.Encode()
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, tag.Item.Group()), tag.Item.Number())
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(inner))), inner...)
	}
	e.Bytes(t, "SQ", b)
}

// Encode returns the data set.
func (e *Encoder) Encode() []byte {
	slices.SortStableFunc(e.elements, func(a, b encoded) int { return cmp.Compare(a.tag, b.tag) })
	var out []byte
	for _, one := range e.elements {
		out = append(out, one.bytes...)
	}
	return out
}

// Value returns the text of an element.
func (e *Encoder) Value(t tag.Tag) string {
	for _, one := range e.elements {
		if one.tag == t {
			return strings.TrimRight(string(one.bytes[one.header:]), " \x00")
		}
	}
	return ""
}

// ASCII makes a text that every character set has.
func ASCII(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '\\' {
			return '?'
		}
		return r
	}, s)
	return strings.TrimSpace(s[:min(len(s), most)])
}
