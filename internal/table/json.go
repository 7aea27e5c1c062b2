package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// JSON writes the table as a list of objects, keys in the order of the columns. JSON has no NaN and
// no infinity: both are null.
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
			if v, is := cell.(float64); is && (math.IsNaN(v) || math.IsInf(v, 0)) {
				cell = nil
			}
			key, err := json.Marshal(keys[m])
			if err != nil {
				return err
			}
			value, err := json.Marshal(cell)
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
