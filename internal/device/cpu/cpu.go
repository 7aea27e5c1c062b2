// Package cpu is the device that is always there: kernels in Go and generated assembly, on every
// core that the user allows.
//
// Start at [New], then conv.go for the convolutions, where the time goes. The rules that all
// kernels of the package keep:
//
//   - Activations (rank 5) lie as (N, ceil(C/16), D, H, W, 16): blocks of 16 channels, innermost,
//     one AVX-512 register. The lanes past C are zero, and every kernel leaves them zero. A tensor
//     with one channel lies as (N, D, H, W). See [layout].
//   - Weights of convolutions, and their gradients, lie in pairs of such blocks, so that no kernel
//     has to sort them first; their padded lanes are zero, too. See [weightLayout]. All other
//     tensors are row-major.
//   - A kernel works in items that can be computed in any order by any worker; each item writes
//     memory of its own, and sums over items are added up in the order of the items. So the result
//     does not depend on which worker took which item, only (where stated) on the number of
//     threads.
//   - Each assembly kernel has a generic Go version with the same signature, and one table chooses
//     between them once, at start.
package cpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device"
)

var (
	_ device.Device        = (*CPU)(nil)
	_ device.WeightStepper = (*CPU)(nil)
	_ device.HostMemory    = (*CPU)(nil)
	_ device.Chooser       = (*CPU)(nil)
	_ device.Normaliser    = (*CPU)(nil)
)

// CPU implements [device.Device].
type CPU struct {
	opt     Options
	pool    *pool
	kernels *kernels
	large   int // elements of a result that a convolution stores past the caches
}

// Options of a CPU device. The zero value uses every core and the best instructions that the
// machine has.
type Options struct {
	Threads int // 0: GOMAXPROCS
	// "" or "auto": the fastest algorithm for each layer; "direct": no fast transforms
	Conv string

	// algorithms that were measured to be fastest, by ChoiceKey: they overrule the cost model. See
	// Candidates
	Choices map[string]string
}

// New makes a CPU device. Close gives its threads back.
func New(o Options) (*CPU, error) {
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	switch o.Conv {
	case "":
		o.Conv = "auto"
	case "auto", "direct":
	default:
		return nil, fmt.Errorf("convolution algorithm %q: want auto or direct", o.Conv)
	}
	ks, err := chooseKernels()
	if err != nil {
		return nil, err
	}
	return &CPU{opt: o, pool: newPool(o.Threads), kernels: ks, large: cacheElements}, nil
}

// Close stops the worker goroutines. The device must not be used afterwards.
func (c *CPU) Close() error {
	c.pool.close()
	return nil
}

// rehearsal is a CPU without memory: a [device.Rehearser] makes it.
type rehearsal struct {
	kernelsOf
	device.NoMemory
}

// kernelsOf puts the CPU's own methods below those of [device.NoMemory].
type kernelsOf struct{ *CPU }

// Rehearse implements [device.Rehearser].
func (c *CPU) Rehearse() device.Device { return rehearsal{kernelsOf: kernelsOf{c}} }

// Name implements [device.Device].
func (c *CPU) Name() string { return "cpu" }

// Activations implements [device.Device]: the CPU computes in float32.
func (c *CPU) Activations() device.Type { return device.Float32 }

// onlyFloat32 refuses tensors of other types.
func onlyFloat32(t device.Type) error {
	if t != device.Float32 {
		return fmt.Errorf("the CPU computes in fp32, not in %v", t)
	}
	return nil
}

// accept says what is wrong with a spec, or with its type on this device.
func accept(spec interface{ Check() error }, t device.Type) error {
	if err := spec.Check(); err != nil {
		return err
	}
	return onlyFloat32(t)
}

// Threads is the number of workers.
func (c *CPU) Threads() int { return c.opt.Threads }

// Slice is a [device.Buffer] of this device.
type Slice []float32

// Bytes implements [device.Buffer].
func (s Slice) Bytes() int64 { return bytesOf(len(s)) }

// bytesOf is the size of n float32 elements.
func bytesOf(n int) int64 { return 4 * int64(n) }

// Alloc implements [device.Device].
func (c *CPU) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 || bytes%4 != 0 {
		return nil, fmt.Errorf("allocating %d bytes: want a multiple of 4", bytes)
	}
	return alignedSlice(int(bytes / 4)), nil
}

// Free implements [device.Device]. The garbage collector takes what nobody holds any more.
func (c *CPU) Free(device.Buffer) {}

// Host implements [device.HostMemory].
func (c *CPU) Host(b device.Buffer) []float32 { return b.(Slice) }

// line is how many float32 elements a cache line has, which is one AVX-512 register.
const line = 16

// Alignment implements [device.Device].
func (c *CPU) Alignment() int64 { return 4 * line }

// alignedSlice returns n zeros whose first one starts a cache line.
func alignedSlice(n int) Slice {
	raw := make([]float32, n+line)
	hugePages(raw)
	skip := 0
	for uintptr(unsafe.Pointer(&raw[skip]))%(4*line) != 0 {
		skip++
	}
	return Slice(raw[skip : skip+n : skip+n])
}

// View implements [device.Device].
func (c *CPU) View(b device.Buffer, offset, bytes int64) device.Buffer {
	first, n := int(offset/4), int(bytes/4)
	return b.(Slice)[first : first+n : first+n]
}

// Size implements [device.Device].
func (c *CPU) Size(t device.Tensor) int64 { return bytesOf(elementsOf(t.Shape)) }

// elementsOf is how many float32 elements a tensor takes, those of the padding among them.
func elementsOf(s device.Shape) int {
	if len(s) != 5 {
		return s.Elements()
	}
	return layoutOf(s).elements()
}

// UploadPlain implements [device.Device].
func (c *CPU) UploadPlain(dst device.Buffer, offset int, src []float32) error {
	if d := dst.(Slice); offset < 0 || offset+len(src) > len(d) {
		return fmt.Errorf("uploading %d elements at %d into a buffer of %d", len(src), offset, len(d))
	}
	copy(dst.(Slice)[offset:], src)
	return nil
}

// DownloadPlain implements [device.Device].
func (c *CPU) DownloadPlain(dst []float32, src device.Buffer, offset int) error {
	if s := src.(Slice); offset < 0 || offset+len(dst) > len(s) {
		return fmt.Errorf("downloading %d elements at %d from a buffer of %d", len(dst), offset, len(s))
	}
	copy(dst, src.(Slice)[offset:])
	return nil
}

// Sync implements [device.Device]. Kernels have finished when Run returns.
func (c *CPU) Sync() error { return nil }
