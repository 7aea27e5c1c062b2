package train

import (
	"math"
	"testing"
)

// The bits are PyTorch's: torch.tensor(x).bfloat16().view(torch.int16).
func TestBF16IsRoundedAsInPyTorch(t *testing.T) {
	for x, want := range map[float32]float32{
		1: math.Float32frombits(0x3f80 << 16), 1.00390625: math.Float32frombits(0x3f80 << 16),
		1.01171875: math.Float32frombits(0x3f82 << 16),
		3.4e38:     float32(math.Inf(1)), 1e-40: math.Float32frombits(0x1 << 16),
		0.1: math.Float32frombits(0x3dcd << 16), -65504.5: math.Float32frombits(0xc780 << 16),
		float32(math.Inf(-1)): float32(math.Inf(-1)),
	} {
		data := make([]byte, 2)
		putBF16(data, 0, x)
		if got := atBF16(data, 0); got != want {
			t.Errorf("%v becomes %v, want %v", x, got, want)
		}
	}
	data := make([]byte, 2)
	putBF16(data, 0, math.Float32frombits(0x7f800001)) // a NaN whose upper half is an infinity's
	if got := atBF16(data, 0); got == got {
		t.Errorf("a NaN becomes %v", got)
	}
}
