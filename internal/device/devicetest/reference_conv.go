package devicetest

import "github.com/voxsaw/voxsaw/internal/device"

// eachMeeting calls f for every voxel of an output's channel, with the voxels of an input's channel
// that the convolution sees from there, each beside the tap of the kernel that it meets: their
// indices.
func eachMeeting(s device.ConvSpec, f func(to int, from, taps []int)) {
	o := s.OutSize()
	var from, taps []int
	for to := range o[0] * o[1] * o[2] {
		at := [3]int{to / o[2] / o[1], to / o[2] % o[1], to % o[2]}
		from, taps = from[:0], taps[:0]
		for tap := range s.Kernel[0] * s.Kernel[1] * s.Kernel[2] {
			k := [3]int{tap / s.Kernel[2] / s.Kernel[1], tap / s.Kernel[2] % s.Kernel[1], tap % s.Kernel[2]}
			voxel, inside := 0, true
			for i := range k {
				x := at[i]*s.Stride[i] + k[i] - s.Pad[i]
				voxel, inside = voxel*s.Size[i]+x, inside && x >= 0 && x < s.Size[i]
			}
			if inside {
				from, taps = append(from, voxel), append(taps, tap)
			}
		}
		f(to, from, taps)
	}
}

// eachChannel calls f for every output and input that a convolution connects, with what belongs to
// them: the channels of x and y, and the kernel. With groups, an output sees the inputs of its own
// group.
func eachChannel(s device.ConvSpec, x, w, y values, f func(x, w, y values)) {
	ofGroup, o := s.OfGroup(), s.OutSize()
	in, taps, out := s.Size[0]*s.Size[1]*s.Size[2], s.Kernel[0]*s.Kernel[1]*s.Kernel[2], o[0]*o[1]*o[2]
	for n := range s.N {
		for c := range s.Out {
			for i := range ofGroup.In {
				from := n*s.In + c/ofGroup.Out*ofGroup.In + i
				f(x[from*in:][:in], w[(c*ofGroup.In+i)*taps:][:taps], y[(n*s.Out+c)*out:][:out])
			}
		}
	}
}

func (reference) Conv(s device.ConvSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		y := out[0]
		clear(y)
		if s.Bias {
			addBias(y, in[2], s.YShape())
		}
		eachMeeting(s, func(to int, from, taps []int) {
			eachChannel(s, in[0], in[1], y, func(x, w, y values) {
				sum := 0.0
				for j, v := range from {
					sum += x[v] * w[taps[j]]
				}
				y[to] += sum
			})
		})
	}), s.Check()
}

func (reference) ConvTransposed(s device.ConvSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		x := out[0]
		clear(x)
		if s.Bias {
			addBias(x, in[2], s.XShape())
		}
		eachMeeting(s, func(to int, from, taps []int) {
			eachChannel(s, x, in[1], in[0], func(x, w, y values) {
				for j, v := range from {
					x[v] += y[to] * w[taps[j]]
				}
			})
		})
	}), s.Check()
}

func (reference) ConvGradWeights(s device.ConvSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		clear(out[0])
		eachMeeting(s, func(to int, from, taps []int) {
			eachChannel(s, in[0], out[0], in[1], func(x, dw, dy values) {
				for j, v := range from {
					dw[taps[j]] += x[v] * dy[to]
				}
			})
		})
	}), s.Check()
}

func addBias(y, b values, s device.Shape) {
	for i := range y {
		y[i] += b[i/s.Voxels()%s[1]]
	}
}
