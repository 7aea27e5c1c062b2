// Package half converts numbers of 16 bits as IEEE 754 has them: 1 bit of sign, 5 of exponent, 10
// of fraction. They are what numpy and PyTorch call float16. Start at [Float] and [From], which
// rounds to nearest, ties to even.
package half

import "math"

// Float is a number of 16 bits.
type Float uint16

// table has the value of every number.
var table = func() *[1 << 16]float32 {
	var t [1 << 16]float32
	for b := range t {
		t[b] = value(uint32(b))
	}
	return &t
}()

func value(b uint32) float32 {
	sign, exponent, fraction := b>>15<<31, b>>10&31, b&1023
	switch exponent {
	case 0: // subnormal
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)/(1<<24)))
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// Float32 is the value of h.
func (h Float) Float32() float32 { return table[h] }

// From is the number nearest to x.
func From(x float32) Float {
	b := math.Float32bits(x)
	sign, magnitude := Float(b>>16&0x8000), b&0x7fffffff
	switch {
	case magnitude > 0xff<<23: // NaN
		return sign | 0x7e00
	case magnitude >= 143<<23: // 2^16 and more
		return sign | 0x7c00
	case magnitude < 113<<23: // below 2^-14: a multiple of 2^-24, which adding 0.5 rounds to
		return sign | Float(math.Float32bits(math.Float32frombits(magnitude)+0.5)-126<<23)
	}
	// the bits that go away round the ones that stay; a carry into the exponent is right as it is
	return sign | Float((magnitude-112<<23+0xfff+magnitude>>13&1)>>13)
}

// From64 is the number nearest to x. Rounding to float32 first would round some twice.
func From64(x float64) Float {
	f := float32(x)
	if d := float64(f); d != x && !math.IsNaN(x) && !math.IsInf(d, 0) {
		// to odd: a float32 that is not x has its last bit set, so that no tie is made up
		b := math.Float32bits(f)
		if math.Abs(d) > math.Abs(x) {
			b--
		}
		f = math.Float32frombits(b | 1)
	}
	return From(f)
}
