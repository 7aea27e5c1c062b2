package nifti

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	gonii "github.com/okieraised/gonii/pkg/nifti"
	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/volume"
)

// This file: voxels from bytes.
//
//   - Bytes are read, or decompressed, in pieces, which are converted at once by the core that has them in its cache: beside the voxels themselves only a few
//     pieces are in memory.
//   - A header is believed only as far as the file can hold what it says (checked in ReadHeader), and no further than MaxBytes.

const (
	piece = 1 << 20 // a multiple of every voxel's size
	// beyond is how much of what follows the voxels in a compressed file is looked at, to get to its checksum.
	beyond = 64 << 20
)

// errRange says that a value does not fit the type of voxel that was asked for.
var errRange = errors.New("value out of range")

type voxel interface{ int16 | float32 | uint16 }

// readVoxels reads volume number index of the file. errRange means that a value does not fit T: not a whole number or too large for int16, no
// label for uint16.
func readVoxels[T voxel](h *Header, index int, most int64) ([]T, error) {
	if most == 0 {
		most = DefaultMaxBytes
	}
	var t T
	if need := int64(h.Len()) * int64(binary.Size(t)); need > most {
		return nil, &volume.UnsupportedError{Path: h.Path, Problem: fmt.Sprintf("has %v voxels: %d bytes in memory, the limit is %d", h.Shape, need, most)}
	}
	c, err := open(h.image)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	skip, total := h.offset+h.bytes()*int64(index), h.bytes()
	a := assembly[T]{h: h, voxels: make([]T, h.Len()), convert: converter[T](h), fragments: map[int64]*fragment{}}
	if !c.gzip {
		if err := a.readParallel(c.file, skip); err != nil {
			return nil, err
		}
		return a.voxels, nil
	}
	behind := int64(0) // the checksum comes after the last volume
	if index == h.Volumes-1 {
		behind = beyond
	}
	got, err := c.inflate(skip+total, behind, func(offset int64, piece []byte) error { return a.put(offset-skip, piece) })
	if err != nil {
		return nil, err
	}
	if got < skip+total {
		return nil, h.truncated(got - skip)
	}
	return a.voxels, nil
}

// truncated is the error of a file that ends after so many bytes of voxels.
func (h *Header) truncated(got int64) error {
	return &volume.FormatError{Path: h.image, Problem: fmt.Sprintf("is truncated: %d of %d bytes of voxels", max(got, 0), h.bytes())}
}

// assembly puts voxels together from pieces of bytes, which come in any order and from several goroutines.
type assembly[T voxel] struct {
	h         *Header
	voxels    []T
	convert   func(dst []T, src []byte) bool
	mutex     sync.Mutex
	fragments map[int64]*fragment // voxels that lie across the pieces' edges
}

// fragment is a voxel of which some bytes are there.
type fragment struct {
	bytes [8]byte
	known int // one bit for each
}

// put takes the bytes from an offset on, counted from the first voxel's: those before it and behind the last voxel are left out.
func (a *assembly[T]) put(offset int64, piece []byte) error {
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
	if whole > 0 && !a.convert(a.voxels[first:first+int64(whole)], piece[:whole*size]) {
		return errRange
	}
	if rest := piece[whole*size:]; len(rest) > 0 {
		return a.patch(first+int64(whole), 0, rest)
	}
	return nil
}

// patch adds bytes of one voxel.
func (a *assembly[T]) patch(voxel int64, first int, bytes []byte) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	f := a.fragments[voxel]
	if f == nil {
		f = &fragment{}
		a.fragments[voxel] = f
	}
	copy(f.bytes[first:], bytes)
	f.known |= (1<<len(bytes) - 1) << first
	if f.known == 1<<a.h.size-1 && !a.convert(a.voxels[voxel:voxel+1], f.bytes[:a.h.size]) {
		return errRange
	}
	return nil
}

// readParallel reads the voxels of a file that is not compressed, from an offset on.
func (a *assembly[T]) readParallel(file io.ReaderAt, offset int64) error {
	total := a.h.bytes()
	workers := min(int64(runtime.GOMAXPROCS(0)), (total+piece-1)/piece)
	var next atomic.Int64
	var g errgroup.Group
	for range workers {
		g.Go(func() error {
			buffer := make([]byte, min(piece, total))
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
		})
	}
	return g.Wait()
}

// converter returns the function that turns bytes of the file into voxels, scaled. It returns false where a value does not fit.
func converter[T voxel](h *Header) func(dst []T, src []byte) bool {
	o := h.order
	switch h.datatype {
	case gonii.DT_UINT8:
		return scaled[T](h, 1, func(b []byte) uint8 { return b[0] })
	case gonii.DT_INT8:
		return scaled[T](h, 1, func(b []byte) int8 { return int8(b[0]) })
	case gonii.DT_UINT16:
		return scaled[T](h, 2, o.Uint16)
	case gonii.DT_INT16:
		if plain, ok := any(copyInt16(h)).(func([]T, []byte) bool); ok && h.Slope == 1 && h.Intercept == 0 {
			return plain
		}
		return scaled[T](h, 2, func(b []byte) int16 { return int16(o.Uint16(b)) })
	case gonii.DT_UINT32:
		return scaled[T](h, 4, o.Uint32)
	case gonii.DT_INT32:
		return scaled[T](h, 4, func(b []byte) int32 { return int32(o.Uint32(b)) })
	case gonii.DT_UINT64:
		return scaled[T](h, 8, o.Uint64)
	case gonii.DT_INT64:
		return scaled[T](h, 8, func(b []byte) int64 { return int64(o.Uint64(b)) })
	case gonii.DT_FLOAT32:
		return scaled[T](h, 4, func(b []byte) float32 { return math.Float32frombits(o.Uint32(b)) })
	case gonii.DT_FLOAT64:
		return scaled[T](h, 8, func(b []byte) float64 { return math.Float64frombits(o.Uint64(b)) })
	}
	panic("nifti: data type was checked by parse")
}

// copyInt16 is the shortest way for the most common file: int16, not scaled.
func copyInt16(h *Header) func(dst []int16, src []byte) bool {
	if h.order == binary.BigEndian {
		return func(dst []int16, src []byte) bool {
			for n := range dst {
				dst[n] = int16(binary.BigEndian.Uint16(src[2*n:]))
			}
			return true
		}
	}
	return func(dst []int16, src []byte) bool {
		for n := range dst {
			dst[n] = int16(binary.LittleEndian.Uint16(src[2*n:]))
		}
		return true
	}
}

// scaled converts numbers of size bytes that load reads, one by one.
func scaled[T voxel, S uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64](h *Header, size int, load func([]byte) S) func([]T, []byte) bool {
	slope, inter := h.Slope, h.Intercept
	value := func(s S) float64 { return slope*float64(s) + inter }
	if slope == 1 && inter == 0 {
		value = func(s S) float64 { return float64(s) }
	}
	var put func(float64) (T, bool)
	var t T
	switch any(t).(type) {
	case float32:
		put = func(x float64) (T, bool) { return T(x), true }
	case int16:
		put = func(x float64) (T, bool) { return T(x), x >= math.MinInt16 && x <= math.MaxInt16 }
	case uint16:
		put = func(x float64) (T, bool) { l, ok := toLabel(x); return T(l), ok }
	}
	// There are only 256 values: a table is faster than arithmetic.
	if size == 1 {
		var table [256]T
		var ok [256]bool
		for b := range table {
			table[b], ok[b] = put(value(load([]byte{byte(b)})))
		}
		return func(dst []T, src []byte) bool {
			fits := true
			for n := range dst {
				dst[n] = table[src[n]]
				fits = fits && ok[src[n]]
			}
			return fits
		}
	}
	return func(dst []T, src []byte) bool {
		fits := true
		for n := range dst {
			x, ok := put(value(load(src[n*size : n*size+size])))
			dst[n] = x
			fits = fits && ok
		}
		return fits
	}
}
