package cpu

import (
	"fmt"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The layers of a VNet with 16 base channels on a crop of 96^3 and on 27 patches of 32^3, and of one with 8 on the patches.
var benchLayers = []device.ConvSpec{
	cube(1, 1, 16, 96, 5, 1, 2), cube(1, 32, 32, 96, 5, 1, 2), cube(1, 64, 64, 48, 5, 1, 2), cube(1, 128, 128, 24, 5, 1, 2), cube(1, 256, 256, 12, 5, 1, 2), cube(1, 256, 256, 6, 5, 1, 2),
	cube(1, 16, 32, 96, 2, 2, 0), cube(1, 64, 128, 24, 2, 2, 0), cube(1, 32, 2, 96, 1, 1, 0),
	cube(27, 1, 16, 32, 5, 1, 2), cube(27, 32, 32, 16, 5, 1, 2), cube(27, 64, 64, 8, 5, 1, 2), cube(27, 128, 128, 4, 5, 1, 2), cube(27, 256, 256, 2, 5, 1, 2),
	cube(27, 16, 32, 32, 2, 2, 0), cube(27, 128, 256, 4, 2, 2, 0),
	cube(27, 1, 8, 32, 5, 1, 2), cube(27, 16, 16, 16, 5, 1, 2), cube(27, 8, 16, 32, 2, 2, 0), cube(27, 32, 32, 8, 5, 1, 2), cube(27, 64, 64, 4, 5, 1, 2), cube(27, 128, 128, 2, 5, 1, 2),
	cube(27, 1, 8, 16, 5, 1, 2), cube(27, 16, 16, 8, 5, 1, 2), cube(27, 32, 32, 4, 5, 1, 2), cube(27, 64, 64, 2, 5, 1, 2), cube(27, 128, 128, 1, 5, 1, 2),
	cube(1, 16, 16, 64, 5, 1, 2), cube(1, 32, 32, 64, 5, 1, 2), cube(1, 64, 64, 32, 5, 1, 2), cube(1, 128, 128, 16, 5, 1, 2), cube(1, 256, 256, 8, 5, 1, 2), cube(1, 256, 256, 4, 5, 1, 2),
}

// BenchmarkConv reports the useful arithmetic of a direct convolution per second, whatever the algorithm.
func BenchmarkConv(b *testing.B) {
	c, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, s := range benchLayers {
		x, y, w := alignedSlice(c.Size(s.XShape())), alignedSlice(c.Size(s.YShape())), alignedSlice(s.WShape().Elements())
		for _, v := range []Slice{x, y, w} {
			for i := range v {
				v[i] = float32(i%7) - 3
			}
		}
		name := fmt.Sprintf("%dx%d-%d@%d^3k%ds%d", s.N, s.In, s.Out, s.Size[0], s.Kernel[0], s.Stride[0])
		run := func(what string, k device.Kernel, err error, out Slice, in ...device.Buffer) {
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+"/"+what, func(b *testing.B) {
				var scratch device.Buffer = alignedSlice(k.Scratch())
				outs := []device.Buffer{out}
				k.Run(outs, in, scratch)
				for b.Loop() {
					k.Run(outs, in, scratch)
				}
				b.ReportMetric(s.FLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1e3, "ms")
			})
		}
		k, err := c.Conv(s)
		run("forward", k, err, y, x, w)
		k, err = c.ConvTransposed(s)
		run("data", k, err, x, y, w)
		k, err = c.ConvGradWeights(s)
		run("weights", k, err, w, x, y)
	}
}
