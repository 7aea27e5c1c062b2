package photo

import "github.com/voxsaw/voxsaw/internal/photo/fixed"

//go:generate go run ./asm -pkg photo -out kernels_amd64.s -stubs kernels_amd64.go

// The loops of this file work on any machine, and say what the assembly computes to the bit.

// vertical weighs rows of bytes: dst[x] is the sum of weights[t] src[t*stride+x], with
// [fixed.SampleBits] binary digits.
func vertical(dst []int16, src []byte, stride int, weights []int16) {
	for x := range dst {
		sum := int32(1) << (fixed.VerticalShift - 1)
		at := x
		for _, w := range weights {
			sum += int32(w) * int32(src[at])
			at += stride
		}
		dst[x] = int16(sum >> fixed.VerticalShift)
	}
}

// horizontal weighs neighbours in a row: dst[x] is the sum of weights[x*taps+t] src[starts[x]+t].
func horizontal(dst, src []int16, starts []int32, weights []int16, taps int) {
	for x := range dst {
		w := weights[x*taps : (x+1)*taps]
		from := src[starts[x]:][:len(w)]
		sum := int32(1) << (fixed.HorizontalShift - 1)
		for t, v := range w {
			sum += int32(v) * int32(from[t])
		}
		dst[x] = int16(sum >> fixed.HorizontalShift)
	}
}

// interleave rounds three rows of samples to bytes: dst is a b c a b c and so on.
func interleave(dst []byte, a, b, c []int16) {
	for x := range a {
		dst[3*x], dst[3*x+1], dst[3*x+2] = toByte(int32(a[x])), toByte(int32(b[x])), toByte(int32(c[x]))
	}
}

// colour is interleave for luma and chroma, which it turns into red, green and blue.
func colour(dst []byte, luma, blue, red []int16) {
	for x := range luma {
		y, cb, cr := int32(luma[x]), int32(blue[x])-fixed.Grey, int32(red[x])-fixed.Grey
		dst[3*x] = toByte(saturate(y + cr + product(cr, fixed.RedCr)))
		dst[3*x+1] = toByte(saturate(y - product(cb, fixed.GreenCb) - product(cr, fixed.GreenCr)))
		dst[3*x+2] = toByte(saturate(y + cb + product(cb, fixed.BlueCb)))
	}
}

// product multiplies by a number with 15 binary digits and rounds.
func product(v, factor int32) int32 { return (v*factor + 1<<14) >> 15 }

func saturate(v int32) int32 { return min(max(v, -1<<15), 1<<15-1) }

// toByte rounds a sample.
func toByte(v int32) byte {
	const half = 1 << (fixed.SampleBits - 1)
	return byte(min(max(saturate(v+half)>>fixed.SampleBits, 0), 255))
}
