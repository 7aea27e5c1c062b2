package nn

import (
	"errors"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
)

// own is a device with memory of its own, as a GPU.
type own struct {
	device.Device
	free int64
}

func (o own) Memory() (free, total int64, err error) { return o.free, 2 * o.free, nil }

func (own) Staging(device.Tensor) int64 { return 0 }

// The limit of the host's memory is not that of a device which has its own, and the other way
// round.
func TestMemoryLimitsOfHostAndDevice(t *testing.T) {
	host := cputest.New(t, cpu.Options{})
	compile := func(dev device.Device, limit int64) error {
		p := NewParams(dev, 1)
		defer p.Close()
		g := NewGraph(Train, device.Float32)
		x := g.Conv("conv", g.Input("x", 1, 1, 16, 16, 16), 8, Cube(3, 1, 1), true)
		loss, _ := g.Loss(x, g.Input("truth", 1, 16, 16, 16), LossOptions{CE: 1})
		prog, err := Compile(dev, g, p, Options{Loss: loss, MemoryLimit: limit, Reserved: limit / 2})
		if err == nil {
			prog.Close()
		}
		return err
	}
	const little, much = 1 << 16, 1 << 30
	for _, c := range []struct {
		dev   device.Device
		limit int64
		fits  bool
	}{{host, little, false}, {host, much, true}, {own{host, much}, little, true}, {own{host, little}, much, false},
		{own{host, little}, 0, false}} {
		err := compile(c.dev, c.limit)
		if (err == nil) != c.fits || err != nil && !errors.As(err, new(*MemoryError)) {
			t.Errorf("%T, limit %d: %v", c.dev, c.limit, err)
		}
	}
}
