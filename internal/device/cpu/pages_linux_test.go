package cpu

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// Large memory holds zeros, and is marked for huge pages where the kernel has them.
func TestHugePages(t *testing.T) {
	_, err := os.Stat("/sys/kernel/mm/transparent_hugepage")
	has := err == nil
	s := alignedSlice(8 << 20)
	middle := uintptr(unsafe.Pointer(&s[len(s)/2]))
	for _, x := range s {
		if x != 0 {
			t.Fatal("fresh memory is not zero")
		}
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= middle && middle < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			if strings.Contains(flags, " hg") != has {
				t.Errorf("huge pages %v, flags of its memory: %s", has, flags)
			}
			return
		}
	}
	t.Error("its memory is not in the list of the kernel's")
}
