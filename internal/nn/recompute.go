package nn

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// Recompute says what is computed again instead of being kept between the forward and the backward
// part.
type Recompute string

// The choices: RecomputeAuto computes activations and concatenations again where that makes the
// program smaller, and convolutions where the memory limit leaves no other way; RecomputeNone keeps
// everything; RecomputeAll makes the program as small as can be, whatever that costs.
const (
	RecomputeAuto Recompute = "auto"
	RecomputeNone Recompute = "none"
	RecomputeAll  Recompute = "all"
)

// price says at which price an operator may run a second time: it must depend on nothing but its
// operands and leave nothing but its results.
func price(o operator) exec.Recompute {
	switch o := o.(type) {
	case activate:
		if o.Norm == device.BatchNorm && o.Training {
			return exec.Never // it moves the running statistics
		}
		return exec.Cheap
	case concat, split, scaleChannels, scale, add, flatten, unflatten:
		return exec.Cheap
	case conv, convTransposed, matMul, pool, lrn, roiPool:
		return exec.Dear
	}
	return exec.Never
}

// plan decides where everything lies, with as much computed again as the options ask for.
func (c *compiler) plan() (*exec.Plan, error) {
	o := exec.PlanOptions{Recompute: exec.Cheap, Held: c.p.Total() + c.o.Reserved}
	switch c.o.Recompute {
	case RecomputeAuto, "":
		room := c.o.MemoryLimit - o.Held
		if c.o.Share != nil {
			room = max(room, c.o.Share.run.Bytes())
		}
		if c.o.MemoryLimit > 0 && room > 0 {
			o.Recompute, o.Target = exec.Dear, room
		}
	case RecomputeNone:
		o.Recompute = exec.Never
	case RecomputeAll:
		o.Recompute, o.Target = exec.Dear, 1
	default:
		return nil, fmt.Errorf("recompute %q: want auto, none or all", c.o.Recompute)
	}
	return c.b.Plan(o)
}
