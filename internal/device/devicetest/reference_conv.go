package devicetest

import "github.com/voxsaw/voxsaw/internal/device"

// eachTap calls f with the index of every x, w and y that the convolution multiplies: y[iy] +=
// x[ix] w[iw]. With groups, an output sees the inputs of its own group.
func eachTap(s device.ConvSpec, f func(ix, iw, iy int)) {
	o, ofGroup := s.OutSize(), s.OfGroup()
	iy := 0
	for n := range s.N {
		for out := range s.Out {
			for od := range o[0] {
				for oh := range o[1] {
					for ow := range o[2] {
						for in := range ofGroup.In {
							for kd := range s.Kernel[0] {
								d := od*s.Stride[0] + kd - s.Pad[0]
								if d < 0 || d >= s.Size[0] {
									continue
								}
								for kh := range s.Kernel[1] {
									h := oh*s.Stride[1] + kh - s.Pad[1]
									if h < 0 || h >= s.Size[1] {
										continue
									}
									ix := (((n*s.In+out/ofGroup.Out*ofGroup.In+in)*s.Size[0]+d)*s.Size[1] +
										h) * s.Size[2]
									iw := (((out*ofGroup.In+in)*s.Kernel[0]+kd)*s.Kernel[1] + kh) * s.Kernel[2]
									first := ow*s.Stride[2] - s.Pad[2]
									for kw := max(0, -first); kw < min(s.Kernel[2], s.Size[2]-first); kw++ {
										f(ix+first+kw, iw+kw, iy)
									}
								}
							}
						}
						iy++
					}
				}
			}
		}
	}
}

func (reference) Conv(s device.ConvSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		x, w, y := in[0], in[1], out[0]
		clear(y)
		if s.Bias {
			addBias(y, in[2], s.YShape())
		}
		eachTap(s, func(ix, iw, iy int) { y[iy] += x[ix] * w[iw] })
	}), s.Check()
}

func (reference) ConvTransposed(s device.ConvSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		y, w, x := in[0], in[1], out[0]
		clear(x)
		if s.Bias {
			addBias(x, in[2], s.XShape())
		}
		eachTap(s, func(ix, iw, iy int) { x[ix] += y[iy] * w[iw] })
	}), s.Check()
}

func (reference) ConvGradWeights(s device.ConvSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		x, dy, dw := in[0], in[1], out[0]
		clear(dw)
		eachTap(s, func(ix, iw, iy int) { dw[iw] += x[ix] * dy[iy] })
	}), s.Check()
}

func addBias(y, b values, s device.Shape) {
	for i := range y {
		y[i] += b[i/s.Voxels()%s[1]]
	}
}
