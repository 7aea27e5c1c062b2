package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// winogradMakers make Winograd kernels whatever the cost model says: by tiles, or by channels.
func winogradMakers(c *CPU, tile toomcook.Tile, byChannels bool) makers {
	m := c.makers()
	conv := func(transposed bool) func(device.ConvSpec) (device.Kernel, error) {
		return func(s device.ConvSpec) (device.Kernel, error) {
			if byChannels {
				return newWinogradFew(c, s, transposed, tile), nil
			}
			return newWinograd(c, s, transposed, tile), nil
		}
	}
	if !tile.Halving {
		m.transposed = conv(true)
	}
	if tile.Doubling { // which has nothing else
		return m
	}
	m.conv = conv(false)
	m.weights = func(s device.ConvSpec) (device.Kernel, error) {
		if byChannels {
			return newWinogradFewGradient(c, s, tile), nil
		}
		return newWinogradGradient(c, s, tile), nil
	}
	return m
}

// The points 2 and 1/2 raise rounding errors by their fourth powers along three axes; measured
// errors are a third of these.
var winogradTolerance = map[toomcook.Tile]float64{{Outputs: 4, Taps: 5}: 3e-5, {Outputs: 3, Taps: 5}: 2e-5,
	{Outputs: 2, Taps: 5}: 1.5e-5, {Outputs: 6, Taps: 3}: 3e-5,
	{Outputs: 4, Taps: 3}: 1.5e-5, {Outputs: 2, Taps: 3}: 3e-6, {Outputs: 3, Taps: 3}: 1e-5,
	{Outputs: 4, Taps: 3, Halving: true}: 1.5e-5, {Outputs: 8, Taps: 3, Doubling: true}: 1.5e-5}

// has says whether a tile is for a convolution.
func has(tile toomcook.Tile, s device.ConvSpec) bool {
	return s.Kernel[1] == tile.Taps && s.Stride[1] == tile.Stride() &&
		!(tile.Doubling && s.Pad != [3]int{s.Kernel[0] / 2, 1, 1})
}

var winogradCases = []device.ConvSpec{
	cube(1, 16, 16, 8, 5, 1, 2),
	cube(2, 8, 20, 5, 5, 1, 2),
	cube(2, 33, 40, 3, 5, 1, 2),
	cube(1, 72, 70, 3, 5, 1, 2),
	{N: 1, In: 16, Out: 16, Size: [3]int{6, 7, 35}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{2, 2, 2}},
	{N: 1, In: 16, Out: 16, Size: [3]int{6, 33, 17}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 0, 4}},
	{N: 5, In: 17, Out: 5, Size: [3]int{9, 4, 6}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{2, 2, 2}},
	{N: 2, In: 2, Out: 35, Size: [3]int{6, 21, 19}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 1, 1}},
	flat(3, 16, 32, 8, 8, 3, 1),
	flat(2, 17, 40, 13, 13, 5, 2),
	flat(9, 40, 33, 6, 6, 3, 1),
	flat(1, 64, 16, 21, 35, 3, 1),
	flat(2, 16, 16, 7, 5, 3, 0),
	flat(40, 48, 80, 4, 4, 5, 2),
	{N: 1, In: 32, Out: 32, Size: [3]int{5, 8, 40}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 0, 2}},
	// thick slices: each plane is an image
	{N: 2, In: 20, Out: 33, Size: [3]int{5, 13, 19}, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{0, 1, 1}},
	{N: 1, In: 16, Out: 40, Size: [3]int{3, 9, 7}, Kernel: [3]int{1, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{0, 2, 1}},
	// rows of so many tiles that blocks have parts of them
	{N: 1, In: 20, Out: 17, Size: [3]int{3, 5, 207}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{1, 1, 1}},
	{N: 2, In: 16, Out: 48, Size: [3]int{2, 4, 211}, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{0, 1, 0}},
	{N: 1, In: 16, Out: 16, Size: [3]int{4, 3, 137}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
		Pad: [3]int{2, 2, 4}},
	// of stride 2
	cube(1, 16, 32, 16, 3, 2, 1),
	cube(2, 33, 20, 7, 3, 2, 1),
	{N: 1, In: 17, Out: 40, Size: [3]int{8, 33, 12}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{2, 2, 2},
		Pad: [3]int{0, 2, 1}},
	{N: 1, In: 16, Out: 16, Size: [3]int{5, 9, 419}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{2, 2, 2},
		Pad: [3]int{1, 1, 1}},
	{N: 2, In: 32, Out: 48, Size: [3]int{3, 21, 18}, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 2, 2},
		Pad: [3]int{0, 1, 1}},
}

// flat is a convolution of photographs.
func flat(n, in, out, height, width, kernel, pad int) device.ConvSpec {
	return device.ConvSpec{N: n, In: in, Out: out, Size: [3]int{1, height, width}, Kernel: [3]int{1, kernel, kernel},
		Stride: [3]int{1, 1, 1}, Pad: [3]int{0, pad, pad}}
}

func TestWinograd(t *testing.T) {
	for _, ks := range availableKernels() {
		for _, tile := range toomcook.Tiles {
			t.Run(fmt.Sprint(ks.name, " ", tile), func(t *testing.T) {
				c := newTestCPU(t, Options{Threads: 2}, ks)
				for _, s := range winogradCases {
					if has(tile, s) {
						checkConv(t, c, winogradMakers(c, tile, false), s, winogradTolerance[tile])
						checkConv(t, c, winogradMakers(c, tile, true), s, winogradTolerance[tile])
					}
				}
			})
		}
	}
}

// Blocks in strips, as one thread has them, give the bits of blocks one by one. Of so many blocks
// some are side by side in the sum of a gradient of weights, too.
func TestStrips(t *testing.T) {
	for _, s := range []device.ConvSpec{cube(1, 16, 32, 33, 5, 1, 2),
		{N: 2, In: 32, Out: 16, Size: [3]int{3, 13, 207}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{1, 1, 1},
			Pad: [3]int{1, 1, 1}}} {
		tile := toomcook.Tile{Outputs: 4, Taps: s.Kernel[0]}
		for _, transposed := range []bool{false, true} {
			x, w := alignedSlice(elementsOf(s.XShape())), alignedSlice(weightElements(s.WShape()))
			y := [2]Slice{alignedSlice(elementsOf(s.YShape())), alignedSlice(elementsOf(s.YShape()))}
			if transposed {
				x, y = y[0], [2]Slice{x, alignedSlice(len(x))}
			}
			r := rand.New(rand.NewPCG(1, 2))
			for _, v := range []Slice{x, w} {
				for i := range v {
					v[i] = r.Float32() - 0.5
				}
			}
			for i, threads := range []int{1, 8} {
				c := newTestCPU(t, Options{Threads: threads}, availableKernels()[0])
				k := newWinograd(c, s, transposed, tile)
				if strip := k.t.strip; strip > 1 != (i == 0) {
					t.Fatalf("%v with %d threads: strips of %d blocks", s, threads, strip)
				}
				k.Run([]device.Buffer{y[i]}, []device.Buffer{x, w}, alignedSlice(k.total))
			}
			if !slices.Equal(y[0], y[1]) {
				t.Errorf("%v, transposed %t: other outputs", s, transposed)
			}
		}
	}
	tile := toomcook.Tile{Outputs: 4, Taps: 5}
	c := newTestCPU(t, Options{Threads: 1}, availableKernels()[0])
	checkConv(t, c, winogradMakers(c, tile, false),
		device.ConvSpec{N: 1, In: 2, Out: 17, Size: [3]int{5, 60, 39}, Kernel: [3]int{5, 5, 5}, Stride: [3]int{1, 1, 1},
			Pad: [3]int{2, 2, 2}}, winogradTolerance[tile])
}

// The choice of algorithm must not change what is computed: the layers of networks, large enough
// that every algorithm gets its turn.
func TestConvAuto(t *testing.T) {
	for _, ks := range availableKernels() {
		if ks.name == "generic" {
			continue // slow, and covered above
		}
		t.Run(ks.name, func(t *testing.T) {
			c := newTestCPU(t, Options{Threads: 2}, ks)
			for _, s := range []device.ConvSpec{cube(9, 24, 40, 4, 5, 1, 2), cube(2, 40, 40, 6, 5, 1, 2),
				cube(3, 16, 16, 9, 5, 1, 2), cube(2, 32, 32, 8, 3, 1, 1), cube(1, 2, 2, 9, 5, 1, 2),
				flat(8, 64, 96, 16, 16, 3, 1), flat(72, 128, 128, 4, 4, 3, 1), flat(9, 48, 128, 13, 13, 5, 2),
				flat(9, 192, 192, 6, 6, 3, 1)} {
				checkConv(t, c, c.makers(), s, 3e-5)
			}
		})
	}
}

// Every candidate computes the same, and a choice is kept to.
func TestCandidates(t *testing.T) {
	s := cube(2, 20, 33, 3, 5, 1, 2)
	for _, kind := range []ConvKind{Forward, Transposed, Weights} {
		c := newTestCPU(t, Options{Threads: 2}, availableKernels()[0])
		names, err := c.Candidates(s, kind)
		if err != nil || len(names) < 6 {
			t.Fatalf("candidates for %s: %q, %v", kind, names, err)
		}
		for _, name := range names {
			c.opt.Choices = map[string]string{ChoiceKey(s, kind): name}
			checkConv(t, c, c.makers(), s, 3e-5)
		}
		c.opt.Choices = map[string]string{ChoiceKey(s, kind): names[len(names)-1]}
		chosen, err := c.choose(s, kind)
		if err != nil {
			t.Fatal(err)
		}
		c.opt.Choices = map[string]string{ChoiceKey(s, kind): "Winograd F(9,9)"}
		if _, err := c.choose(s, kind); err == nil || !strings.Contains(err.Error(), "F(9,9)") {
			t.Errorf("%s: a choice that does not exist: %v", kind, err)
		}
		list := c.algorithms(s, kind)
		if want := list[len(list)-1].make(); fmt.Sprintf("%T", chosen) != fmt.Sprintf("%T", want) {
			t.Errorf("%s: chose %T, want %T", kind, chosen, want)
		}
	}
}
