package table

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// JSON writes the table as a list of objects, keys in the order of the columns. JSON has neither
// NaN nor infinity: what is not defined is null, and the infinite distance of a label that was
// missed or invented is the text "inf".
func (t Table) JSON(w io.Writer) error {
	keys, rows := t.flat()
	var b bytes.Buffer
	b.WriteString("[")
	for n, r := range rows {
		if n > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  {")
		for m, cell := range r {
			key, err := jsonText(keys[m])
			if err != nil {
				return err
			}
			value, err := jsonText(cell)
			if err != nil {
				return fmt.Errorf("column %s: %w", keys[m], err)
			}
			if m > 0 {
				b.WriteString(", ")
			}
			b.Write(key)
			b.WriteString(": ")
			b.Write(value)
		}
		b.WriteString("}")
	}
	b.WriteString("\n]\n")
	_, err := w.Write(b.Bytes())
	return err
}

// jsonText is a value in JSON.
func jsonText(cell any) ([]byte, error) {
	if v, is := cell.(float64); is {
		switch {
		case math.IsNaN(v):
			return []byte("null"), nil
		case math.IsInf(v, 0):
			return []byte(strconv.Quote(exact(v))), nil
		}
	}
	text, err := safetext.Encode(cell, "")
	return bytes.TrimSpace(text), err
}
