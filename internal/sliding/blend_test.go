package sliding

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/volume"
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
		if err := d.Download(p, in[0], device.Tensor{Shape: device.Shape{1, s.Classes, w[0], w[1], w[2]},
			Type: s.Type}); err != nil {
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

func (d blending) Restore(s device.RestoreSpec) (device.Kernel, error) {
	volume := s.Sums[0] * s.Sums[1] * s.Sums[2]
	return loop(func(out, in []device.Buffer) {
		sums, taps, place := d.read(in[0], s.Classes*volume), d.read(in[1], 5*(s.Lines[0]+s.Lines[1]+s.Lines[2])),
			d.read(in[2], 2)
		n := int(place[1]) * s.Lines[1] * s.Lines[2]
		classes, maps := make([]float32, n), make([]float32, s.Classes*n)
		for i := range classes {
			line := [3]int{int(place[0]) + i/(s.Lines[1]*s.Lines[2]), s.Lines[0] + i/s.Lines[2]%s.Lines[1],
				s.Lines[0] + s.Lines[1] + i%s.Lines[2]}
			best := float32(0)
			classes[i] = -1
			for c := range s.Classes {
				x, scale := float32(0), float32(1)
				for corner := range 8 {
					w, at := float32(1), 0
					for axis, l := range line {
						tap, side := taps[5*l:][:5], corner>>(2-axis)&1
						w *= tap[2+side]
						at = at*s.Sums[axis] + int(tap[side])
					}
					if w != 0 {
						x += w * sums[c*volume+at]
					}
				}
				for _, l := range line {
					scale *= taps[5*l+4]
				}
				maps[c*n+i] = x * scale
				if x > best {
					best, classes[i] = x, float32(c)
				}
			}
		}
		err := d.UploadPlain(out[0], 0, classes)
		if s.Maps && err == nil {
			err = d.UploadPlain(out[1], 0, maps)
		}
		if err != nil {
			panic(err)
		}
	}), nil
}

// TestBlendOnDevice: windows that a device adds up give the classes and the maps that the host
// makes of them; scans larger and smaller than the window, several members, batches that are not
// full; on the grid of the windows and on the scan's own, which lies along other axes and is larger
// than the part that was prepared.
func TestBlendOnDevice(t *testing.T) {
	network, err := backbone.Of(voxsaw.Network{Kind: "vnet", Channels: 2, Levels: 1, Classes: 3, Norm: "instance"})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := phantomCase(t, [3]int{21, 17, 13})
	scan, p := volume.Grid{Shape: [3]int{9, 24, 15}}, volume.DefaultPreparation()
	scan.Affine[0][1], scan.Affine[1][2], scan.Affine[2][0], scan.Affine[3][3] = 21.0/24, 17.0/15, -13.0/9, 1
	p.Spacing = [3]float64{1, 1, 1}
	around := scan.Cropped([3]int{-2, -1, -3}, [3]int{13, 26, 19}) // of which this is a part
	to, err := p.Restoration(volume.Bounds{Scan: around, Box: volume.Box{Origin: [3]int{2, 1, 3}, Size: scan.Shape}})
	if err != nil {
		t.Fatal(err)
	}
	if to.Prepared.Shape != c.Shape || to.Exact(0) {
		t.Fatalf("the scan was prepared as %v, want %v between its voxels", to.Prepared.Shape, c.Shape)
	}
	added := 0
	infer := func(dev device.Device, size [3]int, batch int, wanted Wanted) Result {
		t.Helper()
		params := nn.NewParams(dev, 5)
		defer params.Close()
		s, err := New(dev, params, network, Options{Size: size, Batch: batch, Overlap: 0.5, Logits: true}, nn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := s.Infer(t.Context(), Case{c}, Ensemble{Members: 2, Use: func(int) error { return nil }}, wanted, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := testDevice(t)
	for _, size := range [][3]int{{8, 6, 4}, {24, 8, 16}} {
		for batch, wanted := range map[int]Wanted{
			1: {}, 2: {Classes: to}, 3: {Probabilities: true}, 4: {Classes: to, Maps: to, Probabilities: true,
				Logits: true}, 5: {Classes: to, Logits: true},
		} {
			added = 0
			want, got := infer(plain, size, batch, wanted), infer(blending{plain, &added}, size, batch, wanted)
			if added == 0 {
				t.Errorf("windows of %v, batches of %d: the device blended nothing", size, batch)
			}
			if !slices.Equal(got.Classes, want.Classes) {
				t.Errorf("windows of %v, batches of %d: other classes where the device blends", size, batch)
			}
			for i, maps := range [][2][]float32{{got.Probabilities, want.Probabilities}, {got.Logits, want.Logits}} {
				if len(maps[0]) != len(maps[1]) {
					t.Fatalf("windows of %v, batches of %d: maps %d of %d values, want %d", size, batch, i,
						len(maps[0]), len(maps[1]))
				}
				for n, x := range maps[1] {
					if d := math.Abs(float64(maps[0][n] - x)); !(d <= 1e-6*max(1, math.Abs(float64(x)))) {
						t.Fatalf("windows of %v, batches of %d: value %d of maps %d is %v, want %v", size, batch, n, i,
							maps[0][n], x)
					}
				}
			}
		}
	}
}

// TestRestorationOnDevice: what a device makes of sums is what scipy makes of them, in pieces of
// any number of planes.
func TestRestorationOnDevice(t *testing.T) {
	dev, added := testDevice(t), 0
	for _, c := range restoredCases(t) {
		p := volume.DefaultPreparation()
		p.Spacing = c.Spacing
		to, err := p.Restoration(c.Scan.Whole())
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{4, 4 * 4 * 100, pieceSize} {
			b := &blender{dev: blending{dev, &added}, shape: to.Prepared.Shape, classes: 3, pieceSize: size}
			sums, err := b.borrow(4 * int64(len(c.Probabilities)))
			if err == nil {
				err = dev.UploadPlain(sums, 0, c.Probabilities)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.summed = []*summed{{sums: sums}}
			r, e := emissionOf(to, 3)
			if err := b.emit(e); err != nil {
				t.Fatal(err)
			}
			b.close()
			c.compare(t, fmt.Sprintf("pieces of %d bytes", size), r)
		}
	}
}
