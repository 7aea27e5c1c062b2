package seed

import "testing"

func TestRandDependsOnEveryArgument(t *testing.T) {
	first := func(seed uint64, stream string, index ...uint64) uint64 { return Rand(seed, stream, index...).Uint64() }
	seen := map[uint64]string{}
	for name, v := range map[string]uint64{
		"base": first(1, "crop", 2, 3), "seed": first(2, "crop", 2, 3), "stream": first(1, "flip", 2, 3),
		"first index": first(1, "crop", 3, 3), "second index": first(1, "crop", 2, 4), "order": first(1, "crop", 3, 2),
		"fewer": first(1, "crop", 2),
	} {
		if other, ok := seen[v]; ok {
			t.Errorf("%s and %s draw the same number", name, other)
		}
		seen[v] = name
	}
	if once, again := first(1, "crop", 2, 3), first(1, "crop", 2, 3); once != again {
		t.Error("the same arguments draw different numbers")
	}
}

// Neighbouring steps must not be correlated: the mean of the first draws of 10000 of them is 0.5
// within five standard errors (1/sqrt(12 n)).
func TestNeighbouringStreamsAreUncorrelated(t *testing.T) {
	const n = 10000
	var mean, product float64
	previous := 0.5
	for i := range uint64(n) {
		x := Rand(7, "step", i).Float64()
		mean += x / n
		product += (x - 0.5) * (previous - 0.5) / n
		previous = x
	}
	if d := mean - 0.5; d > 0.015 || d < -0.015 {
		t.Errorf("mean %v, want 0.5", mean)
	}
	if product > 0.005 || product < -0.005 {
		t.Errorf("covariance of neighbours %v, want 0", product)
	}
}
