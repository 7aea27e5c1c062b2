//go:build gpu

package cuda

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Inputs that cross the bus while the GPU computes: a [device.Feed]. Copies to the device go to a
// stream of their own, into one of two buffers by turns. Both lie outside the arena of any program.
// A kernel of the main stream then turns the tensor to its layout and writes it where the program
// wants it. That address never changes, so recorded graphs stay valid and one graph serves both
// buffers. The kernel reads and writes a batch once, as uploads always did for tensors that lie
// otherwise on the device.
//
// Three events keep the order, for each buffer:
//
//   - the main stream waits for arrived before it reads the buffer on the device;
//   - the stream of copies waits for read before it writes over that buffer;
//   - the host waits for arrived before it writes over the pinned memory that the copy reads.

// feed is the way of an input to the device.
type feed struct {
	d      *Device
	tensor device.Tensor
	turn   int // of the slot that was filled last
	sent   bool
	slots  [2]feedSlot
	turner *kernel // to the layout and type of the tensor
}

// feedSlot is memory for a tensor on its way.
type feedSlot struct {
	host  []float32 // pinned
	onGPU *Buffer
	// after the copy to the device; after the last kernel that reads it there
	arrived, read cu.Event
}

// FeedBytes implements [device.Feeder].
func (d *Device) FeedBytes(t device.Tensor) int64 {
	return int64(len(feed{}.slots)) * 4 * int64(t.Shape.Elements())
}

// NewFeed implements [device.Feeder].
func (d *Device) NewFeed(t device.Tensor) (device.Feed, error) {
	lies := t
	if isPlain(t) {
		lies.Shape = device.Shape{1, t.Shape.Elements()} // turning it is copying
	}
	turner, err := d.newTranspose(lies, false)
	if err != nil {
		return nil, err
	}
	f := &feed{d: d, tensor: t, turner: turner}
	for i := range f.slots {
		if err := f.slots[i].open(d, t.Shape.Elements()); err != nil {
			f.Close()
			return nil, fmt.Errorf("memory for an input of shape %v on its way to the GPU: %w", []int(t.Shape), err)
		}
	}
	d.live[f] = true
	return f, nil
}

// open takes the memory of a slot for n elements, and its events.
func (s *feedSlot) open(d *Device, n int) (err error) {
	if s.host, err = d.pin(n); err != nil {
		return err
	}
	if s.onGPU, err = d.alloc(4 * int64(n)); err != nil {
		return err
	}
	return d.locked(func() error {
		for _, e := range []*cu.Event{&s.arrived, &s.read} {
			if *e, err = cu.MakeEvent(cu.DisableTiming); err != nil {
				return fmt.Errorf("making an event: %w", err)
			}
		}
		return nil
	})
}

// Send implements [device.Feed].
func (f *feed) Send(values []float32) error {
	if len(values) != f.tensor.Shape.Elements() {
		return fmt.Errorf("sending %d elements as %v", len(values), []int(f.tensor.Shape))
	}
	d := f.d
	if d.recording || d.err != nil {
		return d.Sync() // says what is wrong
	}
	f.turn = 1 - f.turn
	s := &f.slots[f.turn]
	return d.locked(func() error {
		// events that were never recorded are over
		if err := s.arrived.Synchronize(); err != nil {
			return err
		}
		copy(s.host, values)
		if err := d.copies.Wait(s.read, 0); err != nil {
			return err
		}
		if err := d.upload(s.onGPU.address, s.host, d.copies); err != nil {
			return err
		}
		f.sent = true
		return s.arrived.Record(d.copies)
	})
}

// Deliver implements [device.Feed].
func (f *feed) Deliver(dst device.Buffer) error {
	d, b := f.d, dst.(*Buffer)
	if !f.sent || b.bytes < d.Size(f.tensor) {
		return fmt.Errorf("delivering %v into a buffer of %d bytes: sent before: %v", []int(f.tensor.Shape), b.bytes,
			f.sent)
	}
	f.sent = false
	s := &f.slots[f.turn]
	if err := d.locked(func() error { return d.stream.Wait(s.arrived, 0) }); err != nil {
		return err
	}
	f.turner.Run([]device.Buffer{b}, []device.Buffer{s.onGPU}, nil)
	return errors.Join(d.err, d.locked(func() error { return s.read.Record(d.stream) }))
}

// Close implements [device.Feed].
func (f *feed) Close() {
	d := f.d
	if d.closed { // and this with it
		return
	}
	delete(d.live, f)
	d.fail("waiting for a copy", d.locked(d.copies.Synchronize))
	for i := range f.slots {
		s := &f.slots[i]
		if s.onGPU != nil {
			d.Free(s.onGPU) // waits for the kernels that read it
		}
		d.unpin(s.host)
		d.destroy(&s.arrived)
		d.destroy(&s.read)
		*s = feedSlot{}
	}
}

// noFeed is a feed of a device that takes no memory.
type noFeed struct{}

func (noFeed) Send([]float32) error        { return nil }
func (noFeed) Deliver(device.Buffer) error { return nil }
func (noFeed) Close()                      {}

// NewFeed implements [device.Feeder].
func (rehearsal) NewFeed(device.Tensor) (device.Feed, error) { return noFeed{}, nil }
