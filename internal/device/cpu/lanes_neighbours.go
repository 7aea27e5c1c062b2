package cpu

import "math"

// greatestOf finds the greatest elements of a window and the vector that each is in: of equals the
// first one, of several NaN the last.
func greatestOf(x *float32, rows, columns, rowStep int) (best [block]float32, where [block]int) {
	best = *vector(x, 0)
	for r := range rows {
		for c := range columns {
			for l, value := range vector(x, r*rowStep+c*block) {
				if value > best[l] || value != value {
					best[l], where[l] = value, r*columns+c
				}
			}
		}
	}
	return best, where
}

func greatestGeneric(y, x *float32, n, rows, columns, rowStep, next int) {
	for i := range n {
		*vector(y, i*block), _ = greatestOf(at(x, i*next), rows, columns, rowStep)
	}
}

func greatestGradGeneric(dx, x, dy *float32, n, rows, columns, rowStep, next int) {
	for i := range n {
		_, where := greatestOf(at(x, i*next), rows, columns, rowStep)
		for l, d := range vector(dy, i*block) {
			*at(dx, i*next+where[l]/columns*rowStep+where[l]%columns*block+l) += d
		}
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
