package cpu

import (
	"fmt"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// BenchmarkConv reports the useful arithmetic of a direct convolution per second, whatever the algorithm, for the layers of a VNet with 16 base channels on crops of 96^3 and 64^3 and on
// 27 patches of 32^3, and of one with 8 on patches of 32^3 and 16^3.
func BenchmarkConv(b *testing.B) {
	c := newBenchCPU(b, Options{})
	for _, s := range []device.ConvSpec{
		cube(1, 1, 16, 96, 5, 1, 2), cube(1, 32, 32, 96, 5, 1, 2), cube(1, 64, 64, 48, 5, 1, 2), cube(1, 128, 128, 24, 5, 1, 2), cube(1, 256, 256, 12, 5, 1, 2), cube(1, 256, 256, 6, 5, 1, 2),
		cube(1, 16, 32, 96, 2, 2, 0), cube(1, 64, 128, 24, 2, 2, 0), cube(1, 32, 2, 96, 1, 1, 0),
		cube(1, 16, 16, 64, 5, 1, 2), cube(1, 32, 32, 64, 5, 1, 2), cube(1, 64, 64, 32, 5, 1, 2), cube(1, 128, 128, 16, 5, 1, 2), cube(1, 256, 256, 8, 5, 1, 2), cube(1, 256, 256, 4, 5, 1, 2),
		cube(27, 1, 16, 32, 5, 1, 2), cube(27, 32, 32, 16, 5, 1, 2), cube(27, 64, 64, 8, 5, 1, 2), cube(27, 128, 128, 4, 5, 1, 2), cube(27, 256, 256, 2, 5, 1, 2),
		cube(27, 16, 32, 32, 2, 2, 0), cube(27, 128, 256, 4, 2, 2, 0),
		cube(27, 1, 8, 32, 5, 1, 2), cube(27, 16, 16, 16, 5, 1, 2), cube(27, 8, 16, 32, 2, 2, 0), cube(27, 32, 32, 8, 5, 1, 2), cube(27, 64, 64, 4, 5, 1, 2), cube(27, 128, 128, 2, 5, 1, 2),
		cube(8, 1, 16, 48, 5, 1, 2), cube(8, 16, 32, 48, 2, 2, 0), cube(8, 32, 32, 24, 5, 1, 2), cube(8, 32, 64, 24, 2, 2, 0), cube(8, 64, 64, 12, 5, 1, 2), cube(8, 64, 128, 12, 2, 2, 0), cube(8, 128, 128, 6, 5, 1, 2), cube(8, 128, 256, 6, 2, 2, 0), cube(8, 256, 256, 3, 5, 1, 2),
		cube(1, 1, 16, 64, 5, 1, 2), cube(1, 16, 32, 64, 2, 2, 0), cube(1, 32, 64, 32, 2, 2, 0), cube(1, 64, 128, 16, 2, 2, 0), cube(1, 128, 256, 8, 2, 2, 0), cube(1, 16, 64, 64, 2, 2, 0), cube(1, 32, 128, 32, 2, 2, 0), cube(1, 64, 256, 16, 2, 2, 0), cube(1, 32, 2, 64, 1, 1, 0),
		cube(1, 32, 32, 32, 5, 1, 2), cube(1, 64, 64, 16, 5, 1, 2), cube(1, 128, 128, 8, 5, 1, 2),
		cube(27, 1, 8, 16, 5, 1, 2), cube(27, 16, 16, 8, 5, 1, 2), cube(27, 32, 32, 4, 5, 1, 2), cube(27, 64, 64, 2, 5, 1, 2), cube(27, 128, 128, 1, 5, 1, 2),
	} {
		benchmarkConv(b, c, "", c.makers(), s)
	}
}

// BenchmarkAlgorithms times every algorithm on the same layers: what the choice in conv.go is fitted to.
func BenchmarkAlgorithms(b *testing.B) {
	c, d := newBenchCPU(b, Options{}), newBenchCPU(b, Options{Conv: "direct"})
	for _, s := range []device.ConvSpec{
		cube(1, 16, 16, 64, 5, 1, 2), cube(1, 64, 64, 16, 5, 1, 2), cube(1, 128, 128, 8, 5, 1, 2), cube(1, 128, 128, 16, 5, 1, 2), cube(1, 256, 256, 4, 5, 1, 2), cube(1, 256, 256, 6, 5, 1, 2), cube(1, 256, 256, 8, 5, 1, 2),
		cube(27, 32, 32, 2, 5, 1, 2), cube(27, 32, 32, 4, 5, 1, 2), cube(27, 64, 64, 4, 5, 1, 2), cube(27, 32, 32, 8, 5, 1, 2), cube(8, 128, 128, 6, 5, 1, 2), cube(8, 256, 256, 3, 5, 1, 2),
	} {
		benchmarkConv(b, c, "/auto", c.makers(), s)
		benchmarkConv(b, d, "/direct", d.makers(), s)
		for _, tile := range []toomcook.Tile{{Outputs: 4, Taps: 5}, {Outputs: 2, Taps: 5}} {
			benchmarkConv(b, c, fmt.Sprintf("/winograd%d", tile.Outputs), winogradMakers(c, tile), s)
			benchmarkConv(b, c, fmt.Sprintf("/few%d", tile.Outputs), fewMakers(c, tile), s)
		}
	}
}

func newBenchCPU(b *testing.B, o Options) *CPU {
	c, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func benchmarkConv(b *testing.B, c *CPU, algorithm string, m makers, s device.ConvSpec) {
	x, y, w := alignedSlice(c.Size(s.XShape())), alignedSlice(c.Size(s.YShape())), alignedSlice(s.WShape().Elements())
	for _, v := range []Slice{x, y, w} {
		for i := range v {
			v[i] = float32(i%7) - 3
		}
	}
	for _, run := range []struct {
		what string
		make func(device.ConvSpec) (device.Kernel, error)
		out  device.Buffer
		in   []device.Buffer
	}{
		{"forward", m.conv, y, []device.Buffer{x, w}},
		{"data", m.transposed, x, []device.Buffer{y, w}},
		{"weights", m.weights, w, []device.Buffer{x, y}},
	} {
		if s.In == 1 && run.what == "data" {
			continue // the gradient of the scan is never asked for
		}
		k, err := run.make(s)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%dx%d-%d@%d^3k%ds%d%s/%s", s.N, s.In, s.Out, s.Size[0], s.Kernel[0], s.Stride[0], algorithm, run.what), func(b *testing.B) {
			var scratch device.Buffer = alignedSlice(k.Scratch())
			outs := []device.Buffer{run.out}
			k.Run(outs, run.in, scratch) // memory is there after the first run
			for b.Loop() {
				k.Run(outs, run.in, scratch)
			}
			b.ReportMetric(s.FLOPs()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
