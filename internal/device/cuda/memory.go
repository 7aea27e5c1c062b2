//go:build gpu

package cuda

/*
#include "open.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/voxsaw/voxsaw/internal/device"
)

// alignment of buffers and views in bytes: what the driver's allocations have.
const alignment = 256

// Buffer is memory on the GPU: a [device.Buffer].
type Buffer struct {
	address uint64
	bytes   int64
}

// Bytes implements [device.Buffer].
func (b *Buffer) Bytes() int64 { return b.bytes }

// Alignment implements [device.Device].
func (d *Device) Alignment() int64 { return alignment }

// Alloc implements [device.Device].
func (d *Device) Alloc(bytes int64) (device.Buffer, error) {
	b, err := d.alloc(bytes)
	if err != nil {
		return nil, err // no buffer, and not a nil *Buffer in an interface
	}
	if bytes == 0 {
		return b, nil
	}
	return b, check(C.vs_zero(d.ctx(), C.CUdeviceptr(b.address), C.size_t(bytes), d.queue()))
}

// alloc takes memory that holds anything.
func (d *Device) alloc(bytes int64) (*Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("allocating %d bytes", bytes)
	}
	if bytes == 0 {
		return &Buffer{}, nil
	}
	if d.limit > 0 && d.taken+bytes > d.limit {
		return nil, fmt.Errorf("%w: %.1f MiB were asked for, %.1f of the %.1f MiB are taken that it may use",
			errOutOfMemory, mebibytes(bytes), mebibytes(d.taken), mebibytes(d.limit))
	}
	var p cu.DevicePtr
	err := d.locked(func() (err error) { p, err = cu.MemAlloc(bytes); return err })
	if errors.Is(err, cu.OutOfMemory) {
		free, total, _ := d.Memory()
		return nil, fmt.Errorf("%w: %.1f MiB were asked for, %.1f of %.1f GiB are free", errOutOfMemory,
			mebibytes(bytes), float64(free)/(1<<30), float64(total)/(1<<30))
	}
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes on the GPU: %w", bytes, err)
	}
	d.buffers[uint64(p)] = true
	d.taken += bytes
	d.most = max(d.most, d.taken)
	return &Buffer{uint64(p), bytes}, nil
}

// MostTaken implements [device.MemoryMeter]. The context, the modules and what cuDNN takes for
// itself are not counted.
func (d *Device) MostTaken() int64 { return d.most }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// Free implements [device.Device]. It waits for what may still use the memory.
func (d *Device) Free(b device.Buffer) {
	m, ok := b.(*Buffer)
	if !ok || m.address == 0 || d.closed { // nothing was taken, or all is gone
		return
	}
	if d.Sync() != nil {
		return // nothing works any more
	}
	d.fail("freeing memory of the GPU", d.locked(func() error { return cu.MemFree(cu.DevicePtr(m.address)) }))
	delete(d.buffers, m.address)
	d.taken -= m.bytes
	*m = Buffer{}
}

// View implements [device.Device].
func (d *Device) View(b device.Buffer, offset, bytes int64) device.Buffer {
	m := b.(*Buffer)
	if offset < 0 || bytes < 0 || offset+bytes > m.bytes {
		panic(fmt.Sprintf("cuda: a view of %d bytes at %d of a buffer of %d", bytes, offset, m.bytes))
	}
	return &Buffer{m.address + uint64(offset), bytes}
}

// Memory implements [device.Accountant]. No more is free than the limit leaves.
func (d *Device) Memory() (free, total int64, err error) {
	var f, t C.size_t
	err = check(C.vs_memory(d.ctx(), &f, &t))
	if free, total = int64(f), int64(t); d.limit > 0 {
		free = max(0, min(free, d.limit-d.taken))
	}
	return free, total, err
}

// rehearsal is a GPU whose memory has no end, because it takes none: a [device.Rehearser] makes it.
type rehearsal struct {
	kernelsOf
	device.NoMemory
}

// kernelsOf puts the GPU's own methods below those of [device.NoMemory].
type kernelsOf struct{ *Device }

// Rehearse implements [device.Rehearser].
func (d *Device) Rehearse() device.Device { return rehearsal{kernelsOf: kernelsOf{d}} }

// Memory implements [device.Accountant].
func (rehearsal) Memory() (free, total int64, err error) { return 1 << 60, 1 << 60, nil }

// Size implements [device.Device].
func (d *Device) Size(t device.Tensor) int64 { return int64(t.Shape.Elements()) * t.Type.Bytes() }

// WeightsSize implements [device.Device].
func (d *Device) WeightsSize(s device.Shape) int64 { return 4 * int64(s.Elements()) }

// --- Copies

// staging is memory through which copies go: pinned on the host, so that the GPU can fetch by
// itself, and on the device, where tensors are turned to their layout.
type staging struct {
	// uploads take turns: the host fills one while the GPU fetches from the other
	host  [2]hostStage
	turn  int
	onGPU *Buffer
}

// hostStage is pinned memory of the host, and the event after the last copy from it.
type hostStage struct {
	memory []float32
	event  cu.Event
	copied bool // the event was recorded
}

// hostStage is at least n elements of pinned memory that no copy reads any more.
func (d *Device) hostStage(n int) (*hostStage, error) {
	if d.recording || d.err != nil {
		return nil, d.Sync() // says what is wrong
	}
	d.staging.turn = 1 - d.staging.turn
	s := &d.staging.host[d.staging.turn]
	if s.copied {
		if err := d.locked(s.event.Synchronize); err != nil {
			d.fail("waiting for a copy", err)
			return nil, d.err
		}
		s.copied = false
	}
	if len(s.memory) >= n {
		return s, nil
	}
	if s.memory == nil {
		if err := d.locked(func() (err error) {
			s.event,
				err = cu.MakeEvent(cu.DisableTiming)
			return err
		}); err != nil {
			return nil, fmt.Errorf("making an event: %w", err)
		}
	}
	d.unpin(s.memory)
	var err error
	s.memory, err = d.pin(max(n, 1<<18))
	return s, err
}

// gpuStage is n float32 on the device, which the stream's earlier work may still use.
func (d *Device) gpuStage(n int) (*Buffer, error) {
	if s := d.staging.onGPU; s != nil && s.bytes >= 4*int64(n) {
		return s, nil
	}
	if d.staging.onGPU != nil {
		d.Free(d.staging.onGPU)
		d.staging.onGPU = nil
	}
	b, err := d.alloc(stagingBytes(n))
	d.staging.onGPU = b
	return b, err
}

// stagingBytes is the memory on the device through which a copy of n elements goes.
func stagingBytes(n int) int64 { return 4 * int64(max(n, 1<<18)) }

// Staging implements [device.Accountant].
func (d *Device) Staging(t device.Tensor) int64 {
	if isPlain(t) {
		return 0
	}
	return stagingBytes(t.Shape.Elements())
}

func (s *staging) close(d *Device) {
	for i := range s.host {
		d.unpin(s.host[i].memory)
		d.destroy(&s.host[i].event)
	}
	*s = staging{}
}

// pin takes pinned memory of the host.
func (d *Device) pin(n int) ([]float32, error) {
	var p unsafe.Pointer
	if err := check(C.vs_pin(d.ctx(), &p, C.size_t(4*max(n, 1)))); err != nil {
		return nil, fmt.Errorf("pinning %d bytes of the host's memory: %w", 4*n, err)
	}
	return unsafe.Slice((*float32)(p), n), nil
}

func (d *Device) unpin(s []float32) {
	if len(s) > 0 {
		d.fail("freeing pinned memory", check(C.vs_unpin(d.ctx(), unsafe.Pointer(&s[0]))))
	}
}

// destroy gives an event back, if there is one.
func (d *Device) destroy(e *cu.Event) {
	if *e != (cu.Event{}) {
		d.fail("giving an event back", d.locked(func() error { return cu.DestroyEvent(e) }))
		*e = cu.Event{}
	}
}

// up copies elements to an address.
func (d *Device) up(to uint64, src []float32) error {
	if len(src) == 0 {
		return nil
	}
	stage, err := d.hostStage(len(src))
	if err != nil {
		return err
	}
	copy(stage.memory, src)
	if err := d.upload(to, stage.memory[:len(src)], d.stream); err != nil {
		return err
	}
	stage.copied = true
	return d.locked(func() error { return stage.event.Record(d.stream) })
}

// upload begins to copy pinned memory to an address, on a stream.
func (d *Device) upload(to uint64, from []float32, s cu.Stream) error {
	return check(C.vs_upload(d.ctx(), C.CUdeviceptr(to), unsafe.Pointer(&from[0]), C.size_t(4*len(from)),
		*(*C.CUstream)(unsafe.Pointer(&s))))
}

// down copies elements from an address, and waits for them.
func (d *Device) down(dst []float32, from uint64) error {
	if len(dst) == 0 {
		return d.Sync()
	}
	stage, err := d.hostStage(len(dst))
	if err != nil {
		return err
	}
	if err := check(C.vs_download(d.ctx(), unsafe.Pointer(&stage.memory[0]), C.CUdeviceptr(from), C.size_t(4*len(dst)),
		d.queue())); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	copy(dst, stage.memory)
	return nil
}

// isPlain says whether a tensor lies as on the host.
func isPlain(t device.Tensor) bool {
	return t.Type == device.Float32 && (len(t.Shape) != 5 || t.Shape[1] == 1 || t.Shape.Voxels() == 1)
}

// Upload implements [device.Device].
func (d *Device) Upload(dst device.Buffer, t device.Tensor, src []float32) error {
	b := dst.(*Buffer)
	if len(src) != t.Shape.Elements() || b.bytes < d.Size(t) {
		return fmt.Errorf("uploading %d elements as %v into a buffer of %d bytes", len(src), t.Shape, b.bytes)
	}
	if isPlain(t) {
		return d.up(b.address, src)
	}
	stage, err := d.gpuStage(len(src))
	if err != nil {
		return err
	}
	if err := d.up(stage.address, src); err != nil {
		return err
	}
	return d.rearrange(b, stage, t, false)
}

// Download implements [device.Device].
func (d *Device) Download(dst []float32, src device.Buffer, t device.Tensor) error {
	b := src.(*Buffer)
	if len(dst) != t.Shape.Elements() || b.bytes < d.Size(t) {
		return fmt.Errorf("downloading %d elements as %v from a buffer of %d bytes", len(dst), t.Shape, b.bytes)
	}
	if isPlain(t) {
		return d.down(dst, b.address)
	}
	stage, err := d.gpuStage(len(dst))
	if err != nil {
		return err
	}
	if err := d.rearrange(stage, b, t, true); err != nil {
		return err
	}
	return d.down(dst, stage.address)
}

// rearrange turns float32 in row-major order to the device's layout and type, or back.
func (d *Device) rearrange(to, from *Buffer, t device.Tensor, back bool) error {
	k, err := d.newTranspose(t, back)
	if err != nil {
		return err
	}
	k.Run([]device.Buffer{to}, []device.Buffer{from}, nil)
	return d.err
}

// UploadPlain implements [device.Device].
func (d *Device) UploadPlain(dst device.Buffer, first int, src []float32) error {
	b := dst.(*Buffer)
	if first < 0 || 4*int64(first+len(src)) > b.bytes {
		return fmt.Errorf("uploading %d elements at %d into a buffer of %d bytes", len(src), first, b.bytes)
	}
	return d.up(b.address+4*uint64(first), src)
}

// DownloadPlain implements [device.Device].
func (d *Device) DownloadPlain(dst []float32, src device.Buffer, first int) error {
	b := src.(*Buffer)
	if first < 0 || 4*int64(first+len(dst)) > b.bytes {
		return fmt.Errorf("downloading %d elements at %d from a buffer of %d bytes", len(dst), first, b.bytes)
	}
	return d.down(dst, b.address+4*uint64(first))
}

// UploadWeights implements [device.Device].
func (d *Device) UploadWeights(dst device.Buffer, s device.Shape, first int, src []float32) error {
	if err := s.CheckRows(first, len(src)); err != nil {
		return err
	}
	return d.UploadPlain(dst, first*s.Row(), src)
}

// DownloadWeights implements [device.Device].
func (d *Device) DownloadWeights(dst []float32, src device.Buffer, s device.Shape, first int) error {
	if err := s.CheckRows(first, len(dst)); err != nil {
		return err
	}
	return d.DownloadPlain(dst, src, first*s.Row())
}
