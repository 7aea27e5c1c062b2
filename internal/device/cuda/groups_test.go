//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// TestWarpgroups: every way of conv_groups.cu to make a convolution, and the moments that its tiles
// leave, against the naive one. In a short test one in four ways of each shape; shapes have turns.
func TestWarpgroups(t *testing.T) {
	d := openSimulated(t, bf16)
	if strings.Contains(d.name, "simulated") && !d.warpgroups {
		t.Fatal("the simulated GPU is none of compute capability 9.0")
	}
	for shape, c := range []struct {
		n, in, out, kernel int
		size               [3]int
	}{
		{2, 32, 32, 5, [3]int{3, 9, 17}},
		{1, 64, 32, 3, [3]int{2, 16, 8}},
		{9, 32, 32, 5, [3]int{4, 4, 4}},
		{17, 32, 32, 3, [3]int{3, 5, 3}},
		{18, 32, 64, 5, [3]int{2, 2, 2}}, // 27 of its taps reach a voxel
	} {
		if !turns.Has(t, shape, 2) {
			continue
		}
		cube := func(n int) [3]int { return [3]int{n, n, n} }
		s := device.ConvSpec{N: c.n, In: c.in, Out: c.out, Size: c.size, Kernel: cube(c.kernel), Stride: cube(1),
			Pad: cube(c.kernel / 2), Bias: true, Type: device.BFloat16}
		r := rand.New(rand.NewPCG(11, 12))
		x, w, b := normals(r, s.XShape().Elements(), 1), normals(r, s.WShape().Elements(), 0.1), normals(r, s.Out, 1)
		for i := range b {
			b[i] += 4096 // some hundred times the deviation: the moments must be right there, too
		}
		want := referenceConv(t, s, false, x, w, b)
		ways := d.convGroupsFits(forward(s), s.Type)
		if !d.warpgroups { // on a GPU that has no such products nothing may ask for them
			if len(ways) > 0 {
				t.Errorf("%v: %d ways to make it on %s", s, len(ways), d.name)
			}
			continue
		}
		if len(ways) < 10 {
			t.Errorf("%v: %d ways to make it", s, len(ways))
		}
		for i, a := range ways {
			if testing.Short() && i%4 != shape%4 {
				continue
			}
			name := fmt.Sprintf("%v, %+v", s, a.groupShape)
			tiles, images := a.momentTiles(), s.N
			if a.mixed() {
				images = 1
			}
			k := d.newKernel()
			k.convGroups(a, out(0), out(1), in(0), in(1), in(2))
			made, err := k.done()
			y := activations(t, d, s.YShape(), nil)
			moments := onGPU(t, d, momentsBytes*int64(images*tiles*s.Out), nil)
			run(t, d, made, err, []device.Buffer{y, moments}, []device.Buffer{activations(t, d, s.XShape(), x),
				onGPU(t, d, 4*int64(len(w)), w), onGPU(t, d, 4*int64(len(b)), b)})
			if e := distance(downloaded(t, d, y, device.Tensor{Shape: s.YShape(), Type: s.Type}), want); !(e < 4e-3) {
				t.Errorf("%s: relative error %.2g", name, e)
			}
			left := make([]float32, 3*images*tiles*s.Out)
			if err := d.DownloadPlain(left, moments, 0); err != nil {
				t.Fatal(err)
			}
			checkMoments(t, name, left, images, s, want)
		}
	}
}

// checkMoments compares moments (images, tiles, channels) with those of a result (N, channels,
// voxels), where images is N, or 1 for the moments of all.
func checkMoments(t *testing.T, name string, left []float32, images int, s device.ConvSpec, want []float32) {
	t.Helper()
	voxels, tiles := s.YShape().Voxels(), len(left)/3/images/s.Out
	for image := range images {
		for c := range s.Out {
			var n, mean, m2 float64
			for tile := range tiles {
				m := left[3*((image*tiles+tile)*s.Out+c):][:3]
				if m[0] == 0 {
					continue
				}
				count, delta := float64(m[0]), float64(m[1])-mean
				m2 += float64(m[2]) + delta*delta*n*count/(n+count)
				mean, n = mean+delta*count/(n+count), n+count
			}
			var sum, squares float64
			for i := image; i < s.N; i += images {
				for _, v := range want[(i*s.Out+c)*voxels:][:voxels] {
					sum, squares = sum+float64(v), squares+float64(v)*float64(v)
				}
			}
			count := float64(voxels * s.N / images)
			deviation := math.Sqrt(squares/count - sum/count*sum/count)
			if n != count || math.Abs(mean-sum/count) > 2e-3*deviation || math.Abs(math.Sqrt(m2/n)/deviation-1) > 2e-3 {
				t.Errorf("%s: image %d, channel %d: %g voxels, mean %g, deviation %g; want %g, %g, %g", name, image,
					c, n,
					mean, math.Sqrt(m2/n), count, sum/count, deviation)
				return
			}
		}
	}
}
