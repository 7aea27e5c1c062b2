package devicetest

import "github.com/voxsaw/voxsaw/internal/device"

// Blend implements [device.Blender].
func (reference) Blend(s device.BlendSpec) (device.Kernel, error) {
	w := s.Window
	window, volume := w[0]*w[1]*w[2], s.Sums[0]*s.Sums[1]*s.Sums[2]
	return kernel(func(out, in []values) {
		sums, probabilities, weights, place := out[0], in[0], in[1], in[2]
		for i := range window {
			at, to, inside := [3]int{i / (w[1] * w[2]), i / w[2] % w[1], i % w[2]}, 0, true
			for k := range 3 {
				v := int(place[k]) + at[k]
				inside = inside && v >= 0 && v < s.Sums[k] && v < int(place[3+k])
				to = to*s.Sums[k] + v
			}
			for c := 0; inside && c < s.Classes; c++ {
				sums[c*volume+to] += weights[at[0]] * weights[w[0]+at[1]] * weights[w[0]+w[1]+
					at[2]] * probabilities[c*window+i]
			}
		}
	}), nil
}

// Restore implements [device.Blender].
func (reference) Restore(s device.RestoreSpec) (device.Kernel, error) {
	volume := s.Sums[0] * s.Sums[1] * s.Sums[2]
	return kernel(func(out, in []values) {
		classes, sums, taps, place := out[0], in[0], in[1], in[2]
		n := int(place[1]) * s.Lines[1] * s.Lines[2]
		for i := range n {
			lines := [3]int{int(place[0]) + i/(s.Lines[1]*s.Lines[2]), s.Lines[0] + i/s.Lines[2]%s.Lines[1],
				s.Lines[0] + s.Lines[1] + i%s.Lines[2]}
			best, scale, number := 0.0, 1.0, true
			for _, l := range lines {
				scale *= taps[5*l+4]
			}
			classes[i] = -1
			for c := range s.Classes {
				x := interpolated(sums[c*volume:(c+1)*volume], s.Sums, taps, lines)
				if number = number && x == x; x > best {
					best, classes[i] = x, float64(c)
				}
				if s.Maps {
					out[1][c*n+i] = x * scale
				}
			}
			if !number {
				classes[i] = -1
			}
		}
	}), s.Check()
}

// interpolated is the value between eight voxels.
func interpolated(volume values, shape [3]int, taps values, lines [3]int) (sum float64) {
	for corner := range 8 {
		weight, at := 1.0, 0
		for axis, l := range lines {
			side := corner >> axis & 1
			weight *= taps[5*l+2+side]
			at = at*shape[axis] + int(taps[5*l+side])
		}
		if weight != 0 {
			sum += weight * volume[at]
		}
	}
	return sum
}
