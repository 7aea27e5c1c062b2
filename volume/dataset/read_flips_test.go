package dataset

import (
	"math"
	"strings"
	"testing"
)

// What no case tells, the sums of all may; flipping labels moves the evidence along.
func TestFlipsArePooled(t *testing.T) {
	// the share of the variance that lies between inside and outside, of each flip
	evidence := func(shares [8]float64) (e FlipEvidence) {
		for flip, share := range shares {
			apart := math.Sqrt(share) // half the difference of the means, of a variance of 1
			e[flip] = [2]moments{{50, 50 * apart, 50}, {50, -50 * apart, 50}}
		}
		return e
	}
	of := func(share float64, flips ...int) FlipEvidence {
		var shares [8]float64
		for _, flip := range flips {
			shares[flip] = share
		}
		return evidence(shares)
	}
	for _, c := range []struct {
		seen FlipsSeen
		want string
	}{
		{FlipsSeen{}, ""},
		{FlipsSeen{"a": of(0.3, 0), "b": of(0.09, 0)}, "1 agree, 1 cannot be told"},
		{FlipsSeen{"a": of(0.05, 0), "b": of(0.05, 0)}, "0 agree, 2 cannot be told, and all together do not tell"},
		{
			FlipsSeen{"a": of(0.4, 0, 1), "b": of(0.4, 0, 2), "c": of(0.4, 0, 4), "d": of(0.4, 0, 3),
				"e": of(0.4, 0, 5)},
			"0 agree, 5 cannot be told; all together agree",
		},
		{
			FlipsSeen{"a": of(0.4, 2, 0), "b": of(0.4, 2), "c": of(0.4, 2), "d": of(0.4, 2), "e": of(0.4, 2)},
			"1 cannot be told, 4 fit better when flipped; all 5 together fit better when flipped along j",
		},
		{FlipsSeen{"a": of(0.3, 2)}, "0 agree, 0 cannot be told, 1 fit better when flipped"},
	} {
		if got := c.seen.Note(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	e := of(0.3, 2)
	after := e.flipped("j")
	if _, agrees := after.verdict(); !agrees {
		t.Error("labels that were flipped do not agree")
	}
}
