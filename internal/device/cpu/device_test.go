package cpu

import (
	"fmt"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
)

var _ device.Device = (*CPU)(nil)

// everyDevice calls f with a device for each instruction set of this machine, with more workers than many a kernel has items; the best one also with one worker.
func everyDevice(t *testing.T, f func(t *testing.T, c *CPU)) {
	for i, ks := range availableKernels() {
		for _, threads := range []int{3, 1} {
			if i > 0 && threads == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", ks.name, threads), func(t *testing.T) {
				t.Setenv("VOXSAW_CPU", ks.name)
				c, err := New(Options{Threads: threads})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				f(t, c)
			})
		}
	}
}

func TestDevice(t *testing.T) {
	everyDevice(t, func(t *testing.T, c *CPU) { devicetest.All(t, c) })
}

func BenchmarkDevice(b *testing.B) {
	c, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	devicetest.Bench(b, c)
}
