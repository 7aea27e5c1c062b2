package devicetest

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// plain is the reference without what a device may lack.
type plain struct{ device.Device }

func (plain) Naive() {}

// Kernels for puzzles that are composed of others compute what a device's own do.
func TestComposedKernels(t *testing.T) {
	dev := plain{NewReference()}
	if _, own := device.Device(dev).(device.PuzzleKernels); own {
		t.Fatal("the device has kernels of its own for puzzles")
	}
	Rows(t, dev)
}
