//go:build gpu

package cuda

/*
#cgo LDFLAGS: -L${SRCDIR}/stub -ldl
#include <stdlib.h>
#include "open.h"
#include "cudnn.h"
#include "nccl.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Compiled says whether this build can compute on a GPU.
const Compiled = true

// oldestDriver is the oldest version of CUDA whose driver runs the machine code of a 12.x compiler.
// Its release is the first one of these on Linux. PTX, which newer GPUs than Hopper get, names the
// compiler's own version: only drivers from CUDA 12.9 on read it.
var (
	oldestDriver    = requiredDriver{12000, "525.60"}
	oldestPTXDriver = requiredDriver{12090, "575.51"}
)

// A requiredDriver is a driver's CUDA version (1000 times the major number plus 10 times the minor
// one), and its release.
type requiredDriver struct {
	cuda    int
	release string
}

// tooOld is the error where a driver of some CUDA is older; nil where it is not.
func (v requiredDriver) tooOld(cuda int) error {
	if cuda >= v.cuda {
		return nil
	}
	return fmt.Errorf("the NVIDIA driver is too old: it is of CUDA %d.%d, and at least "+
		"%d.%d is wanted: update it to %s or newer", cuda/1000, cuda%1000/10, v.cuda/1000, v.cuda%1000/10, v.release)
}

// Device implements [device.Device] on a GPU.
type Device struct {
	name, describe string
	precision      precision
	gpu            cu.Device
	context        cu.CUContext
	stream         cu.Stream
	copies         cu.Stream // of feeds
	processors     int       // multiprocessors
	sharedMost     int       // bytes of shared memory that a block may ask for
	warpgroups     bool      // it multiplies by four warps: compute capability 9.0
	module         cu.Module
	kernels        string // the beginning of the digest of their machine code
	peers          *peers // nil: it works alone
	functions      map[string]*function
	staging        staging
	limit, taken   int64           // bytes of memory that may be taken, 0: all; that are taken
	most           int64           // that were taken at most
	buffers        map[uint64]bool // the addresses that are taken
	live           map[closer]bool // feeds and recordings that are not closed
	err            error           // the first one that came late
	recording      bool
	misused        bool // what cannot be recorded was tried
	closed         bool

	choices    map[string]string // by device.ChoiceKey; see device.Chooser
	inForce    map[string]string // those that kernels follow
	refused    []string          // and those that they do not, see refuse
	cudnnPath  string
	cudnn      *cudnn
	cudnnError error // why it is not there; nil before somebody asked
	problem    *problem
}

// precision is how products are multiplied.
type precision string

const (
	fp32 precision = "fp32"
	tf32 precision = "tf32"
	bf16 precision = "bf16"
)

// Open opens the first GPU that the driver shows, or, for one of several processes, that of its
// number. CUDA_VISIBLE_DEVICES chooses others.
func Open(o Options) (device.Device, error) {
	p := precision(cmp.Or(o.Precision, string(bf16)))
	if p != fp32 && p != tf32 && p != bf16 {
		return nil, fmt.Errorf("precision %q: want fp32, tf32 or bf16", o.Precision)
	}
	if err := openDriver(cmp.Or(o.Driver, os.Getenv("VOXSAW_CUDA_DRIVER"))); err != nil {
		return nil, err
	}
	d := &Device{precision: p, limit: o.Memory, functions: map[string]*function{}, buffers: map[uint64]bool{},
		live:    map[closer]bool{},
		choices: o.Choices, cudnnPath: o.CuDNN, inForce: map[string]string{}}
	if err := d.open(o.Process); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// openDriver loads the driver, or says what was looked for, where, and what to do.
func openDriver(path string) error {
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	var message [1024]C.char
	looked := "libcuda.so.1 where the system's loader looks (LD_LIBRARY_PATH, /etc/ld.so.conf)"
	if path != "" {
		looked = path
	}
	switch r := C.vs_open(c, &message[0], C.int(len(message))); r {
	case 0:
	case C.vs_no_library:
		return fmt.Errorf("no NVIDIA driver: looked for %s: %s; install the driver, "+
			"or name its library in VOXSAW_CUDA_DRIVER", looked, C.GoString(&message[0]))
	case C.vs_no_init:
		return fmt.Errorf("%s is no CUDA driver: it has no cuInit", looked)
	case C.CUDA_ERROR_NO_DEVICE:
		return fmt.Errorf("the NVIDIA driver is there, but it shows no GPU (%s): is one in this machine, is "+
			"nvidia-smi content, and does CUDA_VISIBLE_DEVICES=%q hide it?",
			describe(int(r)), os.Getenv("CUDA_VISIBLE_DEVICES"))
	case C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return fmt.Errorf("the NVIDIA driver's library does not fit the driver that the kernel runs "+
			"(%s): restart the machine after an update", describe(int(r)))
	default:
		return fmt.Errorf("the NVIDIA driver does not start: %s", describe(int(r)))
	}
	return oldestDriver.tooOld(cu.Version())
}

// describe is the driver's text for an error.
func describe(code int) string {
	var message [256]C.char
	C.vs_describe(C.int(code), &message[0], C.int(len(message)))
	return C.GoString(&message[0])
}

// check is the error of a call of open.c.
func check(r C.int) error {
	switch r {
	case 0:
		return nil
	case C.CUDA_ERROR_OUT_OF_MEMORY:
		return errOutOfMemory
	}
	if r >= C.vs_cudnn_error && r < C.vs_nccl_error {
		return &cudnnFailure{describe(int(r))}
	}
	return errors.New(describe(int(r)))
}

// A cudnnFailure is what cuDNN answered.
type cudnnFailure struct{ text string }

func (e *cudnnFailure) Error() string { return e.text }

var errOutOfMemory = errors.New("the GPU is out of memory")

// open makes the context, the stream and the kernels, for one of several processes.
func (d *Device) open(process int) error {
	// cu works on the thread that calls it
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	count, err := cu.NumDevices()
	if err != nil {
		return fmt.Errorf("counting the GPUs: %w", err)
	}
	if d.gpu, err = cu.GetDevice(process % max(count, 1)); err != nil {
		return fmt.Errorf("opening the GPU: %w", err)
	}
	if err = d.makeContext(); err != nil {
		return fmt.Errorf("opening the GPU: %w", err)
	}
	if err := d.look(); err != nil {
		return fmt.Errorf("asking the GPU: %w", err)
	}
	for _, s := range []*cu.Stream{&d.stream, &d.copies} {
		if *s, err = cu.MakeStream(cu.NonBlocking); err != nil {
			return fmt.Errorf("making a stream: %w", err)
		}
	}
	return d.loadKernels()
}

// makeContext takes the process's primary context of the GPU, and makes it current on this thread.
// NCCL sums in that one alone, and what uses CUDA's runtime, as cuDNN does, makes it current.
func (d *Device) makeContext() (err error) {
	if d.context, err = d.gpu.RetainPrimaryCtx(); err != nil {
		return err
	}
	return check(C.vs_enter(d.ctx()))
}

// leaveContext gives the context back, and before that what it holds of this device: others may
// have the context, too. After an error nothing can be given back but the context.
func (d *Device) leaveContext() error {
	var err error
	if d.err == nil {
		err = d.locked(d.emptyContext)
	}
	return errors.Join(err, d.gpu.ReleasePrimaryCtx())
}

// emptyContext frees memory, streams and kernels.
func (d *Device) emptyContext() error {
	var all []error
	for address := range d.buffers {
		all = append(all, cu.MemFree(cu.DevicePtr(address)))
	}
	for _, s := range []*cu.Stream{&d.stream, &d.copies} {
		if *s != (cu.Stream{}) {
			all = append(all, s.Destroy())
		}
	}
	if d.module != (cu.Module{}) {
		all = append(all, d.module.Unload())
	}
	return errors.Join(all...)
}

// locked calls f, which calls cu, on a thread on which the context is current.
func (d *Device) locked(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := check(C.vs_enter(d.ctx())); err != nil {
		return err
	}
	return f()
}

// look asks for the name and the size of the GPU.
func (d *Device) look() error {
	var err error
	if d.name, err = d.gpu.Name(); err != nil {
		return err
	}
	if d.processors, err = d.gpu.Attribute(cu.MultiprocessorCount); err != nil {
		return err
	}
	const maxSharedMemoryPerBlockOptin = cu.DeviceAttribute(97) // which cu has no name for
	if d.sharedMost, err = d.gpu.Attribute(maxSharedMemoryPerBlockOptin); err != nil {
		return err
	}
	_, total, err := d.Memory()
	d.describe = fmt.Sprintf("%s, %.1f GiB, %d multiprocessors, driver of CUDA %d.%d, %s", d.name,
		float64(total)/(1<<30), d.processors, cu.Version()/1000, cu.Version()%1000/10, d.precision)
	return err
}

// Name implements [device.Device].
func (d *Device) Name() string { return "cuda" }

// Describe implements [device.Device].
func (d *Device) Describe() string { return d.describe }

// Activations implements [device.Device].
func (d *Device) Activations() device.Type {
	if d.precision == bf16 {
		return device.BFloat16
	}
	return device.Float32
}

// FLOPsPerByte implements [device.Balancer]: of an H200, from its data sheet, at the share of the
// matrix rate that mma.sync is known to reach.
func (d *Device) FLOPsPerByte() float64 {
	switch d.precision {
	case fp32:
		return 14
	case tf32:
		return 65
	}
	return 130
}

// Sync implements [device.Device].
func (d *Device) Sync() error {
	if d.recording {
		d.misused = true
		return errRecording
	}
	if d.err == nil {
		d.fail("waiting for the GPU", cmp.Or(d.peers.failed(), check(C.vs_sync(d.ctx(), d.queue())), d.peers.failed()))
	}
	return d.err
}

var errRecording = errors.New("only kernels can be recorded: nothing may wait " +
	"for the GPU, or copy to the host, meanwhile")

// fail keeps the first error that came late.
func (d *Device) fail(what string, err error) {
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%s: %w", what, err)
	}
}

// closer is what has pinned memory, events or a graph of the context.
type closer interface{ Close() }

// Close implements [device.Device]. Buffers, feeds and recordings that are still there go with it.
func (d *Device) Close() error {
	if d.closed || d.ctx() == nil {
		return nil
	}
	err := d.Sync()
	for c := range d.live {
		c.Close()
	}
	d.staging.close(d)
	d.cudnn.close(d)
	d.peers.close(d)
	d.closed = true
	if e := d.leaveContext(); e != nil {
		err = errors.Join(err, fmt.Errorf("closing the GPU: %w", e))
	}
	return err
}

func (d *Device) ctx() C.CUcontext { return *(*C.CUcontext)(unsafe.Pointer(&d.context)) }

func (d *Device) queue() C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&d.stream)) }

var (
	_ device.Device        = (*Device)(nil)
	_ device.WeightStepper = (*Device)(nil)
	_ device.MemoryMeter   = (*Device)(nil)
	_ device.Balancer      = (*Device)(nil)
	_ device.Recorder      = (*Device)(nil)
	_ device.Timer         = (*Device)(nil)
	_ device.Accountant    = (*Device)(nil)
	_ device.Feeder        = (*Device)(nil)
	_ device.Blender       = (*Device)(nil)
	_ device.StepDecider   = (*Device)(nil)
	_ device.StepGrouper   = (*Device)(nil)
	_ device.Rehearser     = (*Device)(nil)
	_ device.Normaliser    = (*Device)(nil)
	_ device.Chooser       = (*Device)(nil)
	_ device.EngineTeller  = (*Device)(nil)
	_ device.Librarian     = (*Device)(nil)
	_ device.Peers         = (*Device)(nil)
)
