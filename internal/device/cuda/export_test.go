//go:build gpu

package cuda

import (
	"testing"

	"gorgonia.org/cu"
)

// What tests from outside the package need.

// OpenSimulated opens the simulated GPU.
func OpenSimulated(t testing.TB, precision string) *Device {
	return openSimulated(t, Precision(precision))
}

// OpenWithCuDNN opens it with the simulated cuDNN.
func OpenWithCuDNN(t testing.TB, precision string, choices map[string]string) *Device {
	return openWithCuDNN(t, Precision(precision), choices)
}

// Precision names how products are multiplied.
func Precision(name string) precision { return precision(name) }

// Calls are how often functions of the driver were called, as the simulated one counts them.
type Calls struct {
	TakesOrGives  int // allocations of any memory, streams, events, graphs, modules, and their ends
	Downloads     int
	Launches      int // of kernels, apart from those that a graph starts
	GraphLaunches int
	Waits         int // for a stream
}

// firstCount is the attribute of the device with the first count, as sim/driver.cc has it.
const firstCount = 1000000

// Calls reads the counts.
func (d *Device) Calls(t testing.TB) (c Calls) {
	t.Helper()
	for i, to := range []*int{&c.TakesOrGives, &c.Downloads, &c.Launches, &c.GraphLaunches, &c.Waits} {
		n, err := d.gpu.Attribute(cu.DeviceAttribute(firstCount + i))
		if err != nil {
			t.Fatal(err)
		}
		*to = n
	}
	return c
}

// Held is how many pieces of pinned memory, events and graphs the simulated driver has made and not
// got back, of all devices of the process.
func (d *Device) Held(t testing.TB) int {
	t.Helper()
	n, err := d.gpu.Attribute(firstCount + 5)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Taken is how many bytes of the GPU's memory the device holds, and how many of them are for
// uploads.
func (d *Device) Taken() (all, staging int64) {
	if s := d.staging.onGPU; s != nil {
		staging = s.bytes
	}
	return d.taken, staging
}

// Sub is what was called in between.
func (c Calls) Sub(before Calls) Calls {
	return Calls{c.TakesOrGives - before.TakesOrGives, c.Downloads - before.Downloads, c.Launches - before.Launches,
		c.GraphLaunches - before.GraphLaunches, c.Waits - before.Waits}
}
