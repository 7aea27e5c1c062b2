package nifti

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	gonii "github.com/okieraised/gonii/pkg/nifti"
)

// voxel is what there is in memory: scans are int16 or float32, labels uint16.
type voxel interface{ int16 | float32 | uint16 }

// stored is what there is in a file.
type stored interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// converter returns the function that turns bytes of the file into voxels, scaled. It returns false
// where a value does not fit.
func converter[T voxel](h *Header) func(dst []T, src []byte) bool {
	switch h.datatype {
	case gonii.DT_UINT8:
		return converterOf[T, uint8](h)
	case gonii.DT_INT8:
		return converterOf[T, int8](h)
	case gonii.DT_UINT16:
		return converterOf[T, uint16](h)
	case gonii.DT_INT16:
		return converterOf[T, int16](h)
	case gonii.DT_UINT32:
		return converterOf[T, uint32](h)
	case gonii.DT_INT32:
		return converterOf[T, int32](h)
	case gonii.DT_UINT64:
		return converterOf[T, uint64](h)
	case gonii.DT_INT64:
		return converterOf[T, int64](h)
	case gonii.DT_FLOAT32:
		return converterOf[T, float32](h)
	case gonii.DT_FLOAT64:
		return converterOf[T, float64](h)
	}
	panic("nifti: data type was checked by parse")
}

// nativeOrder is the byte order of this machine.
var nativeOrder = func() byteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}()

// converterOf is converter for one type of file.
func converterOf[T voxel, S stored](h *Header) func(dst []T, src []byte) bool {
	slope, inter, swap := h.Slope, h.Intercept, h.order != nativeOrder
	scaled := slope != 1 || inter != 0
	var t T
	var s S
	if _, same := any(t).(S); same && !scaled {
		return func(dst []T, src []byte) bool {
			copy(bytesOf(dst), src)
			if swap {
				swapBytes(dst)
			}
			return true
		}
	}
	convert := plain[T, S]
	if scaled {
		convert = func(dst []T, src []S) bool {
			fits := true
			for n, x := range src {
				y, ok := fit[T](slope*float64(x) + inter)
				dst[n] = y
				fits = fits && ok
			}
			return fits
		}
	}
	size := int(unsafe.Sizeof(s))
	return func(dst []T, src []byte) bool {
		// Through a buffer that is aligned and can be written to, a few at a time.
		var buffer [512]S
		for len(dst) > 0 {
			part := buffer[:min(len(dst), len(buffer))]
			copy(bytesOf(part), src)
			if swap {
				swapBytes(part)
			}
			if !convert(dst[:len(part)], part) {
				return false
			}
			dst, src = dst[len(part):], src[len(part)*size:]
		}
		return true
	}
}

// plain converts numbers that are not scaled.
func plain[T voxel, S stored](dst []T, src []S) bool {
	var t T
	if _, ok := any(t).(float32); ok {
		for n, x := range src {
			dst[n] = T(x)
		}
		return true
	}
	fits := true
	if S(1)/2 != 0 { // floats: labels, but for a rounding
		for n, x := range src {
			y, ok := fit[T](float64(x))
			dst[n] = y
			fits = fits && ok
		}
		return fits
	}
	for n, x := range src {
		y := T(x)
		dst[n] = y
		fits = fits && S(y) == x && (y < 0) == (x < 0)
	}
	return fits
}

// fit returns a value as a voxel, and whether it is one: any float32, a number that fits int16, a
// label.
func fit[T voxel](x float64) (T, bool) {
	var t T
	switch any(t).(type) {
	case float32:
		return T(x), true
	case int16:
		if !(x >= math.MinInt16 && x <= math.MaxInt16) {
			return 0, false
		}
		return T(x), true
	default:
		l, ok := toLabel(x)
		return T(l), ok
	}
}

// bytesOf is the memory of numbers.
func bytesOf[S stored](numbers []S) []byte {
	var s S
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)*int(unsafe.Sizeof(s)))
}

// swapBytes turns numbers of the other byte order around.
func swapBytes[S stored](numbers []S) {
	var s S
	b := bytesOf(numbers)
	switch unsafe.Sizeof(s) {
	case 2:
		for ; len(b) >= 8; b = b[8:] {
			x := binary.NativeEndian.Uint64(b)
			binary.NativeEndian.PutUint64(b, x>>8&0x00ff00ff00ff00ff|x&0x00ff00ff00ff00ff<<8)
		}
		for ; len(b) >= 2; b = b[2:] {
			b[0], b[1] = b[1], b[0]
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			binary.NativeEndian.PutUint32(b, bits.ReverseBytes32(binary.NativeEndian.Uint32(b)))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			binary.NativeEndian.PutUint64(b, bits.ReverseBytes64(binary.NativeEndian.Uint64(b)))
		}
	}
}
