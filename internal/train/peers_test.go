package train

import (
	"fmt"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// TestApart: ranks sum between their devices only where every one can, with the same library, and
// each on a GPU of its own.
func TestApart(t *testing.T) {
	on := func(library, gpu, why string) presence {
		return presence{Peer: device.Peer{Library: library, GPU: gpu}, Why: why}
	}
	name := func(rank int) string { return fmt.Sprintf("rank %d", rank) }
	for want, all := range map[string][]presence{
		"":                                 {on("NCCL 2", "a", ""), on("NCCL 2", "b", "")},
		"rank 1: there is no NCCL":         {on("NCCL 2", "a", ""), on("", "", "there is no NCCL")},
		"rank 1 has NCCL 3, rank 0 NCCL 2": {on("NCCL 2", "a", ""), on("NCCL 3", "b", "")},
		"rank 0 and rank 2 share a GPU":    {on("NCCL 2", "a", ""), on("NCCL 2", "b", ""), on("NCCL 2", "a", "")},
	} {
		if got := apart(all, name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
