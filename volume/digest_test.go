package volume

import (
	"math"
	"slices"
	"testing"
)

// The digest of a[k,j,i] = (7i + 11j + 13k) % 50 - 20 of extents 5, 4, 3, as numpy and hashlib have
// it:
//
//	k, j, i = numpy.mgrid[:3, :4, :5]
//	a = ((7*i + 11*j + 13*k) % 50 - 20).astype('<f4')
//	hashlib.sha256(numpy.array([5, 4, 3], '<u4').tobytes() + a.tobytes()).hexdigest()
const digestOfNumpy = "a3226def16cbaa4b2aee4af4dc850b528027b9229c0afc22f8305c7789c062e9"

func TestDigest(t *testing.T) {
	g := Grid{Shape: [3]int{5, 4, 3}, Affine: Scaling([3]float64{1, 2, 3})}
	whole, floats := &Volume{Grid: g, Int16: make([]int16, g.Len())},
		&Volume{Grid: g, Float32: make([]float32, g.Len())}
	for n := range whole.Int16 {
		i, j, k := n%5, n/5%4, n/20
		x := (7*i+11*j+13*k)%50 - 20
		whole.Int16[n], floats.Float32[n] = int16(x), float32(x)
		if x == 0 {
			floats.Float32[n] = float32(math.Copysign(0, -1))
		}
	}
	for _, v := range []*Volume{whole, floats} {
		for _, codes := range everyOrder() {
			turned, err := v.Orient(codes)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := turned.Digest(); err != nil || got != digestOfNumpy {
				t.Errorf("%s: %s, %v", codes, got, err)
			}
		}
	}
	floats.Float32[7] += 0.5
	low, lower := &Volume{Grid: g, Int16: slices.Repeat([]int16{-1024}, g.Len())},
		&Volume{Grid: g, Int16: slices.Repeat([]int16{-3024}, g.Len())}
	if a, _ := low.Digest(); a == "" {
		t.Error("no digest")
	} else if b, _ := lower.Digest(); a != b {
		t.Errorf("what was not seen counts: %s and %s", a, b)
	}
	if got, _ := floats.Digest(); got == digestOfNumpy {
		t.Error("another voxel changes nothing")
	}
	flat := &Volume{Grid: Grid{Shape: [3]int{5, 12, 1}, Affine: g.Affine}, Int16: whole.Int16}
	if got, _ := flat.Digest(); got == digestOfNumpy {
		t.Error("other extents change nothing")
	}
}

// everyOrder lists the 48 orders and directions of axes.
func everyOrder() (all []string) {
	opposite := map[byte]byte{'R': 'L', 'A': 'P', 'S': 'I'}
	for _, axes := range []string{"RAS", "RSA", "ARS", "ASR", "SRA", "SAR"} {
		for flips := range 8 {
			codes := []byte(axes)
			for a := range codes {
				if flips>>a&1 == 1 {
					codes[a] = opposite[codes[a]]
				}
			}
			all = append(all, string(codes))
		}
	}
	return all
}
