package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
)

// naiveConv computes y without bias, dx and dw in float64, row-major.
func naiveConv(s device.ConvSpec, x, w, dy []float32) (y, dx, dw []float64) {
	o := s.OutSize()
	y, dx, dw = make([]float64, s.YShape().Elements()), make([]float64, len(x)), make([]float64, len(w))
	taps := s.Kernel[0] * s.Kernel[1] * s.Kernel[2]
	for n := range s.N {
		for oc := range s.Out {
			for oz := range o[0] {
				for oy := range o[1] {
					for ox := range o[2] {
						yi := (((n*s.Out+oc)*o[0]+oz)*o[1]+oy)*o[2] + ox
						sum := 0.0
						for t := range taps {
							iz, iy, ix := oz*s.Stride[0]-s.Pad[0]+t/(s.Kernel[1]*s.Kernel[2]), oy*s.Stride[1]-s.Pad[1]+
								t/s.Kernel[2]%s.Kernel[1], ox*s.Stride[2]-s.Pad[2]+t%s.Kernel[2]
							if iz < 0 || iy < 0 || ix < 0 || iz >= s.Size[0] || iy >= s.Size[1] || ix >= s.Size[2] {
								continue
							}
							for ic := range s.In {
								xi, wi := (((n*s.In+ic)*s.Size[0]+iz)*s.Size[1]+iy)*s.Size[2]+ix, (oc*s.In+ic)*taps+t
								sum += float64(x[xi]) * float64(w[wi])
								dx[xi] += float64(dy[yi]) * float64(w[wi])
								dw[wi] += float64(dy[yi]) * float64(x[xi])
							}
						}
						y[yi] = sum
					}
				}
			}
		}
	}
	return y, dx, dw
}

func normals(r *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * scale)
	}
	return v
}

func relativeError(got []float32, want []float64) float64 {
	var d, n float64
	for i := range want {
		e := float64(got[i]) - want[i]
		d += e * e
		n += want[i] * want[i]
	}
	if n == 0 {
		return math.Sqrt(d)
	}
	return math.Sqrt(d / n)
}

// noise is a buffer of n elements that a kernel has to overwrite, or may not depend on.
func noise(n int) Slice {
	s := alignedSlice(n)
	for i := range s {
		s[i] = float32(math.NaN())
	}
	return s
}

// checkPadding fails the test if a lane past the last channel is not zero.
func checkPadding(t *testing.T, what string, b Slice, s device.Shape) {
	t.Helper()
	l := layoutOf(s)
	if l.lanes == 1 {
		return
	}
	for n := range l.n {
		for i, x := range b[l.plane(n, l.blocks-1):][:l.voxels*block] {
			if l.channels-(l.blocks-1)*block <= i%block && x != 0 {
				t.Fatalf("%s: padded lane %d is %v", what, i%block, x)
			}
		}
	}
}

// checkWeightPadding fails the test if a lane past the last output channel is not zero.
func checkWeightPadding(t *testing.T, w Slice, s device.Shape) {
	t.Helper()
	l := weightsOf(s)
	last := l.outBlocks() - 1
	for i, x := range w[l.at(last, 0):] {
		if i%block >= l.outputs(last) && x != 0 {
			t.Fatalf("weights %v: padded lane %d is %v", s, i%block, x)
		}
	}
}

// naive holds what naiveConv computed, for the checks of one convolution on several devices.
var naive = map[device.ConvSpec]struct{ y, dx, dw []float64 }{}

// makers make the three kernels of a convolution.
type makers struct {
	conv, transposed, weights func(device.ConvSpec) (device.Kernel, error)
}

func (c *CPU) makers() makers { return makers{c.Conv, c.ConvTransposed, c.ConvGradWeights} }

// checkConv compares the three kernels with naive loops.
func checkConv(t *testing.T, c *CPU, m makers, s device.ConvSpec, tolerance float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(s.In*1000+s.Out)))
	x, dy := normals(r, s.XShape().Elements(), 1), normals(r, s.YShape().Elements(), 1)
	w := normals(r, s.WShape().Elements(), math.Sqrt(2/float64(s.In*s.Kernel[0]*s.Kernel[1]*s.Kernel[2])))
	b := normals(r, s.Out, 1)
	bx := normals(r, s.In, 1)
	upload := func(shape device.Shape, v []float32) Slice {
		d := alignedSlice(elementsOf(shape))
		if err := c.Upload(d, device.Tensor{Shape: shape}, v); err != nil {
			t.Fatal(err)
		}
		return d
	}
	xd, dyd, wd := upload(s.XShape(), x), upload(s.YShape(), dy), alignedSlice(weightElements(s.WShape()))
	if err := c.UploadWeights(wd, s.WShape(), 0, w); err != nil {
		t.Fatal(err)
	}
	want, ok := naive[s]
	if !ok {
		want.y, want.dx, want.dw = naiveConv(s, x, w, dy)
		naive[s] = want
	}
	run := func(what string, make func(device.ConvSpec) (device.Kernel, error), s device.ConvSpec, shape device.Shape,
		want []float64, in ...device.Buffer) {
		k, err := make(s)
		if err != nil {
			t.Fatal(err)
		}
		size := elementsOf(shape)
		download := func(dst []float32, b device.Buffer, s device.Shape) error {
			return c.Download(dst, b, device.Tensor{Shape: s})
		}
		if what == "weight gradient" {
			size = weightElements(shape)
			download = func(dst []float32, b device.Buffer, s device.Shape) error {
				return c.DownloadWeights(dst, b, s, 0)
			}
		}
		out := noise(size)
		var scratch device.Buffer = noise(int(k.Scratch() / 4))
		got, again := noise(shape.Elements()), noise(shape.Elements())
		k.Run([]device.Buffer{out}, in, scratch)
		if err := download(got, out, shape); err != nil {
			t.Fatal(err)
		}
		if e := relativeError(got, want); !(e <= tolerance) {
			t.Errorf("%s of %+v: relative error %.2g, want at most %.2g", what, s, e, tolerance)
		}
		if what == "weight gradient" {
			checkWeightPadding(t, out, shape)
		} else {
			checkPadding(t, what, out, shape)
		}
		if c.kernels.name == "generic" {
			return // the rest is the same code on every instruction set, and this one is slow
		}
		outs := []device.Buffer{out}
		if n := testing.AllocsPerRun(2, func() { k.Run(outs, in, scratch) }); n > 0 {
			t.Errorf("%s of %+v: %v allocations a run", what, s, n)
		}
		if err := download(again, out, shape); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != again[i] {
				t.Errorf("%s of %+v: a second run differs", what, s)
				break
			}
		}
	}
	withBias := func(v []float64, b []float32, n int) []float64 {
		out := make([]float64, len(v))
		for i := range v {
			out[i] = v[i] + float64(b[i/(len(v)/n/len(b))%len(b)])
		}
		return out
	}
	run("convolution", m.conv, s, s.YShape(), want.y, xd, wd)
	run("transposed convolution", m.transposed, s, s.XShape(), want.dx, dyd, wd)
	run("weight gradient", m.weights, s, s.WShape(), want.dw, xd, dyd)
	s.Bias = true
	run("convolution with bias", m.conv, s, s.YShape(), withBias(want.y, b, s.N), xd, wd, Slice(b))
	run("transposed convolution with bias", m.transposed, s, s.XShape(), withBias(want.dx, bx, s.N), dyd, wd, Slice(bx))
}

// cube is a convolution with equal extents along the axes.
func cube(n, in, out, size, kernel, stride, pad int) device.ConvSpec {
	return device.ConvSpec{N: n, In: in, Out: out, Size: [3]int{size, size, size},
		Kernel: [3]int{kernel, kernel, kernel}, Stride: [3]int{stride, stride, stride}, Pad: [3]int{pad, pad, pad}}
}

var convCases = []device.ConvSpec{
	cube(1, 1, 16, 8, 5, 1, 2),
	cube(2, 1, 8, 5, 5, 1, 2),
	{N: 2, In: 1, Out: 20, Size: [3]int{7, 6, 9}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 0, 4}},
	cube(1, 1, 1, 6, 3, 1, 1),
	cube(2, 5, 1, 4, 3, 1, 1),
	cube(2, 16, 16, 6, 5, 1, 2),
	cube(1, 8, 8, 7, 5, 1, 2),
	cube(1, 32, 48, 5, 5, 1, 2),
	cube(1, 20, 33, 9, 3, 1, 1),
	cube(3, 17, 8, 1, 5, 1, 2),
	cube(3, 16, 32, 2, 5, 1, 2),
	cube(2, 40, 24, 3, 5, 1, 2),
	cube(1, 16, 32, 6, 2, 2, 0),
	cube(2, 32, 16, 7, 2, 2, 0),
	cube(1, 8, 16, 4, 2, 2, 0),
	cube(2, 32, 2, 8, 1, 1, 0),
	cube(1, 3, 5, 4, 1, 1, 0),
	cube(1, 4, 4, 5, 1, 2, 0),
	cube(1, 20, 3, 13, 1, 1, 0),
	cube(2, 5, 1, 3, 1, 1, 0),
	cube(2, 1, 5, 3, 3, 1, 1),
	{N: 1, In: 6, Out: 7, Size: [3]int{5, 7, 9}, Kernel: [3]int{3, 4, 5}, Stride: [3]int{2, 1, 3},
		Pad: [3]int{2, 0, 1}},
	{N: 2, In: 18, Out: 20, Size: [3]int{9, 4, 14}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{2, 2, 2}},
	{N: 1, In: 16, Out: 16, Size: [3]int{8, 9, 10}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{0, 4, 1}},
	{N: 1, In: 16, Out: 16, Size: [3]int{6, 7, 19}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 1, 1}},
}

// Sums of products in float32 are off by the unit rounding, 6e-8, times a few.
const directTolerance = 1e-6

func TestConvDirect(t *testing.T) {
	for _, ks := range availableKernels() {
		t.Run(ks.name, func(t *testing.T) {
			for i, s := range convCases {
				c := newTestCPU(t, Options{Threads: 1 + i%3, Conv: "direct"}, ks)
				checkConv(t, c, c.makers(), s, directTolerance)
			}
		})
	}
}

func newTestCPU(t testing.TB, o Options, ks *kernels) *CPU {
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c.kernels = ks
	t.Cleanup(func() { c.Close() })
	return c
}

// TestConvRandom: geometries that nobody thought of, a quarter of them by turns.
func TestConvRandom(t *testing.T) {
	for i := range 40 {
		if !devicetest.InTurn(t, i, 4) {
			continue
		}
		r := rand.New(rand.NewPCG(8, uint64(i)))
		s := device.ConvSpec{N: 1 + r.IntN(4), In: 1 + r.IntN(40), Out: 1 + r.IntN(40)}
		for a := range 3 {
			s.Kernel[a] = 1 + r.IntN(5)
			s.Stride[a] = 1 + r.IntN(3)
			s.Size[a] = 1 + r.IntN(9)
		}
		if r.IntN(2) == 0 {
			k := []int{1, 3, 5}[r.IntN(3)]
			s.Kernel, s.Stride = [3]int{k, k, k}, [3]int{1, 1, 1}
		}
		for a := range 3 {
			s.Pad[a] = r.IntN(s.Kernel[a])
		}
		if s.Check() != nil {
			continue
		}
		for _, ks := range availableKernels() {
			c := newTestCPU(t, Options{Threads: 1 + i%3}, ks)
			checkConv(t, c, c.makers(), s, 3e-5)
		}
	}
}
