package main

import (
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
	}{{0, 1}, {500, 1}, {1099, 1}, {1100, 1}, {1200, 2}, {5000, 40}, {5100, 40}, {35_099, 40}, {35_100, 41}, {51_000, 200}, {1 << 40, mostAuto}} {
		tries := 0
		n, need, err := largestBatch(func(n int) (voxsaw.MemoryNeed, error) {
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
