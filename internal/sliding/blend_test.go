package sliding

import (
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// blending is a device that blends, with plain loops.
type blending struct {
	device.Device
	added *int // windows
}

// loop is a kernel of plain Go.
type loop func(out, in []device.Buffer)

func (loop) Scratch() int64                                 { return 0 }
func (l loop) Run(out, in []device.Buffer, _ device.Buffer) { l(out, in) }

func (d blending) read(b device.Buffer, n int) []float32 {
	v := make([]float32, n)
	if err := d.DownloadPlain(v, b, 0); err != nil {
		panic(err)
	}
	return v
}

func (d blending) Blend(s device.BlendSpec) (device.Kernel, error) {
	w, volume := s.Window, s.Sums[0]*s.Sums[1]*s.Sums[2]
	return loop(func(out, in []device.Buffer) {
		*d.added++
		p := make([]float32, s.Classes*w[0]*w[1]*w[2])
		if err := d.Download(p, in[0], device.Tensor{Shape: device.Shape{1, s.Classes, w[0], w[1], w[2]}, Type: s.Type}); err != nil {
			panic(err)
		}
		sums, weights, place := d.read(out[0], s.Classes*volume), d.read(in[1], w[0]+w[1]+w[2]), d.read(in[2], 6)
		for i, value := range p {
			c, at := i/(w[0]*w[1]*w[2]), [3]int{i / (w[1] * w[2]) % w[0], i / w[2] % w[1], i % w[2]}
			to, inside := 0, true
			for k := range 3 {
				v := int(place[k]) + at[k]
				inside = inside && v >= 0 && v < int(place[3+k])
				to = to*s.Sums[k] + v
			}
			if inside {
				// in the order of slab.add, so that the bits are the same
				sums[c*volume+to] += weights[at[0]] * weights[w[0]+at[1]] * weights[w[0]+w[1]+at[2]] * value
			}
		}
		if err := d.UploadPlain(out[0], 0, sums); err != nil {
			panic(err)
		}
	}), nil
}

func (d blending) Decide(s device.BlendSpec) (device.Kernel, error) {
	volume := s.Sums[0] * s.Sums[1] * s.Sums[2]
	return loop(func(out, in []device.Buffer) {
		sums, classes := d.read(in[0], s.Classes*volume), make([]float32, volume)
		for i := range classes {
			best, which := float32(0), float32(-1)
			for c := range s.Classes {
				if sum := sums[c*volume+i]; sum > best {
					best, which = sum, float32(c)
				}
			}
			classes[i] = which
		}
		if err := d.UploadPlain(out[0], 0, classes); err != nil {
			panic(err)
		}
	}), nil
}

// TestBlendOnDevice: windows that a device adds up give the classes that the host makes of them;
// scans larger and smaller than the window, several members, batches that are not full.
func TestBlendOnDevice(t *testing.T) {
	network, err := backbone.Of(voxsaw.Network{Kind: "vnet", Channels: 2, Levels: 1, Classes: 3, Norm: "instance"})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := phantomCase(t, [3]int{21, 17, 13})
	added := 0
	classify := func(dev device.Device, size [3]int, batch int) []uint16 {
		t.Helper()
		params := nn.NewParams(dev, 5)
		defer params.Close()
		s, err := New(dev, params, network, Options{Size: size, Batch: batch, Overlap: 0.5}, nn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		classes, err := s.Classify(t.Context(), Case{c}, Ensemble{Members: 2, Use: func(int) error { return nil }}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return classes
	}
	plain := testDevice(t)
	for _, size := range [][3]int{{8, 6, 4}, {24, 8, 16}} {
		for _, batch := range []int{1, 4} {
			added = 0
			want, got := classify(plain, size, batch), classify(blending{plain, &added}, size, batch)
			if added == 0 {
				t.Errorf("windows of %v, batches of %d: the device blended nothing", size, batch)
			}
			if !slices.Equal(got, want) {
				t.Errorf("windows of %v, batches of %d: other classes where the device blends", size, batch)
			}
		}
	}
}
