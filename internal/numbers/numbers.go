// Package numbers says once what is asked about floating-point numbers all over the program. Start
// at [Finite].
package numbers

// Finite reports whether a number is neither NaN nor infinite.
func Finite[T ~float32 | ~float64](x T) bool { return x-x == 0 }
