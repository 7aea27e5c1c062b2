package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/voxsaw/voxsaw/eval"
)

// flat spells the spreads out: their columns become three, key_mean, key_sd and key_n.
func (t Table) flat() (keys []string, rows [][]any) {
	spread := make([]bool, len(t.Columns))
	for n, c := range t.Columns {
		for _, r := range t.Rows {
			_, is := r[n].(eval.Spread)
			spread[n] = spread[n] || is
		}
		if spread[n] {
			keys = append(keys, c.Key+"_mean", c.Key+"_sd", c.Key+"_n")
		} else {
			keys = append(keys, c.Key)
		}
	}
	for _, r := range t.Rows {
		var row []any
		for n, cell := range r {
			switch s, is := cell.(eval.Spread); {
			case is:
				row = append(row, s.Mean, s.SD, s.N)
			case spread[n]:
				row = append(row, nil, nil, nil)
			default:
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	return keys, rows
}

// CSV writes the table with a header of keys. NaN and infinity are "nan" and "inf", as numpy and
// pandas write and read them.
func (t Table) CSV(w io.Writer) error {
	keys, rows := t.flat()
	c := csv.NewWriter(w)
	c.Write(keys) // the writer keeps its first error for Error
	for _, r := range rows {
		record := make([]string, len(r))
		for n, cell := range r {
			switch v := cell.(type) {
			case nil:
			case float64:
				record[n] = exact(v)
			default:
				record[n] = fmt.Sprint(cell)
			}
		}
		c.Write(record)
	}
	c.Flush()
	return c.Error()
}

func exact(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
