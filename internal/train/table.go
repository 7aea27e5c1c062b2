package train

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/steplog"
)

// A table is a CSV file that grows by a line at a time and whose first column is the step. A
// resumed run forgets the lines after its checkpoint and then writes them again.
//
// Lines that cannot be written, because the disk is full, say, are kept and written with the next.
type table struct {
	path    string
	file    *os.File
	columns []string
	last    string // the last line that was kept
	// steps that were kept and have others missing between them, in a table of every step
	gaps    [][2]int
	step    int     // of the last line that was kept
	rows    int     // that were kept, without the names
	seconds float64 // that they took, where they say so
	dropped bool    // whether there was more
	size    int64   // bytes in the file, or of it that were kept
	pending []byte  // lines that are not in the file yet
}

// openTable opens or makes a table and drops the lines of later steps than the given one, and a
// last line that was cut short.
func openTable(path string, step int) (*table, error) {
	t, err := readTable(path, step)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = atomicfile.WriteBytes(path, nil) // not just made, so that a power cut leaves its name
	case err == nil && t.dropped:
		err = t.cut()
	}
	if err != nil {
		return nil, err
	}
	t.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	return t, err
}

// cut leaves what was kept alone in the file.
func (t *table) cut() error {
	f, err := os.Open(t.path)
	if err != nil {
		return err
	}
	defer f.Close() // Windows replaces no file that is open
	err = atomicfile.Write(t.path, func(w io.Writer) error {
		_, err := io.CopyN(w, f, t.size)
		return errors.Join(err, f.Close())
	})
	return err
}

// readTable reads the lines of a table up to a step. Where there is no file the table is empty, and
// the error says so.
func readTable(path string, step int) (*table, error) {
	t := &table{path: path}
	seconds := -1 // their column
	err := steplog.Lines(path, func(line string) bool {
		text := strings.TrimSpace(line)
		if t.columns == nil {
			t.columns = strings.Split(text, ",")
			seconds = slices.Index(t.columns, "seconds")
		} else {
			first, _, _ := strings.Cut(text, ",")
			n, err := strconv.Atoi(first)
			if err != nil || n > step {
				return false
			}
			if n != t.step+1 {
				t.gaps = append(t.gaps, [2]int{t.step, n})
			}
			t.last, t.step, t.rows = text, n, t.rows+1
			if cells := strings.Split(text, ","); seconds >= 0 && seconds < len(cells) {
				if v, err := strconv.ParseFloat(cells[seconds], 64); err == nil {
					t.seconds += v
				}
			}
		}
		t.size += int64(len(line))
		return true
	})
	if err != nil {
		return t, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return t, err
	}
	t.dropped = info.Size() != t.size
	return t, nil
}

// validation is the last line that was kept, as validation.csv has it.
func (t *table) validation() voxsaw.Validation {
	if row := t.row(); len(row) > 0 {
		return voxsaw.Validation{Score: row[0].Value, Metrics: row[1:]}
	}
	return voxsaw.Validation{}
}

// row is the last line that was kept, without the step; nil if there is none or it is not numbers.
func (t *table) row() []voxsaw.Metric {
	cells := strings.Split(t.last, ",")
	if len(cells) != len(t.columns) {
		return nil
	}
	var row []voxsaw.Metric
	for i, cell := range cells[1:] {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			return nil
		}
		row = append(row, voxsaw.Metric{Name: t.columns[i+1], Value: v})
	}
	return row
}

// missing lists the steps up to the given one that a table of every step lacks: "11 to 20".
func (t *table) missing(step int) []string {
	var all []string
	for _, gap := range append(slices.Clone(t.gaps), [2]int{t.step, step + 1}) {
		switch first, last := gap[0]+1, gap[1]-1; {
		case first == last:
			all = append(all, strconv.Itoa(first))
		case first < last:
			all = append(all, fmt.Sprintf("%d to %d", first, last))
		}
	}
	return all
}

// add writes a line, after the column names if it is the first. Where that fails it is written with
// the next one.
func (t *table) add(step int, metrics []voxsaw.Metric) error {
	columns, line := []string{"step"}, []string{strconv.Itoa(step)}
	for _, m := range metrics {
		columns = append(columns, columnName(m.Name))
		line = append(line, strconv.FormatFloat(m.Value, 'g', 7, 64))
	}
	text := strings.Join(line, ",") + "\n"
	if t.columns == nil {
		t.columns = columns
		text = strings.Join(columns, ",") + "\n" + text
	}
	if !slices.Equal(columns, t.columns) {
		return fmt.Errorf("%s has columns %v, the task now reports %v", t.path, numbers.List(t.columns),
			numbers.List(columns))
	}
	t.pending = append(t.pending, text...)
	return t.flush()
}

// columnName makes a name, in which there may be one of a label, fit for the head of a column.
func columnName(name string) string {
	return strings.NewReplacer(",", "", `"`, "").Replace(safetext.Text(name))
}

// flush writes the lines that are not in the file yet. After an error a part of them may be there:
// it is written over the next time.
func (t *table) flush() error {
	if _, err := t.file.WriteAt(t.pending, t.size); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	t.size += int64(len(t.pending))
	t.pending = t.pending[:0]
	return nil
}

// sync sees all lines to the disk.
func (t *table) sync() error {
	err := t.flush()
	if err == nil {
		if err = t.file.Sync(); err != nil {
			err = fmt.Errorf("writing the log: %w", err)
		}
	}
	return err
}

func (t *table) close() error { return t.file.Close() }
