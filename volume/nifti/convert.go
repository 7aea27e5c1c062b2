package nifti

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	gonii "github.com/okieraised/gonii/pkg/nifti"

	"github.com/voxsaw/voxsaw/volume"
)

// voxel is what there is in memory: scans are int16 or float32, labels uint16.
type voxel interface{ int16 | float32 | uint16 }

// integer is whole numbers in a file.
type integer interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64
}

// stored is what there is in a file.
type stored interface{ integer | float32 | float64 }

// converter returns the function that turns bytes of the file into voxels, scaled. It returns false
// where a value does not fit.
func converter[T voxel](h *Header) func(dst []T, src []byte) bool {
	switch h.datatype {
	case gonii.DT_UINT8:
		return converterOf(h, whole[T, uint8])
	case gonii.DT_INT8:
		return converterOf(h, whole[T, int8])
	case gonii.DT_UINT16:
		return converterOf(h, whole[T, uint16])
	case gonii.DT_INT16:
		return converterOf(h, whole[T, int16])
	case gonii.DT_UINT32:
		return converterOf(h, whole[T, uint32])
	case gonii.DT_INT32:
		return converterOf(h, whole[T, int32])
	case gonii.DT_UINT64:
		return converterOf(h, whole[T, uint64])
	case gonii.DT_INT64:
		return converterOf(h, whole[T, int64])
	case gonii.DT_FLOAT32:
		return converterOf(h, fractions[T, float32])
	case gonii.DT_FLOAT64:
		return converterOf(h, fractions[T, float64])
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

// converterOf is converter for one type of file. Plain converts numbers that are not scaled.
func converterOf[T voxel, S stored](h *Header, plain func(dst []T, src []S) bool) func(dst []T, src []byte) bool {
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
	convert := plain
	if scaled {
		convert = func(dst []T, src []S) bool { return rescale(dst, src, slope, inter) }
	}
	size := int(unsafe.Sizeof(s))
	if size == 1 {
		return func(dst []T, src []byte) bool {
			return convert(dst, unsafe.Slice((*S)(unsafe.Pointer(unsafe.SliceData(src))), len(dst)))
		}
	}
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

// rescale converts numbers that are scaled.
func rescale[T voxel, S stored](dst []T, src []S, slope, inter float64) bool {
	if values, float := any(dst).([]float32); float {
		values = values[:len(src)]
		for n, x := range src {
			values[n] = float32(slope*float64(x) + inter)
		}
		return true
	}
	fits := true
	for n, x := range src {
		y, ok := fit[T](slope*float64(x) + inter)
		dst[n] = y
		fits = fits && ok
	}
	return fits
}

// whole converts whole numbers that are not scaled.
func whole[T voxel, S integer](dst []T, src []S) bool {
	dst = dst[:len(src)]
	if always[T, S]() {
		for n, x := range src {
			dst[n] = T(x)
		}
		return true
	}
	misses := S(0)    // bits in which a number that was converted differs from itself
	negative := false // the numbers of a side that are below 0, and those of the other are not
	for n, x := range src {
		y := T(x)
		dst[n] = y
		misses |= S(y) ^ x
		negative = negative || (y < 0) != (x < 0)
	}
	return misses == 0 && !negative
}

// always reports whether all numbers of a type fit a type of voxel.
func always[T voxel, S integer]() bool {
	var t T
	var s S
	if _, float := any(t).(float32); float {
		return true
	}
	below := func(x S) bool { return x < 0 }
	signedS, signedT := below(^S(0)), T(0)-1 < 0
	switch {
	case signedS && !signedT:
		return false
	case !signedS && signedT:
		return unsafe.Sizeof(s) < unsafe.Sizeof(t)
	}
	return unsafe.Sizeof(s) <= unsafe.Sizeof(t)
}

// fractions converts numbers that need not be whole, and are not scaled.
func fractions[T voxel, S float32 | float64](dst []T, src []S) bool {
	var t T
	if _, float := any(t).(float32); float {
		for n, x := range src {
			dst[n] = T(x)
		}
		return true
	}
	fits := true // labels, but for a rounding
	for n, x := range src {
		y, ok := fit[T](float64(x))
		dst[n] = y
		fits = fits && ok
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
		l, ok := volume.ToLabel(x)
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
