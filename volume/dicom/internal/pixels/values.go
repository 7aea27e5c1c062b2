package pixels

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Values turns a frame into slope * stored + intercept, upside down: the last row comes first. It
// returns false where a value does not fit T. Buffer has room for a row.
func Values[T int16 | float32](f Frame, slope, intercept float64, buffer []uint32, out []T) bool {
	im := f.im
	var t T
	_, small := any(t).(int16)
	top := uint32(1) << (f.bits - 1)
	// the sign bit, for signed samples: flipped and taken away again, it spreads upwards
	flip := uint32(0)
	if im.Signed {
		flip = top
	}
	mask := top | (top - 1)
	add := int32(0)
	quick := small && f.bits <= 16 && slope == 1 && math.Abs(intercept) < 1<<20
	if quick {
		add = int32(intercept) - int32(flip)
	}
	for row := range im.Rows {
		src := f.Row(row, buffer)
		dst := out[(im.Rows-1-row)*im.Columns:][:len(src)]
		if quick {
			beyond := int32(0)
			for n, s := range src {
				x := int32(s&mask^flip) + add
				beyond |= x - int32(int16(x))
				dst[n] = T(x)
			}
			if beyond != 0 {
				return false
			}
			continue
		}
		for n, s := range src {
			x := slope*(float64(s&mask^flip)-float64(flip)) + intercept
			if small && !(x >= math.MinInt16 && x <= math.MaxInt16) {
				return false
			}
			dst[n] = T(x)
		}
	}
	return true
}

// Doubt says where the header and the samples contradict each other, and what was made of it, or
// "". Buffer has room for a row.
func (f *Frame) Doubt(buffer []uint32) string {
	im := f.im
	switch {
	case f.spills(buffer):
		return fmt.Sprintf("has pixels of more than the %d bits that it claims (BitsStored): what is above them, an "+
			"overlay or a part of the value, is left out", im.Stored)
	case im.Signed && f.bits < im.Stored &&
		slices.ContainsFunc(f.Decoded, func(s uint32) bool { return s>>(f.bits-1) == 1 }):
		return fmt.Sprintf("is compressed with %d bits, unsigned, and claims %d, signed: values of "+
			"more than %d are taken for negative ones", f.bits, im.Stored, uint32(1)<<(f.bits-1)-1)
	}
	return ""
}

// spills reports whether samples have more than their bits: above the highest one there is
// something that is neither 0 nor their sign. Buffer has room for a row.
func (f *Frame) spills(buffer []uint32) bool {
	im := f.im
	// the word's bits, without those below, which are gone, and the sample's
	above := uint32(1)<<(im.Allocated-im.High-1+im.Stored) - uint32(1)<<f.bits
	if f.clear(above) {
		return false
	}
	sign := uint32(0)
	if im.Signed {
		sign = 1 << (f.bits - 1)
	}
	for row := range im.Rows {
		for _, s := range f.Row(row, buffer) {
			if a := s & above; a != 0 && (a != above || s&sign == 0) {
				return true
			}
		}
	}
	return false
}

// clear reports whether no sample has one of the bits above its own: those of the words of an
// uncompressed frame, or as many in what a codec made of it.
func (f *Frame) clear(above uint32) bool {
	im := f.im
	if above == 0 {
		return true
	}
	if f.raw == nil {
		seen := uint32(0)
		for _, s := range f.Decoded {
			seen |= s
		}
		return seen&above == 0
	}
	// Eight bytes at a time, whatever their order: that counts at the end only.
	var seen uint64
	raw := f.raw[:im.FrameBytes()]
	for ; len(raw) >= 8; raw = raw[8:] {
		seen |= binary.LittleEndian.Uint64(raw)
	}
	var last [8]byte
	copy(last[:], raw)
	seen |= binary.LittleEndian.Uint64(last[:])
	binary.LittleEndian.PutUint64(last[:], seen)
	wanted := uint64(above) << (im.High + 1 - im.Stored)
	for width := im.Allocated; width < 64; width *= 2 {
		wanted |= wanted << width
	}
	return im.Syntax.Order.Uint64(last[:])&wanted == 0
}
