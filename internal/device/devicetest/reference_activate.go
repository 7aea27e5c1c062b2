package devicetest

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// activateOperands are the operands that Activate and ActivateGrad share, nil where the spec has
// none.
type activateOperands struct{ x, gamma, beta, mean, scale, r, slope values }

// statistic is the index of the mean that element i of x belongs to.
func statistic(s device.ActivateSpec, i int) int {
	channel, image := i/s.Shape.Voxels()%s.Shape[1], i/s.Shape.Voxels()/s.Shape[1]
	switch s.Norm {
	case device.InstanceNorm:
		return image*s.Shape[1] + channel
	case device.GroupNorm:
		return image*s.Groups + channel/(s.Shape[1]/s.Groups)
	default:
		return channel
	}
}

// z is the argument of the activation at element i, normalised is (x - mean) / sqrt(variance +
// Epsilon).
func (o activateOperands) z(s device.ActivateSpec, i int) (z, normalised float64) {
	channel := i / s.Shape.Voxels() % s.Shape[1]
	z = o.x[i]
	if s.Norm != device.NoNorm {
		g := statistic(s, i)
		normalised = (o.x[i] - o.mean[g]) * o.scale[g]
		z = normalised*o.gamma[channel] + o.beta[channel]
	}
	if s.Residual != device.NoResidual {
		z += o.r[residual(s, i)]
	}
	return z, normalised
}

// residual is the index in r of what is added to element i.
func residual(s device.ActivateSpec, i int) int {
	if s.Residual == device.TiledResidual {
		return i/s.Shape.Voxels()/s.Shape[1]*s.Shape.Voxels() + i%s.Shape.Voxels()
	}
	return i
}

func (reference) Activate(s device.ActivateSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		next := operands(in)
		o := activateOperands{x: next()}
		var runningMean, runningVariance values
		if s.Norm != device.NoNorm {
			o.gamma, o.beta = next(), next()
			o.mean, o.scale = out[1][:len(out[1])/2], out[1][len(out[1])/2:]
			if s.Norm == device.BatchNorm {
				runningMean, runningVariance = next(), next()
			}
			normalise(s, o, runningMean, runningVariance)
		}
		if s.Residual != device.NoResidual {
			o.r = next()
		}
		if s.Act == device.PReLU {
			o.slope = next()
		}
		for i := range o.x {
			z, _ := o.z(s, i)
			out[0][i], _ = activation(s, z, o.slope, i)
		}
	}), s.Check()
}

// operands hands out a list one by one.
func operands(list []values) func() values {
	return func() values {
		v := list[0]
		list = list[1:]
		return v
	}
}

// activation returns act(z) and its derivative for element i.
func activation(s device.ActivateSpec, z float64, slope values, i int) (y, derivative float64) {
	if s.Act == device.Identity || z > 0 {
		return z, 1
	}
	switch s.Act {
	case device.PReLU:
		a := slope[i/s.Shape.Voxels()%s.Shape[1]]
		return a * z, a
	case device.ELU:
		return math.Expm1(z), math.Exp(z)
	default:
		return 0 * z, 0 // NaN stays NaN
	}
}

// normalise fills the statistics.
func normalise(s device.ActivateSpec, o activateOperands, runningMean, runningVariance values) {
	groups := len(o.mean)
	if s.Norm == device.BatchNorm && !s.Training {
		for g := range groups {
			o.mean[g] = runningMean[g]
			o.scale[g] = 1 / math.Sqrt(runningVariance[g]+float64(s.Epsilon))
		}
		return
	}
	count := float64(len(o.x) / groups)
	mean, variance := make(values, groups), make(values, groups)
	for i, x := range o.x {
		mean[statistic(s, i)] += x / count
	}
	for i, x := range o.x {
		g := statistic(s, i)
		variance[g] += (x - mean[g]) * (x - mean[g]) / count
	}
	for g := range groups {
		o.mean[g] = mean[g]
		o.scale[g] = 1 / math.Sqrt(variance[g]+float64(s.Epsilon))
		if s.Norm == device.BatchNorm {
			m := float64(s.Momentum)
			runningMean[g] = (1-m)*runningMean[g] + m*mean[g]
			runningVariance[g] = (1-m)*runningVariance[g] + m*variance[g]*count/(count-1)
		}
	}
}

// ActivateGrad: with dz = dy act'(z), n = normalised x, and means over the statistics' group,
//
//	dgamma = sum dz n,  dbeta = sum dz,  dr = dz,  sum = sum dx,
//	dx = scale (gamma dz - mean(gamma dz) - n mean(gamma dz n))
func (reference) ActivateGrad(s device.ActivateSpec) (device.Kernel, error) {
	return kernel(func(out, in []values) {
		next := operands(in)
		dy := next()
		o := activateOperands{x: next()}
		if s.Norm != device.NoNorm {
			o.gamma, o.beta = next(), next()
			r := next()
			o.mean, o.scale = r[:len(r)/2], r[len(r)/2:]
		}
		if s.Residual != device.NoResidual {
			o.r = next()
		}
		if s.Act == device.PReLU {
			o.slope = next()
		}
		next = operands(out)
		dx := next()
		dgamma, dbeta, dr, dslope := make(values, s.Shape[1]), make(values, s.Shape[1]), make(values, len(dy)),
			make(values, s.Shape[1])
		if s.Norm != device.NoNorm {
			dgamma, dbeta = next(), next()
		}
		if s.Residual != device.NoResidual && !s.ResidualGradIsDX() {
			dr = next()
		}
		if s.Act == device.PReLU {
			dslope = next()
		}
		sum := next()
		clear(sum)
		for _, v := range []values{dgamma, dbeta, dr, dslope} {
			clear(v)
		}
		dz, mean, meanN := make(values, len(dy)), make(values, len(o.mean)), make(values, len(o.mean))
		for i := range dy {
			channel := i / s.Shape.Voxels() % s.Shape[1]
			z, n := o.z(s, i)
			_, derivative := activation(s, z, o.slope, i)
			dz[i] = dy[i] * derivative
			dgamma[channel] += dz[i] * n
			dbeta[channel] += dz[i]
			if s.Residual != device.NoResidual {
				dr[residual(s, i)] += dz[i]
			}
			if s.Act == device.PReLU && !(z > 0) {
				dslope[channel] += dy[i] * z
			}
			if s.Norm != device.NoNorm {
				count := float64(len(dy) / len(o.mean))
				mean[statistic(s, i)] += dz[i] * o.gamma[channel] / count
				meanN[statistic(s, i)] += dz[i] * o.gamma[channel] * n / count
			}
		}
		for i := range dx {
			channel := i / s.Shape.Voxels() % s.Shape[1]
			dx[i] = dz[i]
			if s.Norm != device.NoNorm {
				g := statistic(s, i)
				dx[i] *= o.gamma[channel]
				if s.Norm != device.BatchNorm || s.Training {
					_, n := o.z(s, i)
					dx[i] -= mean[g] + n*meanN[g]
				}
				dx[i] *= o.scale[g]
			}
			sum[channel] += dx[i]
		}
	}), s.Check()
}
