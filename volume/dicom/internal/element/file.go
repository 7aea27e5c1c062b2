package element

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// ErrNotDICOM says that a file is something else.
var ErrNotDICOM = errors.New("is not a DICOM file")

// File is a DICOM file that is open for reading at random. Of a deflated file, offsets and the size
// are those of the inflated data set.
type File struct {
	io.ReaderAt
	Size   int64
	Syntax Syntax
	Start  int64  // of the data set's elements
	Class  string // MediaStorageSOPClassUID; "" where the file has no meta information
	Magic  bool   // the file has DICOM's magic word
	file   *os.File
	head   *window // the first elements, while begin looks at them
}

// Open opens a file, inflated if it is deflated, and finds the data set in it. The error is
// [ErrNotDICOM] if there is none.
func Open(path string) (*File, error) {
	file, err := folders.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	f := &File{ReaderAt: file, Size: info.Size(), file: file}
	if err = f.begin(); err == nil && f.Syntax.Deflated {
		err = f.inflate(f.Start)
		f.Start = 0
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// Reopen opens a file again whose data set is known to have no other encoding than the given one,
// and size bytes.
func Reopen(path string, s Syntax, size int64) (*File, error) {
	if s.Deflated {
		return Open(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &File{ReaderAt: file, Size: size, Syntax: s, file: file}, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Walker returns a walker over the data set, whose elements begin at f.Start.
func (f *File) Walker() *Walker { return NewWalker(f, f.Size, f.Syntax.Order, f.Syntax.Implicit) }

// blocks are for the beginnings of files: of a hundred thousand that are no DICOM, each would be
// garbage.
var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// begin reads the meta information, where there is some, and finds out the transfer syntax.
func (f *File) begin() error {
	offset := int64(0)
	block := blocks.Get().(*[blockSize]byte)
	f.head = &window{from: f, size: f.Size, block: block[:0]}
	defer func() {
		f.head = nil
		blocks.Put(block)
	}()
	b, err := f.head.At(0, int(min(132, f.Size)))
	if err != nil {
		return err
	}
	if f.Magic = len(b) == 132 && string(b[128:]) == "DICM"; f.Magic {
		offset = 132
	}
	uid, offset, err := f.readMeta(offset)
	if err != nil {
		return err
	}
	f.Start = offset
	if uid == "" {
		return f.guessSyntax()
	}
	f.Syntax = lookup(uid)
	if f.Syntax.Deflated {
		return nil
	}
	first, err := f.firstElement()
	if err != nil {
		return err
	}
	// Some writers compress pixels and leave the elements implicit, others say that elements are
	// implicit and give their VRs.
	if f.Syntax.Order == binary.LittleEndian {
		f.Syntax.Implicit = !capitals(string(first[4:6]))
	}
	return nil
}

// firstElement returns the first bytes of the data set.
func (f *File) firstElement() ([]byte, error) {
	first, err := f.head.At(f.Start, 8)
	switch {
	case err == nil:
		return first, nil
	case f.Magic:
		return nil, ErrTruncated
	}
	return nil, ErrNotDICOM
}

// readMeta reads the file meta information (group 2) at an offset, and returns the transfer syntax
// that it tells and the offset behind it. It should be explicit little endian; some writers encode
// it in another way. Its length is not asked: some files have none, others a wrong one.
func (f *File) readMeta(offset int64) (uid string, end int64, err error) {
	w := &Walker{window: f.head, Order: binary.LittleEndian}
	first, err := w.At(offset, 8)
	if err != nil {
		return "", offset, nil // what is there is told by whoever looks for the data set
	}
	if binary.BigEndian.Uint16(first) == tag.TransferSyntaxUID.Group() {
		w.Order = binary.BigEndian
	}
	w.Implicit = !capitals(string(first[4:6]))
	for {
		e, err := w.Header(offset)
		if err != nil || e.Tag.Group() != tag.TransferSyntaxUID.Group() {
			return uid, offset, nil
		}
		if (e.Tag == tag.TransferSyntaxUID || e.Tag == tag.MediaStorageSOPClassUID) && e.Length <= 64 {
			b, err := w.At(e.Value, int(e.Length))
			if err != nil {
				return "", 0, err
			}
			text := strings.TrimRight(string(b), " \x00")
			if e.Tag == tag.TransferSyntaxUID {
				uid = text
			} else {
				f.Class = text
			}
		}
		if offset, err = w.end(e, 0); err != nil {
			return "", 0, err
		}
	}
}

// guessSyntax finds out the transfer syntax of a file that does not tell it: the first element must
// be of group 2 to 16, unless the file has DICOM's magic word, in one of the three ways to write
// one.
func (f *File) guessSyntax() error {
	b, err := f.firstElement()
	if err != nil {
		return err
	}
	explicit := capitals(string(b[4:6]))
	plausible := func(order binary.ByteOrder) bool {
		group := order.Uint16(b)
		return f.Magic || group >= 2 && group <= 0x10 && group%2 == 0
	}
	switch {
	case plausible(binary.LittleEndian) && explicit && binary.LittleEndian.Uint16(b) <= binary.BigEndian.Uint16(b):
		f.Syntax = lookup(ExplicitLittle)
	case plausible(binary.BigEndian) && explicit:
		f.Syntax = lookup(ExplicitBig)
	case plausible(binary.LittleEndian) && (f.Magic || int64(binary.LittleEndian.Uint32(b[4:])) <= f.Size):
		f.Syntax = lookup(ImplicitLittle)
	default:
		return ErrNotDICOM
	}
	return nil
}

// InFile names the file in an error, and makes it one of the two kinds of package volume unless it
// is the file system's.
func InFile(path string, err error) error {
	var system *os.PathError
	var format *volume.FormatError
	var unsupported *volume.UnsupportedError
	switch {
	case err == nil || errors.As(err, &system) || errors.As(err, &format) || errors.As(err, &unsupported):
		return err
	case errors.Is(err, ErrTruncated):
		return &volume.FormatError{Path: path, Problem: "is truncated: it " + ErrTruncated.Error()}
	}
	return &volume.FormatError{Path: path, Problem: "cannot be read", Err: err}
}
