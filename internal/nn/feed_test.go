package nn

import (
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
)

// feeder is a device with feeds, which upload what they deliver. It counts what they do.
type feeder struct {
	device.Device
	open, sends, deliveries int
}

func (d *feeder) FeedBytes(device.Tensor) int64 { return 1000 }

func (d *feeder) NewFeed(t device.Tensor) (device.Feed, error) {
	d.open++
	return &way{d: d, tensor: t}, nil
}

type way struct {
	d      *feeder
	tensor device.Tensor
	values []float32
}

func (w *way) Send(values []float32) error {
	w.d.sends++
	w.values = slices.Clone(values)
	return nil
}

func (w *way) Deliver(dst device.Buffer) error {
	w.d.deliveries++
	return w.d.Upload(dst, w.tensor, w.values)
}

func (w *way) Close() { w.d.open-- }

// Values that were sent ahead are not sent again, others are, and the program computes with what
// Set was given in either case.
func TestAhead(t *testing.T) {
	host := cputest.New(t, cpu.Options{})
	dev := &feeder{Device: host}
	p := NewParams(dev, 1)
	defer p.Close()
	compile := func(ahead ...string) (*Program, error) {
		g := NewGraph(Eval, device.Float32)
		y := g.Add(g.Input("x", 4), g.Input("z", 4))
		return Compile(dev, g, p, Options{Outputs: map[string]*Node{"y": y}, Ahead: ahead})
	}
	for _, name := range []string{"y", "nothing"} {
		if _, err := compile("x", name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is sent ahead: %v", name, err)
		}
	}
	if dev.open != 0 || p.programs != 0 {
		t.Fatalf("programs that did not come about left %d feeds, %d bytes", dev.open, p.programs)
	}
	program, err := compile("x")
	if err != nil {
		t.Fatal(err)
	}
	if want := program.Bytes() + 1000; p.programs != want {
		t.Errorf("the program counts for %d bytes, want %d", p.programs, want)
	}
	first, second, z := []float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}, []float32{1, 1, 1, 1}
	for _, step := range []struct {
		ahead, set []float32
		sends      int
	}{{nil, first, 1}, {second, second, 1}, {first, second, 2}, {nil, slices.Clone(first), 1}} {
		dev.sends, dev.deliveries = 0, 0
		if step.ahead != nil {
			err = program.Ahead("x", step.ahead)
		}
		for _, e := range []error{err, program.Ahead("z", z), program.Set("x", step.set), program.Set("z", z),
			program.Forward()} {
			if e != nil {
				t.Fatal(e)
			}
		}
		y := make([]float32, 4)
		if err := program.Read("y", y); err != nil {
			t.Fatal(err)
		}
		if y[0] != step.set[0]+1 || y[3] != step.set[3]+1 || dev.sends != step.sends || dev.deliveries != 1 {
			t.Errorf("%v sent ahead, %v set: %v after %d sends and %d deliveries; want %d and 1", step.ahead, step.set,
				y, dev.sends, dev.deliveries, step.sends)
		}
	}
	if program.Ahead("x", z[:2]) == nil || program.Ahead("none", z) == nil {
		t.Error("too few values, or those of no input, were sent ahead")
	}
	program.Close()
	if dev.open != 0 || p.programs != 0 {
		t.Errorf("a program that was closed left %d feeds, %d bytes", dev.open, p.programs)
	}
}
