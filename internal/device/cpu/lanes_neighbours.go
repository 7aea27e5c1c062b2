package cpu

import "math"

// eachVector calls f with where each vector of a window lies, counted from its first one.
func eachVector(w *windows, f func(at int)) {
	for p := range w.planes {
		for r := range w.rows {
			for c := range w.columns {
				f(p*w.planeStep + r*w.rowStep + c*block)
			}
		}
	}
}

// greatestOf finds the greatest elements of a window and where each is: of equals the first one, of
// several NaN the last.
func greatestOf(x *float32, w *windows) (best [block]float32, where [block]int) {
	best = *vector(x, 0)
	eachVector(w, func(at int) {
		for l, value := range vector(x, at) {
			if value > best[l] || value != value {
				best[l], where[l] = value, at
			}
		}
	})
	return best, where
}

func greatestGeneric(y, x *float32, w *windows) {
	for i := range w.n {
		*vector(y, i*block), _ = greatestOf(at(x, i*w.next), w)
	}
}

func greatestGradGeneric(dx, x, dy *float32, w *windows) {
	for i := range w.n {
		_, where := greatestOf(at(x, i*w.next), w)
		for l, d := range vector(dy, i*block) {
			*at(dx, i*w.next+where[l]+l) += d
		}
	}
}

func meanGeneric(y, x *float32, w *windows, factor float32) {
	for i := range w.n {
		var sum [block]float32
		eachVector(w, func(at int) {
			for l, value := range vector(x, i*w.next+at) {
				sum[l] += value
			}
		})
		for l, value := range sum {
			*at(y, i*block+l) = value * factor
		}
	}
}

func meanGradGeneric(dx, dy *float32, w *windows, factor float32) {
	for i := range w.n {
		gradient := vector(dy, i*block)
		eachVector(w, func(at int) {
			to := vector(dx, i*w.next+at)
			for l, d := range gradient {
				to[l] += d * factor
			}
		})
	}
}

func lrnScaleGeneric(power, scale, x *float32, n, size int, alpha, k float32) {
	for c := range n * block {
		sum := float32(0)
		for j := range size {
			e := *at(x, c+j)
			sum += e * e
		}
		s := k + alpha*sum
		root := float32(math.Sqrt(float64(s)))
		*at(scale, c), *at(power, c) = s, 1/(root*float32(math.Sqrt(float64(root))))
	}
}

func lrnTermsGeneric(dy, term, x, power, scale *float32, n int) {
	for c := range n * block {
		d := *at(dy, c) * *at(power, c)
		*at(dy, c), *at(term, c) = d, d**at(x, c) / *at(scale, c)
	}
}

func lrnSpreadGeneric(x, dy, term *float32, n, size int, factor float32) {
	for c := range n * block {
		sum := float32(0)
		for j := range size {
			sum += *at(term, c+j)
		}
		*at(x, c) = *at(dy, c) - factor**at(x, c)*sum
	}
}
