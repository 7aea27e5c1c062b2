// Package steplog reads the tables that a training writes a line at a time: comma-separated
// numbers below a line of names, of which the first is the step. Start at [Read]; [Lines] is for
// who needs the lines themselves. Tables are read as streams, however long they are: a training
// may take a thousand million steps.
package steplog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// longest is the longest line of a table, in bytes: names of labels and their scores.
const longest = 16 << 20

// Lines hands on the lines of a table, the names first, each with what ends it. A last line that
// does not end is left out: it is written now, or was cut short. It ends early where each says so.
func Lines(path string, each func(line string) (goOn bool)) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: errors.New("is no file, but a folder, a pipe or a device")}
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == io.EOF:
			return nil
		case len(line) > longest:
			return fmt.Errorf("%s has a line of more than %d MiB: it is no table of steps, remove it or put the right "+
				"file there", path, longest>>20)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return err
		case !each(string(line)):
			return nil
		}
		line = line[:0]
	}
}

// A Log is a table of numbers, by columns.
type Log struct {
	Columns []string
	Values  map[string][]float64 // as many of each column
}

// most is the number of lines that are kept of a table: far more than a chart has pixels.
var most = 1 << 19 // even: halving leaves the last one out

// Read reads a table. Of a very long one it keeps every second line, every fourth and so on, and
// the last. A line that was cut short is the end of what is known.
func Read(path string) (Log, error) {
	l := Log{Values: map[string][]float64{}}
	var wrong error
	var row []float64
	count, stride, kept := 0, 1, true // kept: the last line
	err := Lines(path, func(line string) bool {
		cells := strings.Split(strings.TrimSpace(line), ",")
		if l.Columns == nil {
			l.Columns = cells
			return true
		}
		if len(cells) != len(l.Columns) {
			return false
		}
		row = row[:0]
		for n, cell := range cells {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				wrong = fmt.Errorf("%s, line %d: %s %q is not a number", path, count+2, l.Columns[n], cell)
				return false
			}
			row = append(row, v)
		}
		if kept = count%stride == 0; kept {
			l.add(row)
		}
		if count++; count == stride*most {
			l.halve()
			stride, kept = 2*stride, false
		}
		return true
	})
	if !kept {
		l.add(row)
	}
	return l, errors.Join(err, wrong)
}

// add appends a line.
func (l *Log) add(row []float64) {
	for n, column := range l.Columns {
		l.Values[column] = append(l.Values[column], row[n])
	}
}

// halve leaves every second line out.
func (l *Log) halve() {
	for column, values := range l.Values {
		kept := values[:0]
		for n := 0; n < len(values); n += 2 {
			kept = append(kept, values[n])
		}
		l.Values[column] = kept
	}
}
