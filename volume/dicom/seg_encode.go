package dicom

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: how elements are written.

// encoder writes a data set, explicit little endian, in the order of the tags.
type encoder struct {
	elements []encoded
}

// encoded is an element as it is written.
type encoded struct {
	tag    tag.Tag
	header int // bytes before the value
	bytes  []byte
}

func (e *encoder) bytes(t tag.Tag, vr string, value []byte) {
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

func (e *encoder) text(t tag.Tag, vr, value string) { e.bytes(t, vr, []byte(value)) }

// name writes a text for people, of at most 64 characters. Where it is not ASCII, the data set that
// it stands in says that it is UTF-8.
func (e *encoder) name(t tag.Tag, value string) {
	value = strings.ReplaceAll(printable(value), `\`, "/")
	if n := []rune(value); len(n) > 64 {
		value = string(n[:64])
	}
	for _, b := range []byte(value) {
		if b >= utf8.RuneSelf {
			e.text(tag.SpecificCharacterSet, "CS", "ISO_IR 192")
			break
		}
	}
	e.text(t, "LO", value)
}

func (e *encoder) short(t tag.Tag, values ...uint16) {
	var b []byte
	for _, x := range values {
		b = binary.LittleEndian.AppendUint16(b, x)
	}
	e.bytes(t, "US", b)
}

func (e *encoder) long(t tag.Tag, values ...uint32) {
	var b []byte
	for _, x := range values {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	e.bytes(t, "UL", b)
}

// tag writes a tag as a value.
func (e *encoder) tag(t, value tag.Tag) {
	e.bytes(t, "AT", binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, value.Group()), value.Number()))
}

// decimals writes numbers with as many digits as fit a decimal string's 16 characters.
func (e *encoder) decimals(t tag.Tag, values ...float64) {
	texts := make([]string, len(values))
	for n, x := range values {
		texts[n] = strconv.FormatFloat(x, 'g', -1, 64)
		for precision := 16; len(texts[n]) > 16; precision-- {
			texts[n] = strconv.FormatFloat(x, 'g', precision, 64)
		}
	}
	e.text(t, "DS", strings.Join(texts, `\`))
}

func (e *encoder) sequence(t tag.Tag, items ...*encoder) {
	var b []byte
	for _, item := range items {
		inner := item.encode()
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, tag.Item.Group()), tag.Item.Number())
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(inner))), inner...)
	}
	e.bytes(t, "SQ", b)
}

func (e *encoder) encode() []byte {
	slices.SortStableFunc(e.elements, func(a, b encoded) int { return cmp.Compare(a.tag, b.tag) })
	var out []byte
	for _, one := range e.elements {
		out = append(out, one.bytes...)
	}
	return out
}

// value returns the text of an element.
func (e *encoder) value(t tag.Tag) string {
	for _, one := range e.elements {
		if one.tag == t {
			return strings.TrimRight(string(one.bytes[one.header:]), " \x00")
		}
	}
	return ""
}

// ascii makes a text that every character set has.
func ascii(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '\\' {
			return '?'
		}
		return r
	}, s)
	return strings.TrimSpace(s[:min(len(s), most)])
}
