package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// TestExchange: weights turned round lie as an upload of such weights does, whatever the channels.
func TestExchange(t *testing.T) {
	for _, s := range []device.Shape{{16, 16, 1, 2, 2}, {33, 18, 3, 1, 1}, {2, 32, 1, 1, 1}, {1, 20, 2, 1, 1},
		{20, 1, 5, 1, 1}} {
		w := normals(rand.New(rand.NewPCG(1, 1)), s.Elements(), 1)
		from := weightsOf(s)
		to := from.swapped()
		turned := make([]float32, len(w))
		for o := range from.out {
			for i := range from.in {
				taps := turned[(i*from.out+o)*from.taps:][:from.taps]
				copy(taps, w[(o*from.in+i)*from.taps:])
				slices.Reverse(taps)
			}
		}
		for _, ks := range availableKernels() {
			c := newTestCPU(t, Options{Threads: 2}, ks)
			upload := func(s device.Shape, v []float32) Slice {
				b := noise(weightElements(s))
				if err := c.UploadWeights(b, s, 0, v); err != nil {
					t.Fatal(err)
				}
				return b
			}
			src, want := upload(s, w), upload(device.Shape{s[1], s[0], s[2], s[3], s[4]}, turned)
			got := noise(len(want))
			for ob := range to.outBlocks() {
				for ib := range to.inBlocks() {
					ks.exchange(to.pair(got, ob, ib), from.pair(src, ib, ob), from.taps, from.inputs(ob), to.inputs(ib))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v: weights turned round differ", ks.name, []int(s))
			}
		}
	}
}
