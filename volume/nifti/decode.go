package nifti

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: voxels from bytes.
//
//   - Bytes are read, or decompressed, in pieces. The core that has a piece in its cache converts
//     it at once. So besides the voxels only a few pieces are in memory.
//   - A header is believed only as far as the file can hold what it says (checked in ReadHeader),
//     and no further than MaxBytes.

const (
	piece = 1 << 20 // a multiple of every voxel's size
	// beyond is how many bytes behind the voxels are decompressed, at most, to get to the checksum
	// of a compressed file.
	beyond = 64 << 20
)

// errRange says that a value does not fit the type of voxel that was asked for.
var errRange = errors.New("value out of range")

// readVoxels reads volume number index of the file, into memory that is given where that is enough.
// errRange means that a value does not fit T: not a whole number or too large for int16, no label
// for uint16.
func readVoxels[T voxel](h *Header, index int, most int64, into []T) ([]T, error) {
	return readConverted(h, index, most, into, converter[T](h))
}

// readConverted is readVoxels with another converter, which may be called for several pieces at
// once.
func readConverted[T voxel](h *Header, index int, most int64, into []T, convert func(dst []T, src []byte) bool) ([]T,
	error) {
	if most == 0 {
		most = DefaultMaxBytes
	}
	var t T
	need := int64(h.Len()) * int64(binary.Size(t))
	if need > most {
		return nil, &volume.UnsupportedError{Path: h.Path,
			Problem: fmt.Sprintf("has %v voxels: %d bytes in memory, the limit is %d", numbers.Extents(h.Shape[:]),
				need, most)}
	}
	if cap(into) < h.Len() {
		if err := memory.Check(need); err != nil {
			return nil, &volume.UnsupportedError{Path: h.Path,
				Problem: fmt.Sprintf("has %v voxels", numbers.Extents(h.Shape[:])), Err: err}
		}
		into = make([]T, h.Len())
	}
	voxels := into[:h.Len()]
	return voxels, eachPiece(h, index, func(first int64, src []byte) bool {
		return convert(voxels[first:first+int64(len(src)/h.size)], src)
	})
}

// eachPiece calls take with whole voxels of a volume as they lie in the file, from number first on,
// in any order and on several goroutines. It ends with errRange where take returns false.
func eachPiece(h *Header, index int, take func(first int64, src []byte) bool) error {
	c, err := open(h.image)
	if err != nil {
		return err
	}
	defer c.Close()
	skip, total := h.offset+h.bytes()*int64(index), h.bytes()
	a := assembly{h: h, take: take, fragments: map[int64]*fragment{}}
	if !c.gzip {
		return a.readParallel(c.file, skip)
	}
	behind := int64(0) // the checksum comes after the last volume
	if index == h.Volumes-1 {
		behind = beyond
	}
	got, err := c.inflate(skip+total, behind,
		func(offset int64, piece []byte) error { return a.put(offset-skip, piece) })
	if err == nil && got < skip+total {
		err = h.truncated(got - skip)
	}
	if err == nil && behind > 0 {
		h.behind.Store(got - skip - total)
	}
	return err
}

// truncated is the error of a file that ends after so many bytes of voxels.
func (h *Header) truncated(got int64) error {
	return &volume.FormatError{Path: h.image, Problem: fmt.Sprintf("is truncated: %d of %d bytes of voxels",
		max(got, 0), h.bytes())}
}

// assembly puts voxels together from pieces of bytes, which come in any order and from several
// goroutines.
type assembly struct {
	h         *Header
	take      func(first int64, src []byte) bool
	mutex     sync.Mutex
	fragments map[int64]*fragment // voxels that lie across the pieces' edges
}

// fragment is a voxel of which only some bytes have come.
type fragment struct {
	bytes [8]byte
	known int // one bit for each
}

// put takes the bytes from an offset on, counted from the first voxel's: those before it and behind
// the last voxel are left out.
func (a *assembly) put(offset int64, piece []byte) error {
	if offset < 0 {
		piece = piece[min(-offset, int64(len(piece))):]
		offset = 0
	}
	piece = piece[:max(min(int64(len(piece)), a.h.bytes()-offset), 0)]
	size := a.h.size
	if first := int(offset % int64(size)); first > 0 && len(piece) > 0 {
		n := min(size-first, len(piece))
		if err := a.patch(offset/int64(size), first, piece[:n]); err != nil {
			return err
		}
		offset, piece = offset+int64(n), piece[n:]
	}
	whole := len(piece) / size
	first := offset / int64(size)
	if whole > 0 && !a.take(first, piece[:whole*size]) {
		return errRange
	}
	if rest := piece[whole*size:]; len(rest) > 0 {
		return a.patch(first+int64(whole), 0, rest)
	}
	return nil
}

// patch adds bytes of one voxel.
func (a *assembly) patch(voxel int64, first int, bytes []byte) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	f := a.fragments[voxel]
	if f == nil {
		f = &fragment{}
		a.fragments[voxel] = f
	}
	copy(f.bytes[first:], bytes)
	f.known |= (1<<len(bytes) - 1) << first
	if f.known == 1<<a.h.size-1 && !a.take(voxel, f.bytes[:a.h.size]) {
		return errRange
	}
	return nil
}

// readParallel reads the voxels of a file that is not compressed, from an offset on.
func (a *assembly) readParallel(file io.ReaderAt, offset int64) error {
	total := a.h.bytes()
	workers := min(int64(runtime.GOMAXPROCS(0)), (total+piece-1)/piece)
	var next atomic.Int64
	work := func() error {
		buffer := buffers.Get().(*[piece]byte)
		defer buffers.Put(buffer)
		for {
			from := next.Add(piece) - piece
			if from >= total {
				return nil
			}
			b := buffer[:min(piece, total-from)]
			if n, err := file.ReadAt(b, offset+from); n < len(b) {
				if errors.Is(err, io.EOF) {
					return a.h.truncated(from + int64(n))
				}
				return &volume.FormatError{Path: a.h.image, Problem: "cannot be read", Err: err}
			}
			if err := a.put(from, b); err != nil {
				return err
			}
		}
	}
	if workers == 1 {
		return work()
	}
	var g errgroup.Group
	for range workers {
		g.Go(work)
	}
	return g.Wait()
}

// buffers are for pieces of files: of a hundred thousand small ones, each would be garbage.
var buffers = sync.Pool{New: func() any { return new([piece]byte) }}
