//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
)

// What kernels can do that the suite of all devices does not ask for: shapes that need several
// tiles, moments in the epilogue of a convolution, groups.

// onGPU is a buffer with elements as they lie.
func onGPU(t *testing.T, d *Device, bytes int64, values []float32) device.Buffer {
	t.Helper()
	b, err := d.Alloc((bytes + 3) / 4 * 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Free(b) })
	if values != nil {
		if err := d.UploadPlain(b, 0, values); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// activations is a buffer with a tensor.
func activations(t *testing.T, d *Device, s device.Shape, values []float32) device.Buffer {
	t.Helper()
	tensor := device.Tensor{Shape: s, Type: d.Activations()}
	b := onGPU(t, d, d.Size(tensor), nil)
	if values != nil {
		if err := d.Upload(b, tensor, values); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func downloaded(t *testing.T, d *Device, b device.Buffer, tensor device.Tensor) []float32 {
	t.Helper()
	v := make([]float32, tensor.Shape.Elements())
	if err := d.Download(v, b, tensor); err != nil {
		t.Fatal(err)
	}
	return v
}

// normals are values that bfloat16 can hold, so that both sides compute from the same numbers.
func normals(r *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(math.Float32bits(float32(scale*r.NormFloat64())) &^ 0xffff)
	}
	return v
}

func distance(got, want []float32) float64 {
	var difference, norm float64
	for i := range want {
		difference += (float64(got[i]) - float64(want[i])) * (float64(got[i]) - float64(want[i]))
		norm += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(difference / norm)
}

// run runs a kernel with scratch memory of its own.
func run(t *testing.T, d *Device, k device.Kernel, err error, out, in []device.Buffer) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	k.Run(out, in, onGPU(t, d, k.Scratch(), nil))
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}

// referenceConv is a convolution of the naive device, or its adjoint.
func referenceConv(t *testing.T, s device.ConvSpec, adjoint bool, x, w, b []float32) []float32 {
	t.Helper()
	ref := devicetest.NewReference()
	s.Type = device.Float32
	result, make1 := s.YShape(), ref.Conv
	if adjoint {
		result, make1 = s.XShape(), ref.ConvTransposed
	}
	k, err := make1(s)
	if err != nil {
		t.Fatal(err)
	}
	buffer := func(n int, values []float32) device.Buffer {
		m, err := ref.Alloc(4 * int64(n))
		if err == nil && values != nil {
			err = ref.UploadPlain(m, 0, values)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	y := buffer(result.Elements(), nil)
	k.Run([]device.Buffer{y}, []device.Buffer{buffer(len(x), x), buffer(len(w), w), buffer(len(b), b)}, buffer(0, nil))
	v := make([]float32, result.Elements())
	if err := ref.Download(v, y, device.Tensor{Shape: result}); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMoments: convolutions of several tiles, and the moments that their epilogue leaves, merged
// into statistics of instance norm, against those of the result.
func TestMoments(t *testing.T) {
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	for _, p := range []precision{bf16, tf32} {
		d := openSimulated(t, p)
		for _, c := range []struct {
			name string
			s    device.ConvSpec
		}{
			{"rows, 16 channels", device.ConvSpec{N: 2, In: 16, Out: 16, Size: [3]int{2, 19, 32}, Kernel: cube(5)}},
			{"rows, 32 channels", device.ConvSpec{N: 1, In: 32, Out: 32, Size: [3]int{2, 11, 24}, Kernel: cube(5)}},
			{"rows, 64 channels in blocks", device.ConvSpec{N: 1, In: 64, Out: 32, Size: [3]int{1, 3, 96},
				Kernel: cube(5)}},
			{"one channel", device.ConvSpec{N: 2, In: 1, Out: 24, Size: [3]int{3, 9, 33}, Kernel: cube(5)}},
			{"one channel, 16 bytes at a time", device.ConvSpec{N: 2, In: 1, Out: 16, Size: [3]int{6, 35, 40},
				Kernel: cube(5)}},
			{"any shape", device.ConvSpec{N: 2, In: 24, Out: 40, Size: [3]int{4, 8, 8}, Kernel: cube(3)}},
		} {
			if p != bf16 && strings.HasPrefix(c.name, "rows") {
				continue // whole rows are made in bf16 alone
			}
			t.Run(fmt.Sprintf("%s, %s", p, c.name), func(t *testing.T) {
				s := c.s
				s.Stride, s.Pad, s.Bias, s.Type = cube(1), cube(s.Kernel[0]/2), true, d.Activations()
				r := rand.New(rand.NewPCG(1, 2))
				x, w, b := normals(r, s.XShape().Elements(), 1), normals(r, s.WShape().Elements(), 0.1),
					normals(r, s.Out, 1)
				k, g := d.newKernel(), forward(s)
				tiles := 0
				rows, ok := d.conv5For(g, s.Type)
				switch {
				case ok:
					tiles = s.Size[0] * blocksOf(s.Size[1], int(rows.Rows))
					k.conv5(rows, g, out(0), out(1), in(0), in(1), in(2))
				case s.In == 1:
					tiles = g.tilesOfOne(s.Type).perImage()
					k.conv5One(g, s.Type, out(0), out(1), in(0), in(1), in(2))
				default:
					tiles = s.YShape().Voxels() / convTile
					if s.YShape().Voxels()%convTile != 0 {
						t.Fatal("a tile has voxels of two images: it leaves no moments")
					}
					k.convGeneral(g, s.Type, out(0), out(1), in(0), in(1), in(2))
				}
				a := activation{channels{int32(s.N), int32(s.Out), int32(s.YShape().Voxels()), 0, 0}, 1, 1, 0, 0, 0, 1}
				k.launch("normFinish", grid{s.N * s.Out, 1, 1}, 128, 4*3*128, finish{a, int32(tiles), 1e-5, 0}, out(2),
					operand{}, operand{}, out(1))
				y := activations(t, d, s.YShape(), nil)
				statistics := onGPU(t, d, 8*int64(s.N*s.Out), nil)
				made, err := k.done()
				run(t, d, made, err, []device.Buffer{y, onGPU(t, d, momentsBytes*int64(s.N*tiles*s.Out), nil),
					statistics},
					[]device.Buffer{activations(t, d, s.XShape(), x), onGPU(t, d, 4*int64(len(w)), w),
						onGPU(t, d, 4*int64(len(b)), b)})
				want := referenceConv(t, s, false, x, w, b)
				got := downloaded(t, d, y, device.Tensor{Shape: s.YShape(), Type: s.Type})
				if e := distance(got, want); !(e < 4e-3) {
					t.Errorf("relative error %.2g", e)
				}
				sums := downloaded(t, d, statistics, device.Tensor{Shape: device.Shape{2, s.N * s.Out}})
				voxels := s.YShape().Voxels()
				mean, scale := make([]float32, s.N*s.Out), make([]float32, s.N*s.Out)
				for i := range mean {
					var sum, squares float64
					for _, v := range want[i*voxels:][:voxels] {
						sum += float64(v)
					}
					for _, v := range want[i*voxels:][:voxels] {
						squares += (float64(v) - sum/float64(voxels)) * (float64(v) - sum/float64(voxels))
					}
					mean[i], scale[i] = float32(sum/float64(voxels)), float32(1/math.Sqrt(squares/float64(voxels)+1e-5))
				}
				if e := max(distance(sums[:len(mean)], mean), distance(sums[len(mean):], scale)); !(e < 2e-3) {
					t.Errorf("statistics: relative error %.2g", e)
				}
			})
		}
		d.Close()
	}
}

// TestRowsAdjoint: the data gradient by whole rows, of channels that differ on both sides, by each
// way to make rows.
func TestRowsAdjoint(t *testing.T) {
	d := openSimulated(t, bf16)
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	for _, channels := range [][2]int{{32, 16}, {48, 32}} {
		s := device.ConvSpec{N: 2, In: channels[0], Out: channels[1], Size: [3]int{3, 7, 20}, Kernel: cube(5),
			Stride: cube(1), Pad: cube(2), Bias: true, Type: device.BFloat16}
		r := rand.New(rand.NewPCG(3, 4))
		y, w, b := normals(r, s.YShape().Elements(), 1), normals(r, s.WShape().Elements(), 0.1), normals(r, s.In, 1)
		x := activations(t, d, s.XShape(), nil)
		want := referenceConv(t, s, true, y, w, b)
		for _, tile := range conv5Tiles(int32(s.In)) {
			a, ok := d.conv5Fits(adjoint(s), s.Type, tile)
			if !ok {
				t.Fatalf("%v is not made by %s", channels, tile.kernel)
			}
			k := d.newKernel()
			k.conv5(a, adjoint(s), out(0), operand{}, in(0), in(1), in(2))
			made, err := k.done()
			run(t, d, made, err, []device.Buffer{x}, []device.Buffer{activations(t, d, s.YShape(), y),
				onGPU(t, d, 4*int64(len(w)), w), onGPU(t, d, 4*int64(len(b)), b)})
			if e := distance(downloaded(t, d, x, device.Tensor{Shape: s.XShape(), Type: s.Type}), want); !(e < 4e-3) {
				t.Errorf("%v, %s: relative error %.2g", channels, tile.kernel, e)
			}
		}
	}
}

// TestGroups: a grouped convolution is one for each group.
func TestGroups(t *testing.T) {
	const groups, n = 3, 8 // channels of a group
	for _, p := range []precision{fp32, bf16} {
		d := openSimulated(t, p)
		whole := device.ConvSpec{N: 2, In: groups * n, Out: groups * 2 * n, Size: [3]int{1, 9, 7},
			Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 2, 2}, Pad: [3]int{0, 1, 1}, Bias: true, Type: d.Activations()}
		part := whole
		part.In, part.Out = n, 2*n
		r := rand.New(rand.NewPCG(5, 6))
		x, w, b := normals(r, whole.XShape().Elements(), 1), normals(r, groups*part.WShape().Elements(), 1),
			normals(r, whole.Out, 1)
		want := make([]float32, whole.YShape().Elements())
		in1, out1 := whole.XShape().Voxels(), whole.YShape().Voxels()
		for g := range groups {
			var some []float32
			for image := range whole.N {
				some = append(some, x[(image*groups+g)*n*in1:][:n*in1]...)
			}
			weights := part.WShape().Elements()
			y := referenceConv(t, part, false, some, w[g*weights:][:weights], b[g*2*n:][:2*n])
			for image := range whole.N {
				copy(want[(image*groups+g)*2*n*out1:], y[image*2*n*out1:][:2*n*out1])
			}
		}
		c := forward(whole)
		c.Groups, c.In, c.Out = groups, n, 2*n
		k, y := d.newKernel(), activations(t, d, whole.YShape(), nil)
		k.convGeneral(c, whole.Type, out(0), operand{}, in(0), in(1), in(2))
		made, err := k.done()
		run(t, d, made, err, []device.Buffer{y}, []device.Buffer{activations(t, d, whole.XShape(), x),
			onGPU(t, d, 4*int64(len(w)), w), onGPU(t, d, 4*int64(len(b)), b)})
		if e := distance(downloaded(t, d, y, device.Tensor{Shape: whole.YShape(), Type: whole.Type}),
			want); !(e < 4e-3) {
			t.Errorf("%s: relative error %.2g", p, e)
		}
		d.Close()
	}
}

// TestDeadTaps: the gradient of a tap that reaches no voxel is 0, and nothing else is. Fresh memory
// of the simulated GPU is NaN.
func TestDeadTaps(t *testing.T) {
	const side, taps = 2, 5
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	for _, p := range []precision{bf16, tf32, fp32} {
		d := openSimulated(t, p)
		s := device.ConvSpec{N: 4, In: 16, Out: 16, Size: cube(side), Kernel: cube(taps), Stride: cube(1), Pad: cube(2),
			Type: d.Activations()}
		if live := forward(s).live(); live.weights() != 27*s.In*s.Out {
			t.Errorf("%d weights are multiplied, want 27 of 125", live.weights())
		}
		r := rand.New(rand.NewPCG(7, 8))
		x, y := normals(r, s.XShape().Elements(), 1), normals(r, s.YShape().Elements(), 1)
		dw := onGPU(t, d, 4*int64(s.WShape().Elements()), nil)
		k, err := d.ConvGradWeights(s)
		run(t, d, k, err, []device.Buffer{dw}, []device.Buffer{activations(t, d, s.XShape(), x),
			activations(t, d, s.YShape(), y)})
		got := make([]float32, s.WShape().Elements())
		if err := d.DownloadWeights(got, dw, s.WShape(), 0); err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for i, g := range got {
			dead := false
			for _, at := range []int{i % taps, i / taps % taps, i / taps / taps % taps} {
				dead = dead || at < 1 || at > 3
			}
			if (g == 0) != dead {
				wrong++
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d gradients of %d are 0 where they should not be, or are not", p, wrong, len(got))
		}
		d.Close()
	}
}

// TestLargeTensors: tensors whose pieces of 16 bytes 32 bits cannot number are not made by kernels
// that number them so, and what 31 bits cannot number the voxels of is refused.
func TestLargeTensors(t *testing.T) {
	d := openSimulated(t, bf16)
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	up := device.ConvSpec{N: 1, In: 32, Out: 64, Size: cube(512), Kernel: cube(2), Stride: cube(2),
		Type: device.BFloat16}
	for images, want := range map[int]string{4: "direct", 9: "patches"} {
		up.N = images
		if got := d.own(up, device.ConvTransposed)[0].name; got != want {
			t.Errorf("%d images: %s makes them, want %s", images, got, want)
		}
	}
	for images, refused := range map[int]bool{15: false, 16: true} {
		up.N = images
		if _, err := d.ConvTransposed(up); (err != nil) != refused {
			t.Errorf("a convolution of %d images of 512^3: %v", images, err)
		}
		s := device.ActivateSpec{
			Shape: device.Shape{images, 32, 512, 512, 512},
			Act:   device.ReLU,
			Type:  device.BFloat16,
		}
		if _, err := d.Activate(s); (err != nil) != refused {
			t.Errorf("an activation of %d images of 512^3: %v", images, err)
		}
	}
}
