package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

// ReadScores reads the scores that [PerCase] wrote as CSV, every digit of them. An experiment that
// is resumed gets its finished runs this way.
func ReadScores(r io.Reader) ([]eval.Score, error) {
	f, err := readCSV(r, "scores")
	if err != nil {
		return nil, err
	}
	columns := []string{"case", "label", "name"}
	columns = append(columns, slices.Sorted(maps.Keys(numbersOf(&eval.Score{})))...)
	if err := f.want(columns...); err != nil {
		return nil, err
	}
	var scores []eval.Score
	for n := range f.rows {
		s, err := f.score(n)
		if err != nil {
			return nil, err
		}
		scores = append(scores, s)
	}
	return scores, nil
}

// Runs is the table of all scores of all runs of an experiment: the columns of [PerCase] behind
// those that tell the runs apart, and before the device, what their predictions keep and, where
// seeds may share one, the draw of the labelled cases that a run has.
func Runs(runs []eval.Trial) Table {
	t := Table{Title: "All scores", Columns: []Column{{"initialisation", "initialisation", 0}, {"fold", "fold", 0},
		{"fraction", "fraction", 4}, {"seed", "seed", 0}}}
	t.Columns = append(t.Columns, PerCase(nil).Columns...)
	t.Columns = append(t.Columns, Column{"device", "device", 0}, Column{"components", "components", 0},
		Column{"draw", "draw", 0})
	for _, r := range runs {
		for _, row := range PerCase(r.Scores).Rows {
			cells := append([]any{r.Initialisation, r.Fold, r.Fraction, strconv.FormatUint(r.Seed, 10)}, row...)
			draw := any(nil) // its seed's own
			if r.Draw > 0 {
				draw = strconv.FormatUint(r.Draw, 10)
			}
			t.Rows = append(t.Rows, append(cells, r.Device, r.Components, draw))
		}
	}
	return t
}

// longestName is how long the name of an initialisation may be: files are called after it.
const longestName = 100

// ReadRuns reads the runs that [Runs] wrote as CSV, in the order of their first rows. Any other
// table will do that has the columns initialisation, fold, fraction, seed, case, label and dsc;
// metrics that it lacks are NaN, and nothing is known of the components that are kept. Where the
// column draw is empty, a seed has a draw of the labelled cases of its own; drawn says whether
// there is such a column.
func ReadRuns(r io.Reader) (runs []eval.Trial, drawn bool, err error) {
	f, err := readCSV(r, "scores of runs")
	if err == nil {
		err = f.want("initialisation", "fold", "fraction", "seed", "case", "label", "dsc")
	}
	if err != nil {
		return nil, false, err
	}
	_, drawn = f.at["draw"]
	runs, err = f.runs()
	return runs, drawn, err
}

// runs are those of the rows.
func (f *csvFile) runs() ([]eval.Trial, error) {
	type key struct {
		initialisation string
		fold           int
		fraction       float64
		seed           uint64
	}
	type scored struct {
		run   key
		name  string
		label uint16
	}
	var runs []eval.Trial
	at, seen := map[key]int{}, map[scored]bool{}
	for n := range f.rows {
		k := key{initialisation: fromCSV(f.cell(n, "initialisation"))}
		var errs [3]error
		k.fold, errs[0] = strconv.Atoi(f.cell(n, "fold"))
		k.fraction, errs[1] = strconv.ParseFloat(f.cell(n, "fraction"), 64)
		k.seed, errs[2] = strconv.ParseUint(f.cell(n, "seed"), 10, 64)
		for m, column := range []string{"fold", "fraction", "seed"} {
			if errs[m] != nil {
				return nil, f.wrong(n, column, "a number")
			}
		}
		if k.initialisation == "" || len(k.initialisation) > longestName {
			return nil, f.wrong(n, "initialisation", fmt.Sprintf("a name of up to %d bytes", longestName))
		}
		if !(k.fraction > 0 && k.fraction <= 1) {
			return nil, f.wrong(n, "fraction", "a share above 0 and up to 1")
		}
		s, err := f.score(n)
		if err != nil {
			return nil, err
		}
		for m, ratio := range []float64{s.DSC, s.NSD} {
			if ratio < 0 || ratio > 1 {
				return nil, f.wrong(n, []string{"dsc", "nsd"}[m], "between 0 and 1, which means 100 %")
			}
		}
		components, draw := fromCSV(f.cell(n, "components")), uint64(0)
		if text := f.cell(n, "draw"); text != "" {
			if draw, err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, f.wrong(n, "draw", "a number, or nothing where each seed has a draw of its own")
			}
		}
		if seen[scored{k, s.Case, s.Label}] {
			return nil, fmt.Errorf("reading %s: line %d: case %s, label %d is there twice for the same run", f.what,
				f.lines[n], safetext.Text(s.Case), s.Label)
		}
		seen[scored{k, s.Case, s.Label}] = true
		if _, known := at[k]; !known {
			at[k] = len(runs)
			runs = append(runs, eval.Trial{Initialisation: k.initialisation, Fold: k.fold, Fraction: k.fraction,
				Seed: k.seed, Draw: draw, Device: fromCSV(f.cell(n, "device")), Components: components})
		}
		if known := runs[at[k]].Draw; known != draw {
			return nil, fmt.Errorf("reading %s: line %d: draw %d, and %d in another line of the same run", f.what,
				f.lines[n], draw, known)
		}
		if runs[at[k]].Components != components {
			return nil, fmt.Errorf("reading %s: line %d: components %q, and %q in another line of the same run", f.what,
				f.lines[n], safetext.Text(components), safetext.Text(runs[at[k]].Components))
		}
		runs[at[k]].Scores = append(runs[at[k]].Scores, s)
	}
	return runs, nil
}

// ReadCurves reads the learning curves that [Curves] wrote as CSV, in the order of their first
// points. Fractions are as exact as that table shows them.
func ReadCurves(r io.Reader) ([]eval.LearningCurve, error) {
	f, err := readCSV(r, "learning curves")
	if err != nil {
		return nil, err
	}
	if err := f.want("initialisation", "data", "fold", "seed", "step", "dsc"); err != nil {
		return nil, err
	}
	var curves []eval.LearningCurve
	for n := range f.rows {
		c := eval.LearningCurve{Initialisation: fromCSV(f.cell(n, "initialisation"))}
		percent, isPercent := strings.CutSuffix(f.cell(n, "data"), " %")
		if c.Fraction, err = strconv.ParseFloat(percent, 64); err != nil || !isPercent {
			return nil, f.wrong(n, "data", "a share in percent")
		}
		c.Fraction /= 100
		if c.Fold, err = strconv.Atoi(f.cell(n, "fold")); err != nil {
			return nil, f.wrong(n, "fold", "a number")
		}
		if c.Seed, err = strconv.ParseUint(f.cell(n, "seed"), 10, 64); err != nil {
			return nil, f.wrong(n, "seed", "a number")
		}
		point := map[string]float64{}
		for _, column := range []string{"step", "dsc"} {
			if point[column], err = strconv.ParseFloat(f.cell(n, column), 64); err != nil ||
				math.IsInf(point[column], 0) || column == "step" && !(point[column] >= 0) {
				return nil, f.wrong(n, column, "a number")
			}
		}
		at := slices.IndexFunc(curves, func(k eval.LearningCurve) bool {
			return k.Initialisation == c.Initialisation && k.Fraction == c.Fraction && k.Fold == c.Fold &&
				k.Seed == c.Seed
		})
		if at < 0 {
			at = len(curves)
			curves = append(curves, c)
		}
		k := &curves[at]
		if last := len(k.Steps) - 1; last >= 0 && point["step"] <= k.Steps[last] {
			return nil, f.wrong(n, "step", "after the one before it")
		}
		k.Steps, k.Values = append(k.Steps, point["step"]), append(k.Values, point["dsc"])
	}
	return curves, nil
}

// csvFile is a file of CSV with a header.
type csvFile struct {
	what string // that it should hold
	at   map[string]int
	rows [][]string
	// lines are the numbers of the rows' lines in the file.
	lines []int
}

// Read reads the cells of some columns of a table, which must be there, by their keys.
func Read(r io.Reader, what string, columns ...string) (rows []map[string]string, err error) {
	f, err := readCSV(r, what)
	if err == nil {
		err = f.want(columns...)
	}
	if err != nil {
		return nil, err
	}
	for n := range f.rows {
		row := map[string]string{}
		for _, key := range columns {
			row[key] = fromCSV(f.cell(n, key))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// longestHeader is how long the first line of a table may be: what has none is no table.
const longestHeader = 1 << 16

func readCSV(r io.Reader, what string) (*csvFile, error) {
	buffered := bufio.NewReaderSize(r, longestHeader)
	begin, err := buffered.Peek(longestHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if len(begin) == longestHeader && !bytes.ContainsRune(begin, '\n') {
		return nil, fmt.Errorf("reading %s: no line ends within %d bytes: not a table of CSV", what, longestHeader)
	}
	if bytes.HasPrefix(begin, []byte("\ufeff")) { // a byte order mark, which Excel writes
		if _, err := buffered.Discard(len("\ufeff")); err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
	}
	records := csv.NewReader(buffered)
	header, err := records.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading %s: no header", what)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if len(header) == 1 && strings.ContainsAny(header[0], ";\t") {
		return nil, fmt.Errorf("reading %s: want columns between commas, and decimal points: not semicolons or tabs",
			what)
	}
	f := &csvFile{what: what, at: map[string]int{}}
	for n, key := range header {
		if _, twice := f.at[key]; twice {
			return nil, fmt.Errorf("reading %s: two columns are called %q", what, safetext.Text(key))
		}
		f.at[key] = n
	}
	for {
		row, err := records.Read()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
		line, _ := records.FieldPos(0)
		f.rows, f.lines = append(f.rows, row), append(f.lines, line)
	}
}

// want reports the first column that is missing.
func (f *csvFile) want(columns ...string) error {
	for _, key := range columns {
		if _, ok := f.at[key]; !ok {
			return fmt.Errorf("reading %s: no column %q: not a table of %s", f.what, key, f.what)
		}
	}
	return nil
}

// cell is a cell of a row, empty where there is no such column.
func (f *csvFile) cell(row int, column string) string {
	n, ok := f.at[column]
	if !ok {
		return ""
	}
	return f.rows[row][n]
}

func (f *csvFile) wrong(row int, column, want string) error {
	return fmt.Errorf("reading %s: line %d: %s %q is not %s", f.what, f.lines[row], column, f.cell(row, column), want)
}

// score reads the score of a row; numbers without a column are NaN.
func (f *csvFile) score(row int) (eval.Score, error) {
	label, err := strconv.ParseUint(f.cell(row, "label"), 10, 16)
	if err != nil {
		return eval.Score{}, f.wrong(row, "label", "a number up to 65535")
	}
	s := eval.Score{Case: fromCSV(f.cell(row, "case")), Label: uint16(label), Name: fromCSV(f.cell(row, "name"))}
	s.Unlearnt = f.cell(row, "outcome") == string(eval.Unlearnt)
	s.Emptied = f.cell(row, "outcome") == string(eval.Emptied)
	all := numbersOf(&s)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		dst := all[key]
		*dst = math.NaN()
		if _, ok := f.at[key]; !ok {
			continue
		}
		if *dst, err = strconv.ParseFloat(f.cell(row, key), 64); err != nil {
			return eval.Score{}, f.wrong(row, key, "a number")
		}
	}
	return s, nil
}

// numbersOf names the numbers of a score that a table holds.
func numbersOf(s *eval.Score) map[string]*float64 {
	return map[string]*float64{
		"dsc": &s.DSC, "hd95_mm": &s.HD95, "hd_mm": &s.HD, "assd_mm": &s.ASSD, "nsd": &s.NSD,
		"predicted_ml": &s.Predicted, "reference_ml": &s.Reference, "tolerance_mm": &s.Tolerance,
	}
}
