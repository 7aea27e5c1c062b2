//go:build gpu

package cuda

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
)

// A way is one of the device's algorithms for one of a layer's three products.
type way struct {
	variant
	kind    device.ConvKind
	name    string       // of the product
	result  device.Shape // of it
	weights bool         // the result has the shape of weights
	in      []string     // operands: x, y or w
}

// ways are all algorithms that can make a layer, cuDNN's where it is there; of each product, the
// one that the device takes without a choice comes first. What is refused is logged.
func (d *Device) ways(t *testing.T, s device.ConvSpec) (all []way) {
	for _, w := range []way{
		{kind: device.ConvForward, name: "forward", result: s.YShape(), in: []string{"x", "w"}},
		{kind: device.ConvTransposed, name: "data", result: s.XShape(), in: []string{"y", "w"}},
		{kind: device.ConvWeights, name: "weights", result: s.WShape(), weights: true, in: []string{"x", "y"}},
	} {
		plans, _ := d.proposed(s, w.kind)
		for _, v := range d.own(s, w.kind) {
			w.variant = v
			all = append(all, w)
		}
		for _, v := range plans {
			if err := d.verify(s, w.kind, v); err != nil {
				t.Logf("%v, %s, %s: %v", s, w.name, v.name, err)
				continue
			}
			w.variant = v
			all = append(all, w)
		}
	}
	d.forgetProblem()
	return all
}

// TestLayers compares every algorithm for every layer of a VNet with the device that computes on
// the processor, and prints what each takes: tab-separated lines on standard output, as soon as
// they are there. VOXSAW_TEST_PATCHES is the number of 32^3 patches in a batch, such as 27 where
// there is a GPU; without it the layers are small, and the time is the simulator's.
// VOXSAW_TEST_SUITE names one precision.
func TestLayers(t *testing.T) {
	patches, err := strconv.Atoi(cmp.Or(os.Getenv("VOXSAW_TEST_PATCHES"), "0"))
	if err != nil {
		t.Fatal("VOXSAW_TEST_PATCHES: ", err)
	}
	n, shrink := patches, 1
	if patches == 0 {
		n, shrink = 1, 4
	}
	cube := func(n int) [3]int { return [3]int{n, n, n} }
	var layers []device.ConvSpec
	for level, channels := 0, 16; level < 5; level, channels = level+1, 2*channels {
		if patches == 0 && channels > 32 {
			break
		}
		side := max(32/shrink>>level, 1)
		taken := channels
		if level == 0 {
			taken = 1
		} else {
			layers = append(layers, device.ConvSpec{N: n, In: channels / 2, Out: channels, Size: cube(2 * side),
				Kernel: cube(2), Stride: cube(2)})
		}
		layers = append(layers, device.ConvSpec{N: n, In: taken, Out: channels, Size: cube(side), Kernel: cube(5),
			Stride: cube(1), Pad: cube(2)})
	}
	layers = append(layers, device.ConvSpec{N: 1, In: 32, Out: 9, Size: cube(max(1, n/9) * 32 / shrink),
		Kernel: cube(1), Stride: cube(1)})
	reference, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer reference.Close()
	for _, p := range []precision{bf16, tf32, fp32} {
		if one := os.Getenv(suiteVariable); patches == 0 && p == tf32 || one != "" && one != string(p) {
			continue
		}
		d := openSimulated(t, p)
		for _, s := range layers {
			s.Type = d.Activations()
			layer(t, d, reference, s)
		}
		d.Close()
	}
}

// layer compares and times one layer.
func layer(t *testing.T, d *Device, reference device.Device, s device.ConvSpec) {
	r := rand.New(rand.NewPCG(1, 2))
	values := map[string][]float32{"x": normals(r, s.XShape().Elements(), 1), "y": normals(r, s.YShape().Elements(), 1),
		"w": normals(r, s.WShape().Elements(), 0.1)}
	shapes := map[string]device.Shape{"x": s.XShape(), "y": s.YShape(), "w": s.WShape()}
	want := map[string][]float32{}
	for _, w := range d.ways(t, s) {
		if want[w.name] == nil {
			want[w.name] = onReference(t, reference, s, w, shapes, values)
		}
		buffers := make([]device.Buffer, len(w.in))
		for i, name := range w.in {
			if name == "w" {
				buffers[i] = onGPU(t, d, 4*int64(len(values[name])), values[name])
			} else {
				buffers[i] = activations(t, d, shapes[name], values[name])
			}
		}
		result := device.Tensor{Shape: w.result, Type: s.Type}
		if w.weights {
			result.Type = device.Float32
		}
		to := onGPU(t, d, d.Size(result), nil)
		k := d.newKernel()
		w.append(k, convOperands{to: out(0), a: in(0), b: in(1)})
		if k.err != nil {
			t.Fatal(k.err)
		}
		memory, err := d.Alloc(k.Scratch())
		if err != nil {
			t.Fatal(err)
		}
		start := func() { k.Run([]device.Buffer{to}, buffers, memory) }
		start()
		var got []float32
		if w.weights {
			got = make([]float32, w.result.Elements())
			err = d.DownloadWeights(got, to, w.result, 0)
		} else {
			got = downloaded(t, d, to, result)
		}
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := d.Time(start)
		if err != nil {
			t.Fatal(err)
		}
		e, flops := distance(got, want[w.name]),
			2*float64(s.YShape().Elements())*float64(s.In*s.Kernel[0]*s.Kernel[1]*s.Kernel[2])
		fmt.Printf("layer\t%s\t%dx%d-%d@%d^3/%d^3:%d\t%s\t%s\t%.4f ms\t%.2f TFLOP/s\terror %.1e\n", d.precision, s.N,
			s.In, s.Out, s.Size[0], s.Kernel[0], s.Stride[0], w.name, w.variant.name, seconds*1e3, flops/seconds/1e12,
			e)
		if most := map[precision]float64{fp32: 1e-4, tf32: 1e-2, bf16: 2e-2}[d.precision]; !(e < most) {
			t.Errorf("%s, %v, %s, %s: relative error %.2g, want less than %g", d.precision, s, w.name, w.variant.name,
				e, most)
		}
		d.Free(memory)
	}
}

// onReference computes a layer's product on the processor.
func onReference(t *testing.T, reference device.Device, s device.ConvSpec, w way, shapes map[string]device.Shape,
	values map[string][]float32) []float32 {
	t.Helper()
	s.Type = device.Float32
	make1 := map[string]func(device.ConvSpec) (device.Kernel, error){"forward": reference.Conv,
		"data": reference.ConvTransposed, "weights": reference.ConvGradWeights}[w.name]
	k, err := make1(s)
	if err != nil {
		t.Fatal(err)
	}
	alloc := func(shape device.Shape, weights bool) device.Buffer {
		bytes := reference.Size(device.Tensor{Shape: shape})
		if weights {
			bytes = reference.WeightsSize(shape)
		}
		b, err := reference.Alloc(bytes)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var in []device.Buffer
	for _, name := range w.in {
		b := alloc(shapes[name], name == "w")
		if name == "w" {
			err = reference.UploadWeights(b, shapes[name], 0, values[name])
		} else {
			err = reference.Upload(b, device.Tensor{Shape: shapes[name]}, values[name])
		}
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, b)
	}
	to := alloc(w.result, w.weights)
	memory, err := reference.Alloc(k.Scratch())
	if err != nil {
		t.Fatal(err)
	}
	k.Run([]device.Buffer{to}, in, memory)
	result := make([]float32, w.result.Elements())
	if w.weights {
		err = reference.DownloadWeights(result, to, w.result, 0)
	} else {
		err = reference.Download(result, to, device.Tensor{Shape: w.result})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(in, to, memory) {
		reference.Free(b)
	}
	return result
}
