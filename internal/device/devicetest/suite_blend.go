package devicetest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Blend checks what adds windows up and says what the sums mean for the voxels of a grid: of a
// [device.Blender].
func Blend(t *testing.T, dev device.Device) {
	r := newRand(1)
	w := device.BlendSpec{Classes: 3, Window: [3]int{2, 3, 5}, Sums: [3]int{4, 5, 6}, Type: dev.Activations()}
	blend := func(d device.Device) (device.Kernel, error) {
		s := w
		s.Type = d.Activations()
		return d.(device.Blender).Blend(s)
	}
	for _, place := range [][]float32{{0, 1, 1, 4, 5, 6}, {-1, 3, 4, 4, 5, 6}, {3, -2, 0, 4, 4, 3}} {
		compare(t, dev, tight, blend, []operand{random(r, 3*4*5*6)},
			[]operand{positive(r, 1, 3, 2, 3, 5), positive(r, 2+3+5), {shape: device.Shape{6}, data: place}})
	}
	for _, maps := range []bool{false, true} {
		s := device.RestoreSpec{Classes: 4, Sums: [3]int{4, 5, 6}, Lines: [3]int{7, 9, 11}, Planes: 5, Maps: maps}
		restore := func(d device.Device) (device.Kernel, error) { return d.(device.Blender).Restore(s) }
		for _, place := range [][]float32{{0, 5}, {5, 2}} {
			n := int(place[1]) * 9 * 11
			out := []operand{output(n)}
			if maps {
				out = append(out, output(4*n))
			}
			sums := positive(r, 4*4*5*6)
			if !maps { // a voxel that is no number, and one where nothing is above 0
				sums.data[2*120+37] = float32(math.NaN())
				for c := range 4 {
					sums.data[c*120+64] = -1e9
				}
			}
			in := []operand{sums, tapsOf(r, s), {shape: device.Shape{2}, data: place}}
			if maps {
				compare(t, dev, tight, restore, out, in)
				continue
			}
			classesOf(t, dev, restore, out, in)
		}
	}
	refuses(t, dev, func(d device.Device) (device.Kernel, error) {
		return d.(device.Blender).Restore(device.RestoreSpec{Classes: 2, Sums: [3]int{1, 1, 1}, Lines: [3]int{1, 1, 1}})
	})
}

// classesOf compares a kernel's one output, of sums some of which are no numbers.
func classesOf(t *testing.T, dev device.Device, make maker, out, in []operand) {
	t.Helper()
	want, got := prepare(t, NewReference(), make, out, in), prepare(t, dev, make, out, in)
	want.run()
	got.run()
	none := 0
	classes := download(t, dev, got.out[0], out[0])
	for i, class := range download(t, NewReference(), want.out[0], out[0]) {
		if class < 0 {
			none++
		}
		if classes[i] != class {
			t.Errorf("voxel %d: class %v, want %v", i, classes[i], class)
		}
	}
	if none == 0 {
		t.Error("no voxel lies beside one that is no number")
	}
}

// tapsOf is where the lines of a grid lie between the voxels of the sums, some of them on one.
func tapsOf(r *rand.Rand, s device.RestoreSpec) operand {
	var taps []float32
	for axis, lines := range s.Lines {
		for range lines {
			first := r.IntN(s.Sums[axis])
			second, share := min(first+1, s.Sums[axis]-1), r.Float32()
			if r.IntN(3) == 0 {
				second, share = first, 0
			}
			taps = append(taps, float32(first), float32(second), 1-share, share, 0.5+r.Float32())
		}
	}
	return operand{shape: device.Shape{len(taps)}, data: taps}
}
