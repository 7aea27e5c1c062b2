// Package numbers says once what is asked about numbers all over the program. Start at [Finite],
// [Extents], [List] and [Count]; [CompareNatural] orders names by the numbers in them.
package numbers

import (
	"fmt"
	"strings"
)

// Finite reports whether a number is neither NaN nor infinite.
func Finite[T ~float32 | ~float64](x T) bool { return x-x == 0 }

// Extents writes sizes along axes the way users do: 64x64x64.
func Extents[T ~int | ~float64](sizes []T) string { return join(sizes, "x") }

// List writes values the way a sentence does: 1, 3, 4.
func List[T any](values []T) string { return join(values, ", ") }

func join[T any](values []T, between string) string {
	parts := make([]string, len(values))
	for n, value := range values {
		parts[n] = fmt.Sprint(value)
	}
	return strings.Join(parts, between)
}

// Count writes a number of things: 1 fold, 2 folds. The plural is the noun with an s, unless it is
// given.
func Count(n int, noun string, plural ...string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case len(plural) > 0:
		return fmt.Sprintf("%d %s", n, plural[0])
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// CompareNatural orders names with the numbers in them as numbers: case2 before case10.
func CompareNatural(a, b string) int {
	whole := [2]string{a, b}
	for a != "" && b != "" {
		if a[0] == b[0] && (a[0] < '0' || a[0] > '9') {
			a, b = a[1:], b[1:]
			continue
		}
		m, n := leadingDigits(a), leadingDigits(b)
		if m == 0 || n == 0 {
			return strings.Compare(a, b)
		}
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if x != y {
			return strings.Compare(x, y)
		}
		a, b = a[m:], b[n:]
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(whole[0], whole[1]) // 07 and 7
}

func leadingDigits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
