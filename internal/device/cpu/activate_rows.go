package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// activateRows and activateGradRows are for matrices (rows, channels): features under a head, too
// small to be worth more than a loop.
type activateRows struct{ s device.ActivateSpec }

func (k *activateRows) Scratch() int64 { return 0 }

func (k *activateRows) Run(out, in []device.Buffer, _ device.Buffer) {
	ins := operands{in}
	y, x := out[0].(Slice), ins.next()
	r, slope := rowOperands(k.s, &ins)
	for i := range k.s.Shape.Elements() {
		z, _ := rowArgument(k.s, x, r, i)
		switch {
		case k.s.Act == device.Identity || z > 0:
			y[i] = z
		case k.s.Act == device.ELU:
			y[i] = exp(z) - 1
		case k.s.Act == device.PReLU:
			y[i] = z * slope[i%k.s.Shape[1]]
		default:
			y[i] = z * 0 // NaN stays NaN
		}
	}
}

type activateGradRows struct{ s device.ActivateSpec }

func (k *activateGradRows) Scratch() int64 { return 0 }

func (k *activateGradRows) Run(out, in []device.Buffer, _ device.Buffer) {
	ins, outs := operands{in}, operands{out}
	dy, x := ins.next(), ins.next()
	r, slope := rowOperands(k.s, &ins)
	dx := outs.next()
	var dr, dslope Slice
	if k.s.Residual == device.TiledResidual && !k.s.ResidualGradIsDX() {
		dr = outs.next()
		clear(dr)
	}
	if k.s.Act == device.PReLU {
		dslope = outs.next()
		clear(dslope)
	}
	sum := outs.next()
	clear(sum)
	for i := range k.s.Shape.Elements() {
		z, residual := rowArgument(k.s, x, r, i)
		dz := dy[i]
		if k.s.Act != device.Identity && !(z > 0) {
			switch k.s.Act {
			case device.ELU:
				dz *= exp(z)
			case device.PReLU:
				dslope[i%k.s.Shape[1]] += dz * z
				dz *= slope[i%k.s.Shape[1]]
			default:
				dz = 0
			}
		}
		dx[i] = dz
		sum[i%k.s.Shape[1]] += dz
		if dr != nil {
			dr[residual] += dz
		}
	}
}

// rowOperands are the residual and the slopes, nil where the spec has none.
func rowOperands(s device.ActivateSpec, list *operands) (r, slope Slice) {
	if s.Residual != device.NoResidual {
		r = list.next()
	}
	if s.Act == device.PReLU {
		slope = list.next()
	}
	return r, slope
}

// rowArgument is what element i's activation is taken of, and the index of its residual.
func rowArgument(s device.ActivateSpec, x, r Slice, i int) (z float32, residual int) {
	switch s.Residual {
	case device.FullResidual:
		return x[i] + r[i], i
	case device.TiledResidual:
		return x[i] + r[i/s.Shape[1]], i / s.Shape[1]
	}
	return x[i], 0
}
