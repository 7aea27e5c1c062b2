package element

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	maxInflated = 1 << 31 // bytes of a deflated file
	// HeldInflated is how many bytes of an inflated data set are held in memory: more than a slice
	// has. Larger ones are inflated again where they are read.
	HeldInflated = 1 << 24
)

// inflate replaces the data by what is deflated behind offset. A file of a few bytes may inflate to
// gigabytes: so it is counted first, and only small data sets are held in memory.
func (f *File) inflate(offset int64) error {
	i := &inflater{section: io.NewSectionReader(f.ReaderAt, offset, f.Size-offset)}
	i.stream = flate.NewReader(i.section)
	n, err := io.Copy(io.Discard, io.LimitReader(i.stream, maxInflated+1))
	i.next = n
	switch {
	case err != nil:
		return fmt.Errorf("cannot be inflated: %w", err)
	case n > maxInflated:
		return fmt.Errorf("inflates to more than %d bytes", maxInflated)
	}
	f.ReaderAt, f.Size = i, n
	if n <= HeldInflated {
		return f.hold(0, n)
	}
	return nil
}

// HoldPart reads a part of a large inflated data set into memory, because many will read it at
// random. Outside of the part there is nothing then. Other files stay as they are.
func (f *File) HoldPart(offset, n int64) error {
	if _, large := f.ReaderAt.(*inflater); !large {
		return nil
	}
	return f.hold(offset, n)
}

func (f *File) hold(offset, n int64) error {
	part := make([]byte, n)
	if _, err := f.ReadAt(part, offset); err != nil {
		return err
	}
	f.ReaderAt = &held{part, offset}
	return nil
}

// inflater reads deflated data at random and holds nothing of it. It inflates what lies before an
// offset, from the beginning where it is past that already. So readers that go forward inflate
// once.
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

// held is a part of some data.
type held struct {
	part []byte
	from int64
}

// ReadAt implements [io.ReaderAt].
func (h *held) ReadAt(b []byte, offset int64) (int, error) {
	if offset < h.from {
		return 0, io.ErrUnexpectedEOF
	}
	return bytes.NewReader(h.part).ReadAt(b, offset-h.from)
}
