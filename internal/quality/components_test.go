package quality

import (
	"encoding/json"
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
