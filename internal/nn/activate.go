package nn

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// Normalise, add, activate; the operands are those of [device.ActivateSpec]:
//
//	activate      y, [statistics]               <- x, [gamma, beta], [running mean, running variance], [r], [slope]
//	activateGrad  dx, [dgamma, dbeta], [dr, unless it is dx], [dslope], sum of dx <- dy, x, [gamma, beta, statistics], [r], [slope]
type (
	activate     struct{ device.ActivateSpec }
	activateGrad struct{ device.ActivateSpec }
)

var (
	normNames = map[device.Norm]string{device.InstanceNorm: " instance norm", device.BatchNorm: " batch norm",
		device.GroupNorm: " group norm"}
	activationNames = map[device.Activation]string{device.ReLU: " relu", device.PReLU: " prelu", device.ELU: " elu"}
	residualNames   = map[device.Residual]string{device.FullResidual: " + residual",
		device.TiledResidual: " + tiled residual"}
)

func activateString(what string, s device.ActivateSpec) string {
	return fmt.Sprintf("%s%s%s%s %s", what, normNames[s.Norm], residualNames[s.Residual], activationNames[s.Act],
		shapeString(s.Shape))
}

// channels is the shape of gamma, beta, slope.
func (o activate) channels() device.Shape { return device.Shape{o.Shape[1]} }

// residual is the shape of r.
func (o activate) residual() device.Shape {
	r := append(device.Shape{}, o.Shape...)
	if o.Residual == device.TiledResidual {
		r[1] = 1
	}
	return r
}

func (o activate) operands() []device.Shape {
	s := []device.Shape{o.Shape}
	if o.Norm != device.NoNorm {
		s = append(s, o.channels(), o.channels())
	}
	if o.Norm == device.BatchNorm {
		s = append(s, o.channels(), o.channels())
	}
	if o.Residual != device.NoResidual {
		s = append(s, o.residual())
	}
	if o.Act == device.PReLU {
		s = append(s, o.channels())
	}
	return s
}

func (o activate) results() []result {
	r := []result{activation(o.Shape, o.Type)}
	if o.Norm != device.NoNorm {
		r = append(r, plain(o.StatisticsShape()))
	}
	return r
}

func (o activate) kernel(dev device.Device) (device.Kernel, error) {
	return dev.Activate(o.ActivateSpec)
}
func (o activate) String() string { return activateString("activate", o.ActivateSpec) }

func (o activate) overwrites() []exec.Over {
	if o.Residual == device.FullResidual {
		r := slices.IndexFunc(o.operands()[1:], func(s device.Shape) bool { return s.Equal(o.Shape) }) + 1
		return []exec.Over{{Out: 0, In: 0}, {Out: 0, In: r}}
	}
	return []exec.Over{{Out: 0, In: 0}}
}

func (o activate) wrt() []bool {
	w := all(len(o.operands()))
	if o.Norm == device.BatchNorm {
		w[3], w[4] = false, false
	}
	return w
}

func (o activate) gradient(r *rule, in []*G.Node, out, dy *G.Node) []*G.Node {
	rest := in[1:]
	operands := []*G.Node{dy, in[0]}
	if o.Norm != device.NoNorm {
		operands = append(operands, rest[0], rest[1], r.pick(out, 1))
		rest = rest[2:]
	}
	if o.Norm == device.BatchNorm {
		rest = rest[2:]
	}
	operands = append(operands, rest...)
	dx := r.apply(activateGrad(o), operands...)

	grads, next := []*G.Node{dx}, 1
	for i, wanted := range o.wrt()[1:] {
		if !wanted {
			grads = append(grads, nil)
			continue
		}
		if i == 0 && o.ResidualGradIsDX() { // without norm the residual is the second operand
			grads = append(grads, dx)
			continue
		}
		grads = append(grads, r.pick(dx, next))
		next++
	}
	return grads
}

func (o activateGrad) operands() []device.Shape {
	a := activate(o)
	s := []device.Shape{o.Shape, o.Shape}
	if o.Norm != device.NoNorm {
		s = append(s, a.channels(), a.channels(), o.StatisticsShape())
	}
	if o.Residual != device.NoResidual {
		s = append(s, a.residual())
	}
	if o.Act == device.PReLU {
		s = append(s, a.channels())
	}
	return s
}

func (o activateGrad) results() []result {
	a := activate(o)
	r := []result{activation(o.Shape, o.Type)}
	if o.Norm != device.NoNorm {
		r = append(r, plain(a.channels()), plain(a.channels()))
	}
	if o.Residual != device.NoResidual && !o.ResidualGradIsDX() {
		r = append(r, activation(a.residual(), o.Type))
	}
	if o.Act == device.PReLU {
		r = append(r, plain(a.channels()))
	}
	return append(r, plain(a.channels()))
}

func (o activateGrad) overwrites() []exec.Over {
	const dy, x, dx = 0, 1, 0
	switch {
	case o.Norm == device.NoNorm:
		return []exec.Over{{Out: dx, In: dy}, {Out: dx, In: x}}
	case o.Residual == device.FullResidual:
		const dr, r = 3, 5
		return []exec.Over{{Out: dx, In: x}, {Out: dr, In: r}, {Out: dx, In: dy}, {Out: dr, In: dy}}
	}
	return []exec.Over{{Out: dx, In: dy}}
}

func (o activateGrad) sumsChannels() {}

func (o activateGrad) kernel(dev device.Device) (device.Kernel, error) {
	return dev.ActivateGrad(o.ActivateSpec)
}
func (o activateGrad) String() string { return activateString("activateGrad", o.ActivateSpec) }
