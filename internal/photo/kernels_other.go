//go:build !amd64

package photo

// fast says whether there is assembly.
var fast = false

const lanes = 16

func weighRows(dst []int16, src []byte, stride int, weights []int16) {
	vertical(dst, src, stride, weights)
}

func weighColumns(dst, src []int16, a *axis) { horizontal(dst, src, a.starts, a.weights, a.taps) }

func toPixels(dst []byte, a, b, c []int16) { interleave(dst, a, b, c) }

func toColours(dst []byte, luma, blue, red []int16) { colour(dst, luma, blue, red) }

func toSamples(dst []byte, stride int, b *[64]int32) { inverse(dst, stride, b) }
