package eval

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Table is a result to be written or drawn. A cell is a string, an int, a float64 or a [Spread];
// nil is an empty cell.
//
// CSV and JSON hold every digit under the columns' keys, for programs; [Table.Text] and Markdown
// round as the columns say, for people.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]any
	Notes   []string // below the table
}

// Column says how the cells of one column are named and rounded.
type Column struct {
	Key    string // in CSV and JSON: lower case, with the unit, such as hd95_mm
	Title  string // for people; a column without is for programs only
	Digits int    // decimals
}

// shown lists the columns that people see.
func (t Table) shown() []int {
	var shown []int
	for n, c := range t.Columns {
		if c.Title != "" {
			shown = append(shown, n)
		}
	}
	return shown
}

// Text is the table as people read it: the titles of the columns that have one, then the cells of
// each row, rounded.
func (t Table) Text() (header []string, rows [][]string) {
	rows = make([][]string, len(t.Rows))
	for _, n := range t.shown() {
		header = append(header, t.Columns[n].Title)
		for m, r := range t.Rows {
			rows[m] = append(rows[m], t.Columns[n].text(r[n]))
		}
	}
	return header, rows
}

// Numeric tells whether a column of [Table.Text] holds numbers, so that it is aligned to the right.
func (t Table) Numeric(column int) bool {
	n := t.shown()[column]
	for _, r := range t.Rows {
		switch r[n].(type) {
		case float64, int, Spread:
			return true
		}
	}
	return false
}

func (c Column) text(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case float64:
		return Rounded(v, c.Digits)
	case Spread:
		return v.Text(c.Digits)
	}
	return fmt.Sprint(cell)
}

// Rounded writes a number for people: a dash for NaN, and an infinity sign for a distance that is
// not defined.
func Rounded(v float64, digits int) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "-∞"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Text writes mean ± sd, and how many values are not in it because the label was missed or
// invented.
func (s Spread) Text(digits int) string {
	text := Rounded(s.Mean, digits)
	if !math.IsNaN(s.SD) {
		text += " ± " + Rounded(s.SD, digits)
	}
	if s.Infinite > 0 {
		text += fmt.Sprintf(" (%d ∞)", s.Infinite)
	}
	return text
}

// flat spells the spreads out: their columns become three, key_mean, key_sd and key_n.
func (t Table) flat() (keys []string, rows [][]any) {
	spread := make([]bool, len(t.Columns))
	for n, c := range t.Columns {
		for _, r := range t.Rows {
			_, is := r[n].(Spread)
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
			switch s, is := cell.(Spread); {
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

// Markdown writes the table in GitHub's notation, its title as a bold line and its notes below.
func (t Table) Markdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		b.WriteString("**" + t.Title + "**\n\n")
	}
	header, rows := t.Text()
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", " ") + " ")
		}
		b.WriteString("|\n")
	}
	line(header)
	for n := range header {
		if t.Numeric(n) {
			b.WriteString("|--:")
		} else {
			b.WriteString("|---")
		}
	}
	b.WriteString("|\n")
	for _, r := range rows {
		line(r)
	}
	for _, n := range t.Notes {
		b.WriteString("\n" + n + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
