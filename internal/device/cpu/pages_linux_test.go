package cpu

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// Large memory is marked for huge pages, and holds zeros.
func TestHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this kernel has no huge pages")
	}
	s := alignedSlice(8 << 20)
	middle := uintptr(unsafe.Pointer(&s[len(s)/2]))
	for _, x := range s {
		if x != 0 {
			t.Fatal("fresh memory is not zero")
		}
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	inside := false
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= middle && middle < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			if !strings.Contains(flags, " hg") {
				t.Errorf("flags of its memory: %s", flags)
			}
			return
		}
	}
	t.Error("its memory is not in the list of the kernel's")
}
