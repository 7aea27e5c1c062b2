package element

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	library "github.com/suyashkumar/dicom"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// Collector collects single elements and has suyashkumar/dicom read their values. They are copied,
// one after the other, into a small data set of their own: lengths are known to be right by then,
// and nothing else of the file is there to be read.
type Collector struct {
	set      bytes.Buffer
	wanted   map[tag.Tag]bool
	implicit bool
	order    ByteOrder
}

// NewCollector returns a collector of the wanted elements, in the encoding of the walker.
func NewCollector(w *Walker, wanted map[tag.Tag]bool) *Collector {
	return &Collector{wanted: wanted, implicit: w.Implicit, order: w.Order}
}

// maxValue is how many bytes a value may have to be read: real ones have a few dozen.
const maxValue = 1024

// floats are the bytes of a number of the VRs for floating-point numbers.
var floats = map[string]int64{"FL": 4, "FD": 8}

// Add takes an element, if it is wanted.
func (c *Collector) Add(w *Walker, e Element) error {
	if !c.wanted[e.Tag] || e.Length == Undefined || e.Length > maxValue || w.Implicit != c.implicit ||
		w.Order != c.order {
		return nil
	}
	if size := floats[cmp.Or(e.VR, e.Tag.VR())]; size > 0 && e.Length%size != 0 {
		return nil // no numbers; those that images need are written as text
	}
	raw, err := w.At(e.Start, int(e.Value-e.Start+e.Length))
	if err != nil {
		return err
	}
	if vr := e.Tag.VR(); e.VR == "UN" && vr != "" && !longForm[vr] && c.order == binary.LittleEndian {
		// Somebody's program did not know the element. The standard does.
		c.set.Write(raw[:4])
		c.set.WriteString(vr)
		c.set.Write(binary.LittleEndian.AppendUint16(nil, uint16(e.Length)))
		raw = raw[e.Value-e.Start:]
	}
	c.set.Write(raw)
	return nil
}

// Values are those of a data set, by tag.
type Values map[tag.Tag]library.Value

// Parse reads the values of the elements.
func (c *Collector) Parse() (v Values, err error) {
	// Not even the library's messages are passed on: they may show values.
	bad := errors.New("an element has a value that cannot be")
	defer func() {
		if recover() != nil {
			v, err = nil, bad
		}
	}()
	uid := ImplicitLittle + "\x00"
	switch {
	case c.order == binary.BigEndian:
		uid = ExplicitBig + "\x00"
	case !c.implicit:
		uid = ExplicitLittle + "\x00"
	}
	var file bytes.Buffer
	file.Write(make([]byte, 128))
	file.WriteString("DICM")
	meta := &Encoder{}
	meta.Text(tag.TransferSyntaxUID, "UI", uid)
	length := &Encoder{}
	length.Long(tag.FileMetaInformationGroupLength, uint32(len(meta.Encode())))
	file.Write(length.Encode())
	file.Write(meta.Encode())
	file.Write(c.set.Bytes())
	set, err := library.Parse(&file, int64(file.Len()), nil, library.SkipPixelData())
	if err != nil {
		return nil, bad
	}
	v = Values{}
	for _, e := range set.Elements {
		if e.Value != nil {
			v[tag.Tag(e.Tag.Group)<<16|tag.Tag(e.Tag.Element)] = e.Value
		}
	}
	return v, nil
}

// Strings returns an element's values as text, trimmed; nil where there are none.
func (v Values) Strings(t tag.Tag) []string {
	value, ok := v[t]
	if !ok {
		return nil
	}
	var out []string
	switch x := value.GetValue().(type) {
	case []string:
		out = x
	case []int:
		for _, n := range x {
			out = append(out, strconv.Itoa(n))
		}
	case []float64:
		for _, f := range x {
			out = append(out, strconv.FormatFloat(f, 'g', -1, 64))
		}
	case []byte: // a VR that is not known: text, in all cases that matter
		out = strings.Split(string(x), `\`)
	}
	out = append([]string(nil), out...)
	for n := range out {
		out[n] = trim(out[n])
	}
	if len(out) == 1 && out[0] == "" {
		return nil
	}
	return out
}

// trim removes the padding of a text.
func trim(s string) string { return strings.Trim(s, " \x00\t\r\n") }

// String returns the first of an element's values as text, "" where there is none.
func (v Values) String(t tag.Tag) string {
	if s := v.Strings(t); len(s) > 0 {
		return s[0]
	}
	return ""
}

// Floats returns an element's values as numbers.
func (v Values) Floats(t tag.Tag) ([]float64, error) {
	var out []float64
	for _, s := range v.Strings(t) {
		f, err := Decimal(s)
		if err != nil {
			return nil, fmt.Errorf("%s is %w", t, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// Integer returns an element's first value, which must lie between least and most, or otherwise if
// there is none.
func (v Values) Integer(t tag.Tag, least, most, otherwise int) (int, error) {
	s := v.String(t)
	if s == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s must be a whole number from %d to %d", t, least, most)
	}
	return n, nil
}

// Decimal parses a number.
func Decimal(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	// spellings of Go's that are not DICOM's
	if err != nil || !numbers.Finite(f) || strings.ContainsAny(s, "_xX") {
		return 0, errors.New("not a number")
	}
	return f, nil
}

// Decimals parses numbers divided by backslashes: as many as to has.
func Decimals(text string, to []float64) error {
	parts := strings.Split(text, `\`)
	if len(parts) != len(to) {
		return fmt.Errorf("%d numbers, not %d", len(parts), len(to))
	}
	for n, part := range parts {
		x, err := Decimal(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		to[n] = x
	}
	return nil
}
