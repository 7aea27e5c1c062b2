//go:build gpu

package cuda

/*
#include "open.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/voxsaw/voxsaw/internal/device"
)

// recording is a CUDA graph: a [device.Recording].
type recording struct {
	d     *Device
	graph C.CUgraphExec
}

// Record implements [device.Recorder].
func (d *Device) Record(start func()) (device.Recording, error) {
	if err := d.Sync(); err != nil {
		return nil, err
	}
	// a capture belongs to the thread that began it
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := check(C.vs_begin_capture(d.ctx(), d.queue())); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	d.recording, d.misused = true, false
	start()
	d.recording = false
	r := &recording{d: d}
	err := errors.Join(check(C.vs_end_capture(d.ctx(), d.queue(), &r.graph)), d.err)
	if d.misused {
		err = errors.Join(err, errRecording)
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("recording: %w", err)
	}
	d.live[r] = true
	return r, nil
}

// Run implements [device.Recording].
func (r *recording) Run() error {
	if r.d.err == nil {
		r.d.fail("running a recording", check(C.vs_launch_graph(r.d.ctx(), r.graph, r.d.queue())))
	}
	return r.d.err
}

// Close implements [device.Recording].
func (r *recording) Close() {
	if r.graph != nil && !r.d.closed && r.d.Sync() == nil {
		r.d.fail("closing a recording", check(C.vs_close_graph(r.d.ctx(), r.graph)))
	}
	r.graph = nil
	delete(r.d.live, r)
}

// Time implements [device.Timer].
func (d *Device) Time(start func()) (seconds float64, err error) {
	var events [2]cu.Event
	defer func() {
		d.destroy(&events[0])
		d.destroy(&events[1])
	}()
	err = d.locked(func() error {
		for i := range events {
			if events[i], err = cu.MakeEvent(cu.DefaultEvent); err != nil {
				return err
			}
		}
		return events[0].Record(d.stream)
	})
	if err != nil {
		return 0, fmt.Errorf("timing: %w", err)
	}
	start()
	var ms C.float
	err = d.locked(func() error {
		if err := events[1].Record(d.stream); err != nil {
			return err
		}
		if err := d.Sync(); err != nil {
			return err
		}
		from, to := *(*C.CUevent)(unsafe.Pointer(&events[0])), *(*C.CUevent)(unsafe.Pointer(&events[1]))
		return check(C.vs_elapsed(d.ctx(), from, to, &ms))
	})
	return float64(ms) / 1e3, err
}
