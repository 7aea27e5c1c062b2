package photo

import "golang.org/x/sys/cpu"

// fast says whether the assembly may run; tests turn it off.
var fast = cpu.X86.HasAVX2

// lanes is how many pixels the widest kernel takes at once: rows are as long as a multiple of it.
const lanes = 16

func weighRows(dst []int16, src []byte, stride int, weights []int16) {
	if !fast || len(dst) < lanes || len(weights)%2 != 0 {
		vertical(dst, src, stride, weights)
		return
	}
	_ = src[(len(weights)-1)*stride+len(dst)-1]
	verticalAVX2(&dst[0], &src[0], stride, len(weights), len(dst), &weights[0])
}

func weighColumns(dst, src []int16, a *axis) {
	if !fast {
		horizontal(dst, src, a.starts, a.weights, a.taps)
		return
	}
	horizontalAVX2(&dst[0], &src[0], &a.starts[0], &a.weights[0], a.taps, len(dst))
}

func toPixels(dst []byte, a, b, c []int16) {
	if !fast {
		interleave(dst, a, b, c)
		return
	}
	_ = dst[3*len(a)-1]
	interleaveAVX2(&dst[0], &a[0], &b[0], &c[0], len(a))
}

func toColours(dst []byte, luma, blue, red []int16) {
	if !fast {
		colour(dst, luma, blue, red)
		return
	}
	_ = dst[3*len(luma)-1]
	colourAVX2(&dst[0], &luma[0], &blue[0], &red[0], len(luma))
}

func toSamples(dst []byte, stride int, b *[64]int32) {
	if !fast {
		inverse(dst, stride, b)
		return
	}
	_ = dst[7*stride+7]
	inverseAVX2(&dst[0], stride, b)
}
