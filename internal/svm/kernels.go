package svm

//go:generate go run ./asm -pkg svm -out kernels_amd64.s -stubs kernels_amd64.go
//go:generate go run ./asm -pkg svm -out kernels_arm64.s -stubs kernels_arm64.go

// turn is how many features the assembly takes at a time.
const turn = 16

// vectors is the products of a sample's features with weights in assembly, for a multiple of [turn]
// features; nil where the processor has none. What is left over goes through plain loops.
type vectors struct {
	dot  func(w *float64, x *float32, n int) float64       // the sum of w[i] x[i]
	axpy func(w *float64, x *float32, n int, step float64) // w[i] += step x[i]
}

// score is the weights' answer to a sample: w has one more element, the intercept.
func (v *vectors) score(w []float64, x []float32) float64 {
	n, sum := 0, w[len(x)]
	if v.dot != nil && len(x) >= turn {
		n = len(x) / turn * turn
		sum += v.dot(&w[0], &x[0], n)
	}
	return sum + dot(w[n:len(x)], x[n:])
}

// add moves the weights and the intercept by a step along a sample.
func (v *vectors) add(w []float64, x []float32, step float64) {
	n := 0
	if v.axpy != nil && len(x) >= turn {
		n = len(x) / turn * turn
		v.axpy(&w[0], &x[0], n, step)
	}
	for i, f := range x[n:] {
		w[n+i] += step * float64(f)
	}
	w[len(x)] += step
}

// dot has four sums, which a processor adds at once.
func dot(w []float64, x []float32) float64 {
	var a, b, c, d float64
	n := len(x) &^ 3
	for k := 0; k < n; k += 4 {
		x, w := x[k:k+4:k+4], w[k:k+4:k+4]
		a += w[0] * float64(x[0])
		b += w[1] * float64(x[1])
		c += w[2] * float64(x[2])
		d += w[3] * float64(x[3])
	}
	for k := n; k < len(x); k++ {
		a += w[k] * float64(x[k])
	}
	return a + b + c + d
}
