//go:build unix

package smallfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// patience is how long a named pipe is waited for: its writer may begin a little after its reader.
var patience = 5 * time.Second

// openStream opens a pipe or a device. One without a writer is an error soon, and nobody is waited
// for for ever.
func openStream(path string, info fs.FileInfo) (io.ReadCloser, error) {
	if info.Mode()&fs.ModeNamedPipe == 0 {
		return os.Open(path)
	}
	// without waiting for a writer, as a plain open would
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &pipe{File: f, until: time.Now().Add(patience)}, nil
}

// A pipe is at its end where nobody has it open for writing: before its writer has come, too.
type pipe struct {
	*os.File
	until time.Time
	begun bool
}

func (p *pipe) Read(b []byte) (int, error) {
	for {
		n, err := p.File.Read(b)
		p.begun = p.begun || n > 0
		if p.begun || !errors.Is(err, io.EOF) {
			return n, err
		}
		if time.Now().After(p.until) {
			return 0, &fs.PathError{Op: "read", Path: p.Name(), Err: errors.New("is a pipe that nobody writes to")}
		}
		time.Sleep(10 * time.Millisecond)
	}
}
