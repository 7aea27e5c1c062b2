package eval

import "math"

// AreaUnderCurve is the mean height of a learning curve: the area below it by the trapezoidal rule,
// divided by the range of x, so that it is in the unit of y and curves over the same steps compare.
// x ascends, as the steps of validations do. NaN for fewer than two points, and where a value is
// not finite.
func AreaUnderCurve(x, y []float64) float64 {
	n := min(len(x), len(y))
	if n < 2 || !(x[n-1] > x[0]) {
		return math.NaN()
	}
	var area float64
	for k := 1; k < n; k++ {
		area += (x[k] - x[k-1]) * (y[k] + y[k-1]) / 2
	}
	if area /= x[n-1] - x[0]; math.IsInf(area, 0) {
		return math.NaN()
	}
	return area
}

// StepsTo is where a learning curve first reaches a level, such as 95 % of the last value of a
// reference, interpolated linearly between two validations. It is +Inf where the curve never
// reaches it, and the first x where it begins above.
func StepsTo(x, y []float64, level float64) float64 {
	for k := range min(len(x), len(y)) {
		switch {
		case !(y[k] >= level):
		case k == 0 || !(y[k-1] < level): // the first, or after a gap
			return x[k]
		default:
			return x[k-1] + (x[k]-x[k-1])*(level-y[k-1])/(y[k]-y[k-1])
		}
	}
	return math.Inf(1)
}
