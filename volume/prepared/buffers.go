package prepared

import (
	"bufio"
	"io"
	"sync"
)

// This file: memory for files on their way, which is used again. Of a hundred thousand small cases
// each buffer would be garbage.

const bufferSize = 1 << 18

var (
	buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, bufferSize) }}
)

// copyAll copies what is left of a file.
func copyAll(to io.Writer, from io.Reader) error {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	onlyReader := struct{ io.Reader }{from} // otherwise a file is not read through the buffer
	_, err := io.CopyBuffer(to, onlyReader, buffer[:])
	return err
}

// buffered lets f write through a buffer.
func buffered(to io.Writer, f func(io.Writer) error) error {
	b := writers.Get().(*bufio.Writer)
	b.Reset(to)
	defer func() {
		b.Reset(nil)
		writers.Put(b)
	}()
	if err := f(b); err != nil {
		return err
	}
	return b.Flush()
}
