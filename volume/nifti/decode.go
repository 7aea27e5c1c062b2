package nifti

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	gonii "github.com/okieraised/gonii/pkg/nifti"
	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/volume"
)

// This file: voxels from bytes.
//
//   - Bytes are read in pieces of piece bytes: beside the voxels themselves only a few pieces are in memory. Of a compressed file one piece is converted while the
//     next is being inflated; of any other, each core reads pieces of its own.
//   - A header is believed only as far as the file can hold what it says (checked in ReadHeader), and no further than MaxBytes.

const piece = 1 << 20 // a multiple of every voxel's size

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
	c, err := open(h.image, piece)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	skip, total := h.offset+h.bytes()*int64(index), h.bytes()
	convert := converter[T](h)
	truncated := func(got int64, err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return &volume.FormatError{Path: h.image, Problem: fmt.Sprintf("is truncated: %d of %d bytes of voxels", got, total)}
		}
		return &volume.FormatError{Path: h.image, Problem: fmt.Sprintf("cannot be read beyond %d of %d bytes of voxels", got, total), Err: err}
	}
	if !c.gzip {
		return readParallel(h, c.file, skip, convert, truncated)
	}
	if n, err := io.CopyN(io.Discard, c, skip); err != nil {
		return nil, truncated(n-skip, err)
	}

	// One goroutine reads, this one converts. Buffers go round.
	type read struct {
		bytes []byte
		err   error
	}
	full, empty := make(chan read, 4), make(chan []byte, 4)
	for range cap(empty) {
		empty <- make([]byte, min(piece, total))
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	defer func() { close(stop); <-done }() // the file is closed after the reader is gone
	go func() {
		defer close(done)
		for left := total; left > 0; {
			var b []byte
			select {
			case b = <-empty:
			case <-stop:
				return
			}
			b = b[:min(int64(cap(b)), left)]
			n, err := io.ReadFull(c, b)
			full <- read{b[:n], err} // never blocks: there are no more buffers than places
			if err != nil {
				return
			}
			left -= int64(n)
		}
		if index == h.Volumes-1 {
			// The checksum comes after the last byte. Anything else behind the voxels is none of our business.
			if _, err := io.CopyN(io.Discard, c, piece); errors.Is(err, gzip.ErrChecksum) {
				full <- read{nil, err}
				return
			}
		}
		full <- read{}
	}()
	var voxels []T
	var got int64
	for {
		r := <-full
		if r.err != nil {
			return nil, truncated(got+int64(len(r.bytes)), r.err)
		}
		if got == total {
			return voxels, nil
		}
		if voxels == nil {
			voxels = make([]T, h.Len())
		}
		first := got / int64(h.size)
		if !convert(voxels[first:first+int64(len(r.bytes)/h.size)], r.bytes) {
			return nil, errRange
		}
		got += int64(len(r.bytes))
		empty <- r.bytes
	}
}

// readParallel reads the voxels of a file that is not compressed, from an offset on.
func readParallel[T voxel](h *Header, file *os.File, offset int64, convert func([]T, []byte) bool, truncated func(int64, error) error) ([]T, error) {
	voxels := make([]T, h.Len())
	total := h.bytes()
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
				if n, err := file.ReadAt(b, offset+from); err != nil && n < len(b) {
					return truncated(from+int64(n), err)
				}
				if size := int64(h.size); !convert(voxels[from/size:(from+int64(len(b)))/size], b) {
					return errRange
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return voxels, nil
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
