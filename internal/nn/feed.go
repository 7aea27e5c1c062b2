package nn

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// feed is an input whose next values come to the device while it computes: see [Options].Ahead.
type feed struct {
	way  device.Feed
	sent []float32 // what the way holds; nil: nothing
}

// holds says whether these very values were sent.
func (f *feed) holds(values []float32) bool {
	return len(f.sent) == len(values) && len(values) > 0 && &f.sent[0] == &values[0]
}

// send begins to copy values.
func (f *feed) send(values []float32) error {
	f.sent = nil
	if err := f.way.Send(values); err != nil {
		return err
	}
	f.sent = values
	return nil
}

// set writes values where the program reads them; those that were sent need not be copied again.
func (f *feed) set(to device.Buffer, values []float32) error {
	if !f.holds(values) {
		if err := f.send(values); err != nil {
			return err
		}
	}
	f.sent = nil
	return f.way.Deliver(to)
}

// Ahead begins to copy the values that the next [Program.Set] of an input will be given, the same
// slice, while the device works on what was started before. The values must stay as they are until
// then. A Set with other values drops them. It does nothing for inputs that [Options].Ahead does
// not name, and on devices that cannot.
func (p *Program) Ahead(input string, values []float32) error {
	_, err := p.input(input, values)
	f := p.feeds[input]
	if err != nil || f == nil {
		return err
	}
	return p.timed("ahead "+input, len(values), func() error { return f.send(values) })
}

// feed takes the memory of the inputs that are set ahead. It counts among that of the program.
func (c *compiler) feed() error {
	feeder, ok := c.dev.(device.Feeder)
	if !ok {
		return nil
	}
	for _, name := range c.o.Ahead {
		l, ok := c.g.byName[name]
		if !ok || l.kind != input || c.o.Links[name] != nil {
			return fmt.Errorf("values of %q are to be sent ahead, which is no input that is set", name)
		}
		t := l.node.tensor()
		n := feeder.FeedBytes(t)
		c.p.programs, c.taken = c.p.programs+n, c.taken+n
		if err := c.fits(0); err != nil {
			return err
		}
		way, err := feeder.NewFeed(t)
		if err != nil {
			return err
		}
		c.feeds[name] = &feed{way: way}
	}
	return nil
}
