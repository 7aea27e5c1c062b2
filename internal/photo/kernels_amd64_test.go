package photo

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/voxsaw/voxsaw/internal/asmtest"
)

// The assembly is what its generator makes.
func TestAssemblyIsGenerated(t *testing.T) {
	asmtest.Generated(t, "./asm", "photo", "kernels_amd64.s", "kernels_amd64.go")
}

// Every kernel gives the bits of its namesake, for lengths around the width of a register and for
// numbers at the ends of their ranges.
func TestKernelsAgree(t *testing.T) {
	if !fast {
		t.Skip("this machine has no AVX2")
	}
	defer func() { fast = true }()
	both := func(f func()) { // with the assembly last
		fast = false
		f()
		fast = true
	}
	next := uint32(1)
	random := func(n uint32) int { next = next*1664525 + 1013904223; return int((next >> 8) % n) }
	for n := 16; n < 70; n++ {
		for _, taps := range []int{2, 4, 6} {
			const stride = 80
			src := make([]byte, stride*taps)
			for i := range src {
				src[i] = []byte{0, 255, byte(random(256))}[random(3)]
			}
			weights := make([]int16, taps)
			quantise(weights, []float64{0.7, 0.3, 0, 0, 0, 0}[:taps])
			want, got := make([]int16, n), make([]int16, n)
			both(func() { weighRows(want, src, stride, weights) })
			weighRows(got, src, stride, weights)
			if string(asBytes(got)) != string(asBytes(want)) {
				t.Fatalf("rows of %d, %d taps: %v, want %v", n, taps, got, want)
			}
		}
		a := resampling{samples: n, spread: 1, from: n, to: 37, n: 37}.axis(8, lanes, true)
		src := make([]int16, n+a.taps)
		for i := range src {
			src[i] = []int16{0, 255 << 7, int16(random(255 << 7))}[random(3)]
		}
		want, got := make([]int16, 48), make([]int16, 48)
		both(func() { weighColumns(want, src, a) })
		weighColumns(got, src, a)
		if string(asBytes(got)) != string(asBytes(want)) {
			t.Fatalf("columns of %d: %v, want %v", n, got, want)
		}
	}
	var channels [3][]int16
	for c := range channels {
		for range 4096 {
			channels[c] = append(channels[c], []int16{0, 255 << 7, 128 << 7, int16(random(255 << 7))}[random(4)])
		}
	}
	for name, kernel := range map[string]func(dst []byte, a, b, c []int16){"pixels": toPixels, "colours": toColours} {
		want, got := make([]byte, 3*4096), make([]byte, 3*4096)
		both(func() { kernel(want, channels[0], channels[1], channels[2]) })
		kernel(got, channels[0], channels[1], channels[2])
		if !bytes.Equal(got, want) {
			t.Errorf("%s differ", name)
		}
	}
}

// The transform of blocks, sparse and full, sensible and absurd.
func TestInverseAgrees(t *testing.T) {
	if !fast {
		t.Skip("this machine has no AVX2")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 3000 {
		var b [64]int32
		for range 1 + n%64 {
			limit := int32([]int{20, 300, 4000, math.MaxInt32}[n%4])
			b[r.IntN(64)] = r.Int32N(limit) - r.Int32N(limit)
		}
		copied := b
		const stride = 13
		var want, got [8 * stride]byte
		inverse(want[:], stride, &copied)
		toSamples(got[:], stride, &b)
		if got != want {
			t.Fatalf("block %d, %v:\n%v, want\n%v", n, b, got, want)
		}
		// a block of one colour has a way of its own
		var one [64]int32
		one[0] = b[0]
		flat(got[:], stride, b[0])
		toSamples(want[:], stride, &one)
		if got != want {
			t.Fatalf("all of %d: %v, want %v", b[0], got, want)
		}
	}
}

func asBytes(values []int16) (b []byte) {
	for _, v := range values {
		b = append(b, byte(v), byte(v>>8))
	}
	return b
}
