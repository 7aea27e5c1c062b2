// Package smallfile reads files that are small, and no others: lists, settings, records and tables.
// They are read whole, so a limit keeps one that is not what its name says (a volume, a sparse file
// of terabytes, a link to /dev/zero) from filling the memory. Start at [Read]; [ReadGiven] is for a
// file that a person named, which may be a pipe. A test forbids os.ReadFile and the like elsewhere.
//
// Voxels, tensors and photographs are not small: who reads those checks their headers.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Limits of the kinds of small files, in bytes. Each is far above what the largest data sets that
// are published need.
const (
	// Settings are what a person writes: a configuration, a plan.
	Settings = 1 << 20
	// Record says something of one thing: a case, a run, a photograph's annotation.
	Record = 16 << 20
	// List says something of each of many things: the cases of a data set, scores.
	List = 64 << 20
	// Table has the scores of a study: a row for each case, label and run.
	Table = 1 << 30
	// Log gets a line at every step of a run.
	Log = 256 << 20
)

// TooLargeError tells of a file that is larger than any of its kind.
type TooLargeError struct {
	Path  string
	Size  int64 // in bytes, 0 where the file does not say
	Limit int64 // in bytes
}

func (e *TooLargeError) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("%s holds more than %s: name another file", e.Path, mebibytes(e.Limit))
	}
	return fmt.Sprintf("%s holds %s, more than the %s of the largest file of this kind: if it is not what "+
		"its name says, put the right file there",
		e.Path, mebibytes(e.Size), mebibytes(e.Limit))
}

// mebibytes rounds up, so that what is above a limit looks so.
func mebibytes(n int64) string {
	const tenth = (1 << 20) / 10.0
	tenths := int64(float64(n) / tenth)
	if float64(tenths)*tenth < float64(n) {
		tenths++
	}
	if tenths%10 == 0 {
		return fmt.Sprintf("%d MiB", tenths/10)
	}
	return fmt.Sprintf("%d.%d MiB", tenths/10, tenths%10)
}

// Read reads a regular file of at most so many bytes. Where there is none, the error is
// [fs.ErrNotExist]; a larger one is a [TooLargeError]. Nothing else is opened: a pipe that nobody
// writes to would never end.
func Read(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notFile(path, info)
	}
	if info.Size() > limit {
		return nil, &TooLargeError{Path: path, Size: info.Size(), Limit: limit}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path, info.Size(), limit)
}

// ReadGiven is Read of a file that a person named: it may also be a pipe that somebody writes to,
// such as a shell's <(command), or a device, of which no more than a List is read.
func ReadGiven(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) == 0 {
		return Read(path, limit)
	}
	f, err := openStream(path, info)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path, 0, min(limit, List))
}

// read reads to the end, and holds no more than a byte above the limit.
func read(r io.Reader, path string, size, limit int64) ([]byte, error) {
	data := make([]byte, 0, size+512)
	r = io.LimitReader(r, limit+1)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
	if int64(len(data)) > limit {
		return nil, &TooLargeError{Path: path, Limit: limit}
	}
	return data, nil
}

func notFile(path string, info fs.FileInfo) error {
	problem := "is no file but a pipe or a device"
	if info.IsDir() {
		problem = "is a folder, not a file"
	}
	return &fs.PathError{Op: "open", Path: path, Err: errors.New(problem)}
}
