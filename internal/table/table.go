// Package table holds results as tables: rows, columns with names, and how cells are rounded. It
// writes them as CSV and JSON for programs and as Markdown for people; [Table.Text] gives the cells
// to whoever draws them, such as the terminal or a report.
//
// Start at [PerCase], [PerLabel] and [Folds], which make tables of what package eval measured, and
// [ReadScores], which reads one back. Numbers are computed in eval, pictures are drawn in report.
package table

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
)

// Table is a result to be written or drawn. A cell is a string, an int, a float64, a [P] or an
// [eval.Spread]; nil is an empty cell.
//
// CSV and JSON hold every digit under the columns' keys, for programs; [Table.Text] and Markdown
// round as the columns say, for people.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]any
	Notes   []string // below the table
}

// P is the probability of a test. People see no more than three decimals of it.
type P float64

// String writes the probability as people do: 0.042, or < 0.001.
func (p P) String() string {
	if p < 0.0005 {
		return "< 0.001"
	}
	return Rounded(float64(p), 3)
}

// Column says how the cells of one column are named and rounded.
type Column struct {
	Key    string // in CSV and JSON: lower case, with the unit, such as hd95_mm
	Title  string // for people; a column without a title is for programs only
	Digits int    // decimals
}

// Hide takes columns from what people see; programs still get them.
func (t Table) Hide(keys ...string) Table {
	t.Columns = slices.Clone(t.Columns)
	for n, c := range t.Columns {
		if slices.Contains(keys, c.Key) {
			t.Columns[n].Title = ""
		}
	}
	return t
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
		case float64, int, P, eval.Spread:
			return true
		}
	}
	return false
}

// Others tells whether a column of [Table.Text] holds what others have published: pages show it in
// grey.
func (t Table) Others(column int) bool {
	return strings.HasSuffix(t.Columns[t.shown()[column]].Key, PublishedKey)
}

func (c Column) text(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case float64:
		return Rounded(v, c.Digits)
	case eval.Spread:
		return Spread(v, c.Digits)
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

// Spread writes mean ± sd, and how many values are not in it because the label was missed or
// invented.
func Spread(s eval.Spread, digits int) string {
	text := Rounded(s.Mean, digits)
	if !math.IsNaN(s.SD) {
		text += " ± " + Rounded(s.SD, digits)
	}
	if s.Infinite > 0 {
		text += fmt.Sprintf(" (%d ∞)", s.Infinite)
	}
	return text
}

// Interval writes two bounds with their signs; a dash where there are none.
func Interval(i eval.Interval, digits int) string {
	if math.IsNaN(i.Low) || math.IsNaN(i.High) {
		return Rounded(math.NaN(), digits)
	}
	return fmt.Sprintf("%+.*f to %+.*f", digits, i.Low, digits, i.High)
}

// Percent writes a share as the tables do: 10 %.
func Percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }

// List writes names one after the other: a, b and c. Of more than most names it gives the first and
// says how many there are besides; 0: all are given.
func List(names []string, most int) string {
	if most > 0 && len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
