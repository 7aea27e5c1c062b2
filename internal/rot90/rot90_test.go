package rot90

import (
	"fmt"
	"slices"
	"testing"
)

// Quarter turns are numpy's: with a = arange(27).reshape(3, 3, 3), whose axes are (k, j, i),
// numpy.rot90(a, axes=(2-b, 2-c)).ravel() for the axes b and c after each axis.
func TestQuartersAreNumpys(t *testing.T) {
	cube := make([]float32, 27)
	for i := range cube {
		cube[i] = float32(i)
	}
	for axis, want := range [][]float32{
		{18, 19, 20, 9, 10, 11, 0, 1, 2, 21, 22, 23, 12, 13, 14, 3, 4, 5, 24, 25, 26, 15, 16, 17, 6, 7, 8},
		{2, 11, 20, 5, 14, 23, 8, 17, 26, 1, 10, 19, 4, 13, 22, 7, 16, 25, 0, 9, 18, 3, 12, 21, 6, 15, 24},
		{6, 3, 0, 7, 4, 1, 8, 5, 2, 15, 12, 9, 16, 13, 10, 17, 14, 11, 24, 21, 18, 25, 22, 19, 26, 23, 20},
	} {
		got := make([]float32, 27)
		Quarter(axis).Apply(got, cube, [3]int{3, 3, 3})
		if !slices.Equal(got, want) {
			t.Errorf("axis %d: %v, want %v", axis, got, want)
		}
	}
}

// All turns are different, one after another is what `then` says, and none is a mirror image.
func TestTurnsAreRotations(t *testing.T) {
	cube := make([]float32, 27)
	for i := range cube {
		cube[i] = float32(i)
	}
	for n, list := range map[int][]Turn{10: Single(), 24: All()} {
		if len(list) != n || list[0] != Identity {
			t.Fatalf("%d turns, the first %+v", len(list), list[0])
		}
		seen := map[string]bool{}
		for _, a := range list {
			turned := make([]float32, 27)
			a.Apply(turned, cube, [3]int{3, 3, 3})
			seen[fmt.Sprint(turned)] = true
			if a.determinant() != 1 {
				t.Errorf("%+v is a mirror image", a)
			}
			for _, b := range list {
				twice, once := make([]float32, 27), make([]float32, 27)
				b.Apply(twice, turned, [3]int{3, 3, 3})
				a.Then(b).Apply(once, cube, [3]int{3, 3, 3})
				if !slices.Equal(twice, once) {
					t.Fatalf("%+v then %+v: %v, want %v", a, b, once, twice)
				}
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d turns are different", len(seen), n)
		}
	}
}

// determinant of the matrix of a turn.
func (t Turn) determinant() int {
	sign := 1
	for a := range 3 {
		if t.flip[a] {
			sign = -sign
		}
		for b := range a {
			if t.from[b] > t.from[a] {
				sign = -sign
			}
		}
	}
	return sign
}

// Half turns of a box are numpy's flips along the two other axes, whatever the size.
func TestHalves(t *testing.T) {
	size := [3]int{4, 3, 2}
	box, got := make([]float32, 24), make([]float32, 24)
	for i := range box {
		box[i] = float32(i)
	}
	for axis := range 3 {
		Half(axis).Apply(got, box, size)
		for at, v := range got {
			from := [3]int{at % 4, at / 4 % 3, at / 12}
			for a := range from {
				if a != axis {
					from[a] = size[a] - 1 - from[a]
				}
			}
			if want := float32(from[0] + 4*(from[1]+3*from[2])); v != want {
				t.Fatalf("axis %d: voxel %d is %v, want %v", axis, at, v, want)
			}
		}
	}
}
