package quality

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
)

// The golden file is scipy.ndimage.label's: see testdata/segment.py.
func TestLargestComponentFollowsScipy(t *testing.T) {
	data, err := os.ReadFile("../../testdata/segment_components.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Shape         [3]int
		Classes, Kept string
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	digits := func(s string) []uint16 {
		out := make([]uint16, len(s))
		for i := range s {
			out[i] = uint16(s[i] - '0')
		}
		return out
	}
	for _, c := range cases {
		got := digits(c.Classes)
		KeepLargest(got, c.Shape, nil)
		if !slices.Equal(got, digits(c.Kept)) {
			t.Errorf("shape %v: other components are kept", c.Shape)
		}
	}
	nothing := make([]uint16, 8)
	KeepLargest(nothing, [3]int{2, 2, 2}, nil)
	some := []uint16{1, 0, 1, 1, 0, 2, 0, 2, 2}
	KeepLargest(some, [3]int{9, 1, 1}, []bool{false, true, false})
	if !slices.Equal(some, []uint16{0, 0, 1, 1, 0, 2, 0, 2, 2}) {
		t.Errorf("only of class 1: %v", some)
	}
}

// Noise, as a network says that has learnt little, takes 16 bytes for each run and no more: with
// four classes, of which one is the background, there are nine runs for 16 voxels.
func TestComponentsOfNoiseTakeLittleMemory(t *testing.T) {
	const side = 64
	r := rand.New(rand.NewPCG(1, 1))
	noise := make([]uint16, side*side*side)
	for n := range noise {
		noise[n] = uint16(r.IntN(4))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	KeepLargest(noise, [3]int{side, side, side}, nil)
	runtime.ReadMemStats(&after)
	if took := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(noise)); took > 11 {
		t.Errorf("%.1f bytes a voxel", took)
	}
}

// Components that are told plane by plane are those of all runs together, in memory of two planes.
func TestComponentsOfManyPlanes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, share := range []int{2, 4, 9} { // of voxels with a label
		shape := [3]int{9 + share, 7, 60}
		labels := make([]uint16, shape[0]*shape[1]*shape[2])
		for n := range labels {
			labels[n] = uint16(max(0, r.IntN(4*share)-4*share+4))
		}
		f := findRuns(labels, shape, nil)
		f.joinAll(shape)
		want, largest := map[uint16]int{}, map[uint16]uint32{}
		for i, voxels := range f.sizes() {
			if label := labels[f.runs[i].start]; f.parent[i] == int32(i) {
				want[label]++
				largest[label] = max(largest[label], voxels)
			}
		}
		got, most, start := map[uint16]int{}, map[uint16]uint32{}, -1
		growing(labels, shape, func(r run) {
			if int(r.start) <= start {
				t.Errorf("a run at %d after one at %d", r.start, start)
			}
			start = int(r.start)
		}, func(label uint16, more int, voxels uint32) {
			got[label] += more
			most[label] = max(most[label], voxels)
		})
		if !maps.Equal(got, want) || !maps.Equal(most, largest) || !maps.Equal(CountComponents(labels, shape), want) {
			t.Errorf("share %d: %v of %v voxels, want %v of %v", share, got, most, want, largest)
		}
	}
	const side = 48
	noise := make([]uint16, side*side*side*4)
	for n := range noise {
		noise[n] = uint16(r.IntN(4))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	CountComponents(noise, [3]int{side, side, side * 4})
	runtime.ReadMemStats(&after)
	if took := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(noise)); took > 1.5 {
		t.Errorf("%.1f bytes a voxel", took)
	}
}
