package half

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Every number is the nearest to its own value, and to all values up to half-way to its neighbours.
func TestNearest(t *testing.T) {
	for b := range 0x7c00 {
		h := Float(b)
		x := float64(h.Float32())
		above := 65536.0 // what would follow the largest
		if b+1 < 0x7c00 {
			above = float64(Float(b + 1).Float32())
		}
		middle := (x + above) / 2
		even := h + h&1
		for _, c := range []struct {
			x    float64
			want Float
		}{{x, h}, {middle, even}, {math.Nextafter(middle, x), h}, {math.Nextafter(middle, above), h + 1}} {
			if got := From64(c.x); got != c.want {
				t.Fatalf("From64(%v) = %#x, want %#x", c.x, got, c.want)
			}
			if got := From64(-c.x); got != c.want|0x8000 {
				t.Fatalf("From64(%v) = %#x, want %#x", -c.x, got, c.want|0x8000)
			}
			if f := float32(c.x); float64(f) == c.x && From(f) != c.want {
				t.Fatalf("From(%v) = %#x, want %#x", f, From(f), c.want)
			}
		}
	}
}

// The values are numpy's: np.array(bits, np.uint16).view(np.float16).astype(np.float32).
func TestValues(t *testing.T) {
	for bits, want := range map[Float]float32{0: 0, 1: 5.9604645e-08, 0x3ff: 6.0975552e-05, 0x400: 6.1035156e-05,
		0x3c00: 1, 0x3555: 0.33325195, 0x7bff: 65504, 0xc900: -10} {
		if got := bits.Float32(); got != want {
			t.Errorf("%#x is %v, want %v", bits, got, want)
		}
	}
	if x := Float(0x7c00).Float32(); !math.IsInf(float64(x), 1) {
		t.Error(x)
	}
	if x := From(float32(math.NaN())).Float32(); x == x {
		t.Error(x)
	}
	if x := From(65520); x != 0x7c00 {
		t.Errorf("%#x", x)
	}
	if x := From64(1e300); x != 0x7c00 {
		t.Errorf("%#x", x)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		x := math.Float32frombits(r.Uint32())
		if y := From(x).Float32(); x == x && math.Abs(float64(x)) < 65504 &&
			math.Abs(float64(y-x)) > math.Max(math.Abs(float64(x))/2048, 0x1p-25) {
			t.Fatalf("%v became %v", x, y)
		}
	}
}
