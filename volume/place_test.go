package volume

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Labels on a part of a scan's voxels come to lie where their header says, voxel by voxel, however
// the axes of either file lie; what reaches beyond the scan is counted.
func TestPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 35))
	oblique := Affine{{-1.2, -0.2, 0.1, 60.3}, {0.2, -1.2, 0, 30.1}, {0.1, 0, 1.7, -90}, {0, 0, 0, 1}}
	for n := range 200 {
		whole := thicket([3]int{17, 14, 11}, uint64(n))
		whole.Affine = oblique
		if n%2 == 0 {
			whole.Affine = Scaling([3]float64{0.8, 1.2, 3})
		}
		var origin, size [3]int
		for a, extent := range whole.Shape {
			size[a] = 1 + r.IntN(extent)
			origin[a] = r.IntN(extent+4) - 2 - size[a]/4
		}
		part, err := whole.Crop(origin, size)
		if err != nil {
			t.Fatal(err)
		}
		for k := range size[2] { // beyond the scan, too, somebody drew
			for j := range size[1] {
				for i := range size[0] {
					if r.IntN(9) == 0 {
						part.Labels[part.Index(i, j, k)] = 9
					}
				}
			}
		}
		want, lost := make([]uint16, whole.Len()), drawn(part.Labels)
		overlaps := false
		for k := range whole.Shape[2] {
			for j := range whole.Shape[1] {
				for i := range whole.Shape[0] {
					a, b, c := i-origin[0], j-origin[1], k-origin[2]
					if a >= 0 && b >= 0 && c >= 0 && a < size[0] && b < size[1] && c < size[2] {
						overlaps = true
						want[whole.Index(i, j, k)] = part.At(a, b, c)
						if part.At(a, b, c) != 0 {
							lost--
						}
					}
				}
			}
		}
		codes := axisOrders()
		turned, err := part.Orient(codes[r.IntN(len(codes))])
		if err != nil {
			t.Fatal(err)
		}
		for row := range 3 { // as headers round
			turned.Affine[row][3] += 0.01 * r.Float64()
		}
		got, missing := turned.Place(whole.Grid)
		if !overlaps {
			if got != nil {
				t.Errorf("labels from %v on, %v, do not touch the scan and were placed", origin, size)
			}
			continue
		}
		if got == nil || got.Grid != whole.Grid || !slices.Equal(got.Labels, want) || missing != lost {
			t.Fatalf("labels from %v on, %v, as %s: not placed right, %d voxels lost, not %d", origin, size,
				turned.Axcodes(), missing, lost)
		}
	}
}

// Labels off the lattice of a scan have no place on it.
func TestPlaceRefusesOtherLattices(t *testing.T) {
	g := Grid{Shape: [3]int{20, 20, 10}, Affine: Scaling([3]float64{1, 1, 3})}
	for name, l := range map[string]Grid{
		"half a voxel beside": {Shape: [3]int{5, 5, 5}, Affine: Affine{{1, 0, 0, 4.5}, {0, 1, 0, 4}, {0, 0, 3, 3},
			{0, 0, 0, 1}}},
		"other spacing": {Shape: [3]int{5, 5, 5}, Affine: Affine{{1, 0, 0, 4}, {0, 1, 0, 4}, {0, 0, 1, 3},
			{0, 0, 0, 1}}},
		"one thick slice": {Shape: [3]int{5, 5, 1}, Affine: Affine{{1, 0, 0, 4}, {0, 1, 0, 4}, {0, 0, 6, 3},
			{0, 0, 0, 1}}},
		"turned": {Shape: [3]int{9, 9, 5}, Affine: Affine{{0.99, 0.1, 0, 4}, {-0.1, 0.99, 0, 4},
			{0, 0, 3, 3}, {0, 0, 0, 1}}},
		"elsewhere": {Shape: [3]int{5, 5, 5}, Affine: Affine{{1, 0, 0, 20}, {0, 1, 0, 4}, {0, 0, 3, 3},
			{0, 0, 0, 1}}},
		"too far to be counted": {Shape: [3]int{5, 5, 5}, Affine: Affine{{1, 0, 0, 1e300}, {0, 1, 0, 4}, {0, 0, 3, 3},
			{0, 0, 0, 1}}},
	} {
		if placed, _ := (&LabelMap{Grid: l, Labels: make([]uint16, l.Len())}).Place(g); placed != nil {
			t.Errorf("%s: placed", name)
		}
	}
}

// Labels on a part of the image, between its voxels, are refused with how far.
func TestPartBetweenVoxels(t *testing.T) {
	image := Grid{Shape: [3]int{20, 16, 12}, Affine: Affine{{0, -2, 0, 30}, {3, 0, 0, -20}, {0, 0, 4, 7}, {0, 0, 0, 1}}}
	for _, by := range [][3]float64{{0.5, 0, 0}, {0.3, -0.4, 0.45}, {0, 0, -0.3}} {
		at := [3]float64{4 + by[0], 3 + by[1], 2 + by[2]}
		part := Grid{Shape: [3]int{10, 9, 8}, Affine: image.Affine}
		for r, x := range image.World(at) {
			part.Affine[r][3] = x
		}
		want := fmt.Sprintf("between its voxels: (%.2f, %.2f, %.2f) of a voxel", by[0], by[1], by[2])
		for _, axcodes := range []string{image.Axcodes(), "RAS", "LPI"} {
			turned, err := part.Oriented(axcodes)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := image.Match(turned); err == nil || by[0] != 0.5 && !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "between its voxels") {
				t.Errorf("%v, %s: %v, want %q", by, axcodes, err, want)
			}
		}
	}
	far := Grid{Shape: [3]int{10, 9, 8}, Affine: image.Affine}
	far.Affine[0][3] += 1000
	if _, err := image.Match(far); err == nil || !strings.Contains(err.Error(), "do not fill the same box") {
		t.Errorf("a part of nothing: %v", err)
	}
}
