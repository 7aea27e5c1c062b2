//go:build gpu

package cuda

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// TestGroupWeights: the gradient of weights by products of four warps against that by gathered
// tiles, of rows longer and shorter than a product's, of one image and of several, of two slabs of
// which the last one is missing, of several stages of a block and several blocks, of several tiles
// of channels. The first variant stays the one before it until a GPU has timed both.
func TestGroupWeights(t *testing.T) {
	if !turns.Has(t, 1, 3) {
		return
	}
	d := openSimulated(t, bf16)
	if strings.Contains(d.name, "simulated") && !d.warpgroups {
		t.Fatal("the simulated GPU is none of compute capability 9.0")
	}
	for _, c := range []struct {
		n, in, out, kernel, processors int
		size                           [3]int
	}{
		{2, 32, 32, 5, 132, [3]int{3, 9, 17}},
		{1, 32, 64, 5, 1, [3]int{5, 18, 16}},
		{3, 32, 32, 5, 2, [3]int{4, 8, 8}},
		{3, 64, 32, 5, 1, [3]int{3, 5, 7}},
		{1, 32, 32, 5, 2, [3]int{6, 13, 20}},
		{9, 32, 32, 5, 1, [3]int{2, 4, 4}},
		{2, 32, 32, 5, 132, [3]int{1, 1, 1}},
		{2, 32, 32, 3, 1, [3]int{5, 9, 17}},
		{5, 32, 64, 3, 2, [3]int{3, 8, 6}},
		{1, 64, 32, 3, 1, [3]int{4, 17, 8}},
	} {
		cube := func(n int) [3]int { return [3]int{n, n, n} }
		s := device.ConvSpec{N: c.n, In: c.in, Out: c.out, Size: c.size, Kernel: cube(c.kernel), Stride: cube(1),
			Pad: cube(c.kernel / 2), Type: device.BFloat16}
		list := d.own(s, device.ConvWeights)
		at := slices.IndexFunc(list, func(v variant) bool { return v.name == "warpgroups" })
		if !d.warpgroups { // on a GPU that has no such products nothing may ask for them
			if at >= 0 {
				t.Errorf("%v: asked for on %s", s, d.name)
			}
			continue
		}
		if at < 1 {
			t.Fatalf("%v: variant %d of %d, not behind the default one", s, at, len(list))
		}
		r := rand.New(rand.NewPCG(13, 14))
		x, dy := normals(r, s.XShape().Elements(), 1), normals(r, s.YShape().Elements(), 1)
		processors := d.processors
		d.processors = c.processors
		var made [2][]float32
		for i, v := range []variant{d.reference(s, device.ConvWeights), list[at]} {
			k := d.newKernel()
			v.append(k, convOperands{to: out(0), a: in(0), b: in(1)})
			built, err := k.done()
			dw := onGPU(t, d, 4*int64(s.WShape().Elements()), nil)
			run(t, d, built, err, []device.Buffer{dw}, []device.Buffer{activations(t, d, s.XShape(), x),
				activations(t, d, s.YShape(), dy)})
			made[i] = make([]float32, s.WShape().Elements())
			if err := d.DownloadPlain(made[i], dw, 0); err != nil {
				t.Fatal(err)
			}
		}
		d.processors = processors
		// both round x and dy to the same numbers, and add products of these in float32
		if e := distance(made[1], made[0]); !(e < 2e-6) {
			t.Errorf("%v on %d processors: relative error %.2g", s, c.processors, e)
		}
	}
}

// TestWeightsTimed times the default gradient of weights and that by products of four warps for the
// 5^3 layers of a VNet, compares them, and prints a line of each layer and one of a step's sum on
// standard output. VOXSAW_TEST_PATCHES is the number of 32^3 patches, 432 of them 16 puzzles;
// without it the layers are small, and the time is the simulator's.
func TestWeightsTimed(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("VOXSAW_TEST_PATCHES"), "0"))
	if err != nil {
		t.Fatal("VOXSAW_TEST_PATCHES: ", err)
	}
	d := openSimulated(t, bf16)
	if !d.warpgroups {
		if strings.Contains(d.name, "simulated") {
			t.Fatal("the simulated GPU is none of compute capability 9.0")
		}
		fmt.Printf("weights of a step: %s has no products of four warps\n", d.name)
		return
	}
	layers := []struct{ channels, side, times int }{{32, 16, 2}, {64, 8, 3}, {128, 4, 3}}
	if n == 0 {
		n, layers[0].side, layers = 1, 4, layers[:1]
	}
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	var sum [2]float64
	best := 0.0
	for _, l := range layers {
		s := device.ConvSpec{N: n, In: l.channels, Out: l.channels, Size: cube(l.side), Kernel: cube(5),
			Stride: cube(1), Pad: cube(2), Type: device.BFloat16}
		list := d.own(s, device.ConvWeights)
		at := slices.IndexFunc(list, func(v variant) bool { return v.name == "warpgroups" })
		if at < 0 {
			t.Fatalf("%v: no products of four warps", s)
		}
		r := rand.New(rand.NewPCG(15, 16))
		x := activations(t, d, s.XShape(), normals(r, s.XShape().Elements(), 1))
		dy := activations(t, d, s.YShape(), normals(r, s.YShape().Elements(), 1))
		var made [2][]float32
		var took [2]float64
		for i, v := range []variant{list[0], list[at]} {
			k := d.newKernel()
			v.append(k, convOperands{to: out(0), a: in(0), b: in(1)})
			if k.err != nil {
				t.Fatal(k.err)
			}
			memory, err := d.Alloc(k.Scratch())
			if err != nil {
				t.Fatal(err)
			}
			dw := onGPU(t, d, 4*int64(s.WShape().Elements()), nil)
			start := func() { k.Run([]device.Buffer{dw}, []device.Buffer{x, dy}, memory) }
			start()
			made[i] = make([]float32, s.WShape().Elements())
			if err := d.DownloadPlain(made[i], dw, 0); err != nil {
				t.Fatal(err)
			}
			if took[i], err = d.Time(start); err != nil {
				t.Fatal(err)
			}
			sum[i] += 1e3 * took[i] * float64(l.times)
			d.Free(memory)
			d.Free(dw)
		}
		best += 1e3 * min(took[0], took[1]) * float64(l.times)
		e := distance(made[1], made[0])
		fmt.Printf(
			"weights %dx%d-%d@%d^3: %s %.4f ms, %s %.4f ms, relative difference %.1e\n",
			s.N,
			s.In,
			s.Out,
			l.side,
			list[0].name,
			took[0]*1e3,
			list[at].name,
			took[1]*1e3,
			e,
		)
		if !(e < 1e-4) {
			t.Errorf("%v: relative difference %.2g", s, e)
		}
		d.Free(x)
		d.Free(dy)
	}
	if !t.Failed() {
		fmt.Printf("weights of a step: old %.3f ms, new %.3f ms, the better of each layer %.3f ms\n", sum[0], sum[1],
			best)
	}
}
