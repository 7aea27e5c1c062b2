package cpu

import (
	"os"
	"syscall"
	"unsafe"
)

// hugeElements is from how many float32 on memory is asked to lie in huge pages: 4 MiB.
const hugeElements = 1 << 20

// hugePages asks for pages of 2 MiB, before any of the memory is touched: Winograd's points lie so
// far apart that with pages of 4 KiB looking these up takes a twentieth of a training step. A
// kernel that has none refuses, and nothing is lost.
func hugePages(s []float32) {
	if len(s) < hugeElements {
		return
	}
	first := uintptr(unsafe.Pointer(&s[0]))
	page := uintptr(os.Getpagesize())
	skip := (page - first%page) % page
	n := (4*uintptr(len(s)) - skip) / page * page
	_ = syscall.Madvise(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&s[0]), skip)), n), syscall.MADV_HUGEPAGE)
}
