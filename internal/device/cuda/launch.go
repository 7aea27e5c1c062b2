//go:build gpu

package cuda

/*
#include "open.h"
*/
import "C"

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/voxsaw/voxsaw/internal/device"
)

//go:embed kernels/built/*.gz
var built embed.FS

// loadKernels loads the machine code for this GPU: that of the newest architecture of its
// generation that is not newer than it, or else PTX, which the driver compiles.
func (d *Device) loadKernels() error {
	major, err := d.gpu.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return err
	}
	minor, err := d.gpu.Attribute(cu.ComputeCapabilityMinor)
	if err != nil {
		return err
	}
	if major < 8 {
		return fmt.Errorf("%s has compute capability %d.%d: 8.0 at least is wanted (Ampere or newer)", d.name, major,
			minor)
	}
	name := imageFor(major, minor)
	d.warpgroups = major == 9
	if name == ptxImage {
		if err := oldestPTXDriver.tooOld(cu.Version()); err != nil {
			return fmt.Errorf("for %s, of compute capability %d.%d: %w", d.name, major, minor, err)
		}
	}
	image, err := readBuilt(name)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(image)
	d.kernels = hex.EncodeToString(digest[:4])
	if d.module, err = cu.LoadData(string(image)); err != nil {
		return fmt.Errorf("loading %s: %w", name, err)
	}
	return nil
}

// imageFor is the file with the kernels for a compute capability.
func imageFor(major, minor int) string {
	switch {
	case major == 8 && minor == 9:
		return "sm_89.cubin"
	case major == 8 && minor >= 6:
		return "sm_86.cubin"
	case major == 8:
		return "sm_80.cubin"
	case major == 9:
		return "sm_90a.cubin"
	}
	return ptxImage
}

// ptxImage is for GPUs newer than the compiler.
const ptxImage = "kernels.ptx"

func readBuilt(name string) ([]byte, error) {
	packed, err := built.ReadFile("kernels/built/" + name + ".gz")
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return io.ReadAll(z)
}

// function is a kernel of the module.
type function struct {
	handle uint64
	shared int // bytes of shared memory that it may ask for
}

// sharedLimit is how much a block may have without asking.
const sharedLimit = 48 << 10

// function looks a kernel up, and allows it so much shared memory.
func (d *Device) function(name string, shared int) (*function, error) {
	f, ok := d.functions[name]
	if !ok {
		var c cu.Function
		err := d.locked(func() (err error) { c, err = d.module.Function(name); return err })
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", name, err)
		}
		f = &function{handle: *(*uint64)(unsafe.Pointer(&c)), shared: sharedLimit}
		d.functions[name] = f
	}
	if shared > f.shared {
		if err := check(C.vs_shared_memory(d.ctx(), C.ulonglong(f.handle), C.int(shared))); err != nil {
			return nil, fmt.Errorf("kernel %s with %d bytes of shared memory: %w", name, shared, err)
		}
		f.shared = shared
	}
	return f, nil
}

// An operand is what a launch's address is taken from when a kernel runs.
type operand struct {
	kind   operandKind
	index  int
	offset int64
}

type operandKind uint8

const (
	nothing operandKind = iota // a null address
	output
	input
	scratch
	fixed // the offset is the address
)

func out(i int) operand { return operand{kind: output, index: i} }
func in(i int) operand  { return operand{kind: input, index: i} }

// at is the operand so many bytes further on.
func (o operand) at(offset int64) operand {
	o.offset += offset
	return o
}

// A slot is an address of a launch.
type slot struct {
	launch, pointer int
	operand
}

// kernel is a list of launches: a [device.Kernel].
type kernel struct {
	d        *Device
	names    []string
	launches []C.vs_launch
	slots    []slot
	bytes    int64 // of scratch memory
	failed   C.int // the launch that the driver refused
	err      error // of making it
	joins    bool  // see Adjacent
}

func (d *Device) newKernel() *kernel { return &kernel{d: d} }

// scratch is part of the scratch memory.
func (k *kernel) scratch(bytes int64) operand {
	o := operand{kind: scratch, offset: k.bytes}
	k.bytes += (bytes + alignment - 1) / alignment * alignment
	return o
}

// grid is how many blocks a launch has.
type grid [3]int

// launchMany is launch for a kernel that takes its addresses as one argument: gpu.h's Addresses.
func (k *kernel) launchMany(name string, blocks grid, threads, shared int, numbers any, addresses ...operand) {
	n := len(k.launches)
	k.launch(name, blocks, threads, shared, numbers, addresses...)
	if len(k.launches) > n {
		k.launches[n].together = 1
	}
}

// launch appends a launch. The arguments are addresses, then a struct of numbers of 4 bytes.
func (k *kernel) launch(name string, blocks grid, threads, shared int, numbers any, addresses ...operand) {
	if k.err != nil {
		return
	}
	if shared > k.d.sharedMost {
		k.err = fmt.Errorf("kernel %s: a block needs %d bytes of shared memory, %s allows %d", name, shared, k.d.name,
			k.d.sharedMost)
		return
	}
	f, err := k.d.function(name, shared)
	if err != nil {
		k.err = err
		return
	}
	l := C.vs_launch{function: C.ulonglong(f.handle), threads: C.uint(threads), shared: C.uint(shared),
		pointers: C.int(len(addresses))}
	for i, n := range blocks {
		if n < 1 || i > 0 && n > 65535 {
			k.err = fmt.Errorf("kernel %s: a grid of %v blocks", name, blocks)
			return
		}
		l.grid[i] = C.uint(n)
	}
	words, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err != nil || len(words) > 4*len(l.word) || len(addresses) > len(l.pointer) {
		k.err = errors.Join(err, fmt.Errorf("kernel %s: %d bytes of numbers, %d addresses", name, len(words),
			len(addresses)))
		return
	}
	l.words = C.int(len(words) / 4)
	for i := range len(words) / 4 {
		l.word[i] = C.uint(binary.LittleEndian.Uint32(words[4*i:]))
	}
	k.add(name, l, addresses)
}

// addPlan appends a convolution of cuDNN.
func (k *kernel) addPlan(name string, plan unsafe.Pointer, addresses ...operand) {
	k.add("of cuDNN, "+name, C.vs_launch{plan: plan, pointers: C.int(len(addresses))}, addresses)
}

// add appends a launch with the operands that its addresses are taken from.
func (k *kernel) add(name string, l C.vs_launch, addresses []operand) {
	for i, o := range addresses {
		switch o.kind {
		case nothing:
		case fixed:
			l.pointer[i] = C.ulonglong(o.offset)
		default:
			k.slots = append(k.slots, slot{len(k.launches), i, o})
		}
	}
	k.launches, k.names = append(k.launches, l), append(k.names, name)
}

// done is the kernel, or what was wrong with it.
func (k *kernel) done() (device.Kernel, error) {
	if k.err != nil {
		return nil, k.err
	}
	return k, nil
}

// Scratch implements [device.Kernel].
func (k *kernel) Scratch() int64 { return k.bytes }

// Run implements [device.Kernel].
func (k *kernel) Run(out, in []device.Buffer, memory device.Buffer) {
	if k.d.err != nil {
		return
	}
	for i := range k.slots {
		s := &k.slots[i]
		var b *Buffer
		switch s.kind {
		case output:
			b = out[s.index].(*Buffer)
		case input:
			b = in[s.index].(*Buffer)
		default:
			b = memory.(*Buffer)
		}
		k.launches[s.launch].pointer[s.pointer] = C.ulonglong(b.address + uint64(s.offset))
	}
	if len(k.launches) == 0 {
		return
	}
	if r := C.vs_run(k.d.ctx(), k.d.queue(), &k.launches[0], C.int(len(k.launches)), &k.failed); r != 0 {
		k.d.fail("starting kernel "+k.names[k.failed], check(r))
	}
}

// blocksOf is how many blocks of so many items hold n.
func blocksOf(n, size int) int { return (n + size - 1) / size }

// divisor is gpu.h's Divisor.
type divisor struct{ D, M, S uint32 }

func divisorOf(d int) divisor {
	s := bits.Len32(uint32(d - 1))
	m := (uint64(1)<<32*(uint64(1)<<s-uint64(d)))/uint64(d) + 1
	return divisor{uint32(d), uint32(m), uint32(s)}
}

// int3 is three numbers as kernels want them.
func int3(v [3]int) [3]int32 { return [3]int32{int32(v[0]), int32(v[1]), int32(v[2])} }

// ints is the opposite of int3.
func ints(v [3]int32) [3]int { return [3]int{int(v[0]), int(v[1]), int(v[2])} }

// flag is a truth as a number.
func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
