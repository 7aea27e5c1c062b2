package cpu

import (
	"fmt"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// BenchmarkConv reports the useful arithmetic of a direct convolution per second, whatever the
// algorithm, for the layers of a VNet with 16 base channels on crops of 96^3 and 64^3 and on 27
// patches of 32^3, and of one with 8 on patches of 32^3 and 16^3.
func BenchmarkConv(b *testing.B) {
	c := newBenchCPU(b, Options{})
	for _, s := range []device.ConvSpec{
		cube(1, 1, 16, 96, 5, 1, 2), cube(1, 32, 32, 96, 5, 1, 2), cube(1, 64, 64, 48, 5, 1, 2),
		cube(1, 128, 128, 24, 5, 1, 2), cube(1, 256, 256, 12, 5, 1, 2), cube(1, 256, 256, 6, 5, 1, 2),
		cube(1, 16, 32, 96, 2, 2, 0), cube(1, 64, 128, 24, 2, 2, 0), cube(1, 32, 2, 96, 1, 1, 0),
		cube(1, 16, 16, 64, 5, 1, 2), cube(1, 32, 32, 64, 5, 1, 2), cube(1, 64, 64, 32, 5, 1, 2),
		cube(1, 128, 128, 16, 5, 1, 2), cube(1, 256, 256, 8, 5, 1, 2), cube(1, 256, 256, 4, 5, 1, 2),
		cube(27, 1, 16, 32, 5, 1, 2), cube(27, 32, 32, 16, 5, 1, 2), cube(27, 64, 64, 8, 5, 1, 2),
		cube(27, 128, 128, 4, 5, 1, 2), cube(27, 256, 256, 2, 5, 1, 2),
		cube(27, 16, 32, 32, 2, 2, 0), cube(27, 128, 256, 4, 2, 2, 0),
		cube(27, 1, 8, 32, 5, 1, 2), cube(27, 16, 16, 16, 5, 1, 2), cube(27, 8, 16, 32, 2, 2, 0),
		cube(27, 32, 32, 8, 5, 1, 2), cube(27, 64, 64, 4, 5, 1, 2), cube(27, 128, 128, 2, 5, 1, 2),
		cube(8, 1, 16, 48, 5, 1, 2), cube(8, 16, 32, 48, 2, 2, 0), cube(8, 32, 32, 24, 5, 1, 2),
		cube(8, 32, 64, 24, 2, 2, 0), cube(8, 64, 64, 12, 5, 1, 2), cube(8, 64, 128, 12, 2, 2, 0),
		cube(8, 128, 128, 6, 5, 1, 2), cube(8, 128, 256, 6, 2, 2, 0), cube(8, 256, 256, 3, 5, 1, 2),
		cube(1, 1, 16, 64, 5, 1, 2), cube(1, 16, 32, 64, 2, 2, 0), cube(1, 32, 64, 32, 2, 2, 0),
		cube(1, 64, 128, 16, 2, 2, 0), cube(1, 128, 256, 8, 2, 2, 0), cube(1, 16, 64, 64, 2, 2, 0),
		cube(1, 32, 128, 32, 2, 2, 0), cube(1, 64, 256, 16, 2, 2, 0), cube(1, 32, 2, 64, 1, 1, 0),
		cube(1, 32, 32, 32, 5, 1, 2), cube(1, 64, 64, 16, 5, 1, 2), cube(1, 128, 128, 8, 5, 1, 2),
		cube(27, 1, 8, 16, 5, 1, 2), cube(27, 16, 16, 8, 5, 1, 2), cube(27, 32, 32, 4, 5, 1, 2),
		cube(27, 64, 64, 2, 5, 1, 2), cube(27, 128, 128, 1, 5, 1, 2),
	} {
		benchmarkConv(b, c, "", s, Forward, Transposed, Weights)
	}
}

// BenchmarkAlgorithms times every candidate on the same layers: what the costs in conv_choice.go
// are fitted to.
func BenchmarkAlgorithms(b *testing.B) {
	for _, s := range []device.ConvSpec{
		cube(1, 16, 16, 64, 5, 1, 2), cube(1, 64, 64, 16, 5, 1, 2), cube(1, 64, 64, 32, 5, 1, 2),
		cube(1, 128, 128, 24, 5, 1, 2), cube(1, 256, 256, 12, 5, 1, 2), cube(1, 128, 128, 8, 5, 1, 2),
		cube(1, 128, 128, 16, 5, 1, 2), cube(1, 256, 256, 4, 5, 1, 2), cube(1, 256, 256, 6, 5, 1, 2),
		cube(1, 256, 256, 8, 5, 1, 2),
		cube(27, 256, 256, 2, 5, 1, 2), cube(27, 32, 32, 2, 5, 1, 2), cube(27, 32, 32, 4, 5, 1, 2),
		cube(27, 64, 64, 4, 5, 1, 2), cube(27, 128, 128, 4, 5, 1, 2), cube(27, 32, 32, 8, 5, 1, 2),
		cube(27, 64, 64, 8, 5, 1, 2),
		cube(8, 64, 64, 12, 5, 1, 2), cube(8, 128, 128, 6, 5, 1, 2), cube(8, 256, 256, 3, 5, 1, 2),
		cube(1, 32, 64, 128, 3, 2, 1), cube(1, 64, 128, 64, 3, 2, 1), cube(1, 128, 256, 32, 3, 2, 1),
		cube(1, 256, 320, 16, 3, 2, 1), cube(1, 320, 320, 8, 3, 2, 1), cube(1, 16, 32, 64, 3, 2, 1),
		cube(1, 8, 16, 64, 3, 2, 1), cube(2, 64, 128, 12, 3, 2, 1),
		cube(1, 1, 16, 64, 5, 1, 2), cube(8, 1, 16, 48, 5, 1, 2), cube(1, 1, 32, 64, 3, 1, 1),
		cube(27, 1, 8, 16, 5, 1, 2),
	} {
		for _, kind := range []ConvKind{Forward, Transposed, Weights} {
			c := newBenchCPU(b, Options{})
			names, err := c.Candidates(s, kind)
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range names {
				c.opt.Choices = map[string]string{ChoiceKey(s, kind): name}
				benchmarkConv(b, c, "/"+name, s, kind)
			}
		}
	}
}

func newBenchCPU(b *testing.B, o Options) *CPU {
	c, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func benchmarkConv(b *testing.B, c *CPU, algorithm string, s device.ConvSpec, kinds ...ConvKind) {
	x, y, w := alignedSlice(elementsOf(s.XShape())), alignedSlice(elementsOf(s.YShape())),
		alignedSlice(weightElements(s.WShape()))
	for _, v := range []Slice{x, y, w} {
		for i := range v[:min(block, len(v))] {
			v[i] = float32(i%7) - 3
		}
		for n := block; n < len(v); n *= 2 {
			copy(v[n:], v[:n])
		}
	}
	for _, kind := range kinds {
		out, in := []device.Buffer{y}, []device.Buffer{x, w}
		switch {
		case kind == Transposed && s.In == 1:
			continue // the gradient of the scan is never asked for
		case kind == Transposed:
			out, in = []device.Buffer{x}, []device.Buffer{y, w}
		case kind == Weights:
			out, in = []device.Buffer{w}, []device.Buffer{x, y}
		}
		k, err := c.choose(s, kind)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%dx%d-%d@%d^3k%ds%d/%s%s", s.N, s.In, s.Out, s.Size[0], s.Kernel[0], s.Stride[0], kind,
			algorithm), func(b *testing.B) {
			var scratch device.Buffer = alignedSlice(int(k.Scratch() / 4))
			k.Run(out, in, scratch) // memory is there after the first run
			for b.Loop() {
				k.Run(out, in, scratch)
			}
			b.ReportMetric(s.FLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
