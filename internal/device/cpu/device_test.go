package cpu

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
)

var _ device.Device = (*CPU)(nil)

// everyDevice calls f with a device for each instruction set of this machine, with more workers
// than many a kernel has items.
func everyDevice(t *testing.T, f func(t *testing.T, c *CPU)) {
	for _, ks := range availableKernels() {
		t.Run(ks.name, func(t *testing.T) {
			t.Setenv("VOXSAW_CPU", ks.name)
			c, err := New(Options{Threads: 3})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f(t, c)
		})
	}
}

func TestDevice(t *testing.T) {
	everyDevice(t, func(t *testing.T, c *CPU) { devicetest.All(t, guarded(t, c)) })
}

// Runs are described by their device, which people read.
func TestDescribeOneThread(t *testing.T) {
	for threads, want := range map[int]string{1: ", 1 thread", 3: ", 3 threads"} {
		c, err := New(Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Describe(); !strings.HasSuffix(got, want) {
			t.Errorf("%q does not end with %q", got, want)
		}
		c.Close()
	}
}

func BenchmarkDevice(b *testing.B) {
	c, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	devicetest.Bench(b, c)
}
