package train

import (
	"bytes"
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
)

// A table is a CSV file that grows by a line at a time and whose first column is the step. A
// resumed run forgets the lines after its checkpoint and then writes them again.
type table struct {
	path    string
	file    *os.File
	columns []string
	last    string // the last line that was kept
	kept    []byte // what was read and kept
	dropped bool   // whether there was more
}

// openTable opens or makes a table and drops the lines of later steps than the given one, and a
// last line that was cut short.
func openTable(path string, step int) (*table, error) {
	t, err := readTable(path, step)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if t.dropped {
		if err := atomicfile.WriteBytes(path, t.kept); err != nil {
			return nil, err
		}
	}
	t.kept = nil
	t.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	return t, err
}

// readTable reads the lines of a table up to a step. Where there is no file the table is empty, and
// the error says so.
func readTable(path string, step int) (*table, error) {
	t := &table{path: path}
	data, err := os.ReadFile(path)
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		text := strings.TrimSpace(string(line))
		if t.columns == nil {
			t.columns = strings.Split(text, ",")
		} else if first, _, _ := strings.Cut(text, ","); !atMost(first, step) {
			break
		} else {
			t.last = text
		}
		t.kept = append(t.kept, line...)
	}
	t.dropped = len(data) != len(t.kept)
	return t, err
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

func atMost(text string, step int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n <= step
}

// add writes a line, after the column names if it is the first.
func (t *table) add(step int, metrics []voxsaw.Metric) error {
	columns, line := []string{"step"}, []string{strconv.Itoa(step)}
	for _, m := range metrics {
		columns = append(columns, m.Name)
		line = append(line, strconv.FormatFloat(m.Value, 'g', 7, 64))
	}
	text := strings.Join(line, ",") + "\n"
	if t.columns == nil {
		t.columns = columns
		text = strings.Join(columns, ",") + "\n" + text
	}
	if !slices.Equal(columns, t.columns) {
		return fmt.Errorf("%s has columns %v, the task now reports %v", t.path, t.columns, columns)
	}
	if _, err := io.WriteString(t.file, text); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

func (t *table) close() error { return t.file.Close() }
