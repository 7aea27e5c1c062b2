package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

// flat spells the spreads out. Their columns become four: key_mean, key_sd, key_n, which counts the
// values in the mean, and key_infinite, which counts those of labels that were missed or invented.
func (t Table) flat() (keys []string, rows [][]any) {
	spread := make([]bool, len(t.Columns))
	for n, c := range t.Columns {
		for _, r := range t.Rows {
			_, is := r[n].(eval.Spread)
			spread[n] = spread[n] || is
		}
		if spread[n] {
			keys = append(keys, c.Key+"_mean", c.Key+"_sd", c.Key+"_n", c.Key+"_infinite")
		} else {
			keys = append(keys, c.Key)
		}
	}
	for _, r := range t.Rows {
		var row []any
		for n, cell := range r {
			switch s, is := cell.(eval.Spread); {
			case is:
				row = append(row, s.Mean, s.SD, s.N, s.Infinite)
			case spread[n]:
				row = append(row, nil, nil, nil, nil)
			default:
				if p, is := cell.(P); is {
					cell = float64(p)
				}
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	return keys, rows
}

// CSV writes the table with a header of keys. NaN and infinity are "nan" and "inf", as numpy and
// pandas write and read them. Text that a spreadsheet would take for a formula begins with an
// apostrophe; characters that cannot be seen, and backslashes, are escaped.
func (t Table) CSV(w io.Writer) error {
	keys, rows := t.flat()
	c := csv.NewWriter(w)
	header := make([]string, len(keys))
	for n, key := range keys {
		header[n] = csvText(key)
	}
	c.Write(header) // the writer keeps its first error for Error
	for _, r := range rows {
		record := make([]string, len(r))
		for n, cell := range r {
			switch v := cell.(type) {
			case nil:
			case float64:
				record[n] = exact(v)
			case string:
				record[n] = csvText(v)
			default:
				record[n] = fmt.Sprint(cell)
			}
		}
		c.Write(record)
	}
	c.Flush()
	return c.Error()
}

// formula matches text that a spreadsheet may compute, behind any number of apostrophes.
var formula = regexp.MustCompile(`^'*[=+\-@＝＋－＠]`)

// csvText makes text fit for a cell of a CSV file, for programs and spreadsheets.
func csvText(s string) string {
	s = safetext.Quote(s)
	if formula.MatchString(s) {
		return "'" + s
	}
	return s
}

// fromCSV reverses csvText.
func fromCSV(s string) string {
	if strings.HasPrefix(s, "'") && formula.MatchString(s) {
		s = s[1:]
	}
	return safetext.Unquote(s)
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
