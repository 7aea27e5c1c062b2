package nifti

import (
	"cmp"
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
	piece = 1 << 20 // a multiple of every voxel's size times [volume.TallyBlock]
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
	most = cmp.Or(most, DefaultMaxBytes)
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

// eachPiece calls take with the voxels of a volume as they lie in the file, from number first on:
// in whole blocks of [volume.TallyBlock] but the last, in any order and on several goroutines. It
// ends with errRange where take returns false.
func eachPiece(h *Header, index int, take func(first int64, src []byte) bool) error {
	c, err := open(h.image)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.gzip {
		return h.eachUnzipped(c, index, take)
	}
	return h.eachRead(c.file, h.offset+h.bytes()*int64(index), take)
}

// truncated is the error of a file that ends after so many bytes of voxels.
func (h *Header) truncated(got int64) error {
	return &volume.FormatError{Path: h.image, Problem: fmt.Sprintf("is truncated: %d of %d bytes of voxels",
		max(got, 0), h.bytes())}
}

// eachRead does what [eachPiece] does with a file that is not compressed, from an offset on.
func (h *Header) eachRead(file io.ReaderAt, offset int64, take func(first int64, src []byte) bool) error {
	total := h.bytes()
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
					return h.truncated(from + int64(n))
				}
				return &volume.FormatError{Path: h.image, Problem: "cannot be read", Err: err}
			}
			if !take(from/int64(h.size), b) {
				return errRange
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
