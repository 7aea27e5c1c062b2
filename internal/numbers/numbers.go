// Package numbers says once what is asked about numbers all over the program. Start at [Finite] and
// [Extents].
package numbers

import (
	"fmt"
	"strings"
)

// Finite reports whether a number is neither NaN nor infinite.
func Finite[T ~float32 | ~float64](x T) bool { return x-x == 0 }

// Extents writes sizes along axes the way users do: 64x64x64.
func Extents[T ~int | ~float64](sizes []T) string {
	parts := make([]string, len(sizes))
	for n, size := range sizes {
		parts[n] = fmt.Sprint(size)
	}
	return strings.Join(parts, "x")
}
