package segment

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// The golden file is scipy.ndimage.label's: see testdata/segment.py.
func TestLargestComponentFollowsScipy(t *testing.T) {
	data, err := os.ReadFile("../testdata/segment_components.json")
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
		keepLargest(got, c.Shape, nil)
		if !slices.Equal(got, digits(c.Kept)) {
			t.Errorf("shape %v: other components are kept", c.Shape)
		}
	}
	nothing := make([]uint16, 8)
	keepLargest(nothing, [3]int{2, 2, 2}, nil)
	some := []uint16{1, 0, 1, 1, 0, 2, 0, 2, 2}
	keepLargest(some, [3]int{9, 1, 1}, []bool{false, true, false})
	if !slices.Equal(some, []uint16{0, 0, 1, 1, 0, 2, 0, 2, 2}) {
		t.Errorf("only of class 1: %v", some)
	}
}
