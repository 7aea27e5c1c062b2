package volume

import (
	"fmt"
	"math"
)

// Interpolation is how values between voxel centres are found.
type Interpolation int

const (
	Linear Interpolation = iota // trilinear
	// cubic B-spline through the voxels (prefiltered, mirrored at the edges), as scipy.ndimage's
	// order 3
	Cubic
	Nearest // the nearest voxel, halves upwards
)

func (m Interpolation) String() string {
	switch m {
	case Linear:
		return "linear"
	case Cubic:
		return "cubic"
	case Nearest:
		return "nearest"
	}
	return fmt.Sprintf("Interpolation(%d)", int(m))
}

// ParseInterpolation is the inverse of [Interpolation.String].
func ParseInterpolation(s string) (Interpolation, error) {
	for _, m := range []Interpolation{Linear, Cubic, Nearest} {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("interpolation %q: want linear, cubic or nearest", s)
}

// CubicBSpline returns the weights of the four control points around a point that lies the fraction
// t of the way from the second to the third: the uniform cubic B-spline. They sum to 1.
func CubicBSpline(t float64) [4]float64 {
	s := 1 - t
	return [4]float64{s * s * s / 6, (3*t*t*t - 6*t*t + 4) / 6, (3*s*s*s - 6*s*s + 4) / 6, t * t * t / 6}
}

// Trilinear interpolates between the eight values around a point of a lattice, which is given by
// its index and must lie inside. The lattice has two values or more along each axis; i runs
// fastest.
func Trilinear(values []float32, shape [3]int, point [3]float64) float32 {
	var low [3]int // the lower of two neighbours; rounding may put a point a hair outside
	var f [3]float32
	for a, x := range point {
		low[a] = min(max(int(math.Floor(x)), 0), shape[a]-2)
		f[a] = float32(x - float64(low[a]))
	}
	up, deep := shape[0], shape[0]*shape[1]
	at := low[0] + up*low[1] + deep*low[2]
	mix := func(at int) float32 { return values[at] + f[0]*(values[at+1]-values[at]) }
	front := mix(at) + f[1]*(mix(at+up)-mix(at))
	back := mix(at+deep) + f[1]*(mix(at+deep+up)-mix(at+deep))
	return front + f[2]*(back-front)
}

// NearestValue returns the value of a lattice that is nearest to a point, which is given by its
// index; halves go upwards. Outside, the edge counts. I runs fastest.
func NearestValue[T any](values []T, shape [3]int, point [3]float64) T {
	return values[nearestIndex(point[0], shape[0])+shape[0]*(nearestIndex(point[1], shape[1])+
		shape[1]*nearestIndex(point[2], shape[2]))]
}

// nearestIndex returns the index that is nearest to x, of n.
func nearestIndex(x float64, n int) int { return min(max(int(math.Floor(x+0.5)), 0), n-1) }

// A tap is where one output index takes its value from: up to four voxels along the axis and their
// weights. Unused taps weigh 0.
type tap struct {
	index  [4]int
	weight [4]float32
}

// taps returns the tap at index x, inside the n voxels of an axis.
func taps(x float64, n int, method Interpolation) tap {
	i := min(int(x), max(n-2, 0))
	f := x - float64(i)
	if method == Linear {
		return tap{[4]int{i, min(i+1, n-1), i, i}, [4]float32{float32(1 - f), float32(f)}}
	}
	var t tap
	for o, weight := range CubicBSpline(f) {
		t.index[o], t.weight[o] = mirror(i-1+o, n), float32(weight)
	}
	return t
}

// mirror reflects an index about the centres of the first and the last voxel.
func mirror(i, n int) int {
	if n == 1 {
		return 0
	}
	period := 2 * (n - 1)
	i = ((i % period) + period) % period
	return min(i, period-i)
}
