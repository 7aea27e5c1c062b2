package dicom

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	maxInflated = 1 << 31 // bytes of a deflated file
	// of them that are held: more than a slice has; what is larger is inflated again where it is
	// read
	heldInflated = 1 << 24
)

// inflate replaces the data by what is deflated behind offset. A file of a few bytes may inflate to
// gigabytes: so it is counted first, and only small data sets are held in memory.
func (d *data) inflate(offset int64) error {
	i := &inflater{section: io.NewSectionReader(d.ReaderAt, offset, d.size-offset)}
	i.stream = flate.NewReader(i.section)
	n, err := io.Copy(io.Discard, io.LimitReader(i.stream, maxInflated+1))
	i.next = n
	switch {
	case err != nil:
		return fmt.Errorf("cannot be inflated: %w", err)
	case n > maxInflated:
		return fmt.Errorf("inflates to more than %d bytes", maxInflated)
	}
	d.ReaderAt, d.size = i, n
	if n <= heldInflated {
		return d.hold(0, n)
	}
	return nil
}

// inflater reads deflated data at random, and holds nothing of it: it inflates what lies before,
// from the beginning if it is past that already. Readers that go forward inflate once.
type inflater struct {
	section *io.SectionReader
	lock    sync.Mutex
	stream  io.ReadCloser
	next    int64 // byte of the inflated data that stream gives next
}

// ReadAt implements [io.ReaderAt].
func (i *inflater) ReadAt(b []byte, offset int64) (int, error) {
	i.lock.Lock()
	defer i.lock.Unlock()
	if offset < i.next {
		if _, err := i.section.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		if err := i.stream.(flate.Resetter).Reset(i.section, nil); err != nil {
			return 0, err
		}
		i.next = 0
	}
	skipped, err := io.CopyN(io.Discard, i.stream, offset-i.next)
	i.next += skipped
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(i.stream, b)
	i.next += int64(n)
	return n, err
}

// hold reads a part of the data into memory: what is read at random by many.
func (d *data) hold(offset, n int64) error {
	part := make([]byte, n)
	if _, err := d.ReadAt(part, offset); err != nil {
		return err
	}
	d.ReaderAt = &held{part, offset}
	return nil
}

// held is a part of some data.
type held struct {
	part []byte
	from int64
}

// ReadAt implements [io.ReaderAt]. Outside of the part there is nothing.
func (h *held) ReadAt(b []byte, offset int64) (int, error) {
	if offset < h.from {
		return 0, io.ErrUnexpectedEOF
	}
	return bytes.NewReader(h.part).ReadAt(b, offset-h.from)
}
