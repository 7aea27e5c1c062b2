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

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

// A table is a CSV file that grows by a line at a time and whose first column is the step. A
// resumed run forgets the lines after its checkpoint and then writes them again.
type table struct {
	path    string
	file    *os.File
	columns []string
	last    string // the last line that was kept
}

// openTable opens or makes a table and drops the lines of later steps than the given one, and a
// last line that was cut short.
func openTable(path string, step int) (*table, error) {
	t := &table{path: path}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var kept bytes.Buffer
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
		kept.Write(line)
	}
	if len(data) != kept.Len() {
		if err := atomicfile.Write(path, func(w io.Writer) error { _, err := w.Write(kept.Bytes()); return err }); err != nil {
			return nil, err
		}
	}
	t.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	return t, err
}

// row is the last line that was kept, without the step; nil if there is none or it is not numbers.
func (t *table) row() []Metric {
	cells := strings.Split(t.last, ",")
	if len(cells) != len(t.columns) {
		return nil
	}
	var row []Metric
	for i, cell := range cells[1:] {
		v, err := strconv.ParseFloat(cell, 64)
		if err != nil {
			return nil
		}
		row = append(row, Metric{t.columns[i+1], v})
	}
	return row
}

func atMost(text string, step int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n <= step
}

// add writes a line, after the column names if it is the first.
func (t *table) add(step int, metrics []Metric) error {
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
