package volume

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Both ways to interpolate linearly agree, and both lattice functions find voxels at whole indices.
func TestLattices(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	v := &Volume{Grid: Grid{Shape: [3]int{5, 4, 3}, Affine: Scaling([3]float64{1, 1, 1})}, Float32: make([]float32, 60)}
	for n := range v.Float32 {
		v.Float32[n] = r.Float32()
	}
	for range 1000 {
		p := [3]float64{4 * r.Float64(), 3 * r.Float64(), 2 * r.Float64()}
		at := v.Grid
		at.Shape = [3]int{1, 1, 1}
		for a := range p {
			at.Affine[a][3] = p[a]
		}
		o, err := v.ResampleTo(at, Linear, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := Trilinear(v.Float32, v.Shape, p); math.Abs(float64(got-o.Float32[0])) > 1e-6 {
			t.Fatalf("%g at %v, resampled %g", got, p, o.Float32[0])
		}
		i, j, k := r.IntN(5), r.IntN(4), r.IntN(3)
		whole := [3]float64{float64(i), float64(j), float64(k)}
		if Trilinear(v.Float32, v.Shape, whole) != v.At(i, j, k) {
			t.Fatalf("voxel %d %d %d is not itself", i, j, k)
		}
		for a := range whole {
			whole[a] += r.Float64() - 0.5
		}
		if NearestValue(v.Float32, v.Shape, whole) != v.At(i, j, k) {
			t.Fatalf("voxel %d %d %d is not nearest to %v", i, j, k, whole)
		}
	}
	if NearestValue(v.Float32, v.Shape, [3]float64{-9, 9, 0.5}) != v.At(0, 3, 1) {
		t.Error("outside, the edge does not count, or halves do not go upwards")
	}
}

// The weights of the cubic B-spline sum to 1, and reproduce straight lines.
func TestCubicBSpline(t *testing.T) {
	for _, x := range []float64{0, 0.25, 0.5, 0.9, 1} {
		w := CubicBSpline(x)
		if sum := w[0] + w[1] + w[2] + w[3]; math.Abs(sum-1) > 1e-15 {
			t.Errorf("weights at %g sum to %g", x, sum)
		}
		if line := -w[0] + w[2] + 2*w[3]; math.Abs(line-x) > 1e-15 {
			t.Errorf("a line becomes %g at %g", line, x)
		}
	}
}
