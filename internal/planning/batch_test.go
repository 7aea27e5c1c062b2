package planning

import (
	"errors"
	"testing"

	"github.com/voxsaw/voxsaw"
)

// The largest batch that fits is found in a few rehearsals, whatever a batch needs beside what each
// of its items does, and even where the planner makes the need jump.
func TestLargestBatch(t *testing.T) {
	jump := func(n int) int64 {
		if n > 40 {
			return 30_000
		}
		return 0
	}
	for _, c := range []struct {
		limit int64
		want  int
	}{{0, 1}, {500, 1}, {1099, 1}, {1100, 1}, {1200, 2}, {5000, 40}, {5100, 40}, {35_099, 40}, {35_100, 41},
		{51_000, 200}, {1 << 40, mostBatch}} {
		tries := 0
		n, need, err := LargestBatch(func(n int) (voxsaw.MemoryNeed, error) {
			tries++
			return voxsaw.MemoryNeed{Bytes: 1000 + int64(100*n) + jump(n), Limit: c.limit}, nil
		})
		if err != nil || n != c.want || need.Bytes != 1000+int64(100*n)+jump(n) {
			t.Errorf("of %d bytes: a batch of %d, which needs %d (%v), want %d", c.limit, n, need.Bytes, err, c.want)
		}
		if tries > 16 {
			t.Errorf("of %d bytes: %d rehearsals", c.limit, tries)
		}
	}
}

// A network that cannot take one item alone begins with two; what no batch mends is an error.
func TestLargestBatchOfTwoOrMore(t *testing.T) {
	alone := errors.New("one value a channel has no variance")
	least := func(least int) func(n int) (voxsaw.MemoryNeed, error) {
		return func(n int) (voxsaw.MemoryNeed, error) {
			if n < least {
				return voxsaw.MemoryNeed{}, alone
			}
			return voxsaw.MemoryNeed{Bytes: int64(100 * n), Limit: 1050}, nil
		}
	}
	for from, want := range map[int]int{1: 10, 2: 10} {
		if n, need, err := LargestBatch(least(from)); n != want || need.Bytes != int64(100*want) || err != nil {
			t.Errorf("from %d: a batch of %d, which needs %d, %v", from, n, need.Bytes, err)
		}
	}
	if _, _, err := LargestBatch(least(1000)); !errors.Is(err, alone) {
		t.Errorf("error %v", err)
	}
}
