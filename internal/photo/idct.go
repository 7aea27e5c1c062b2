package photo

import (
	"encoding/binary"

	"github.com/voxsaw/voxsaw/internal/photo/fixed"
)

// The inverse cosine transform of libjpeg's "slow" method (jidctint.c; Loeffler, Ligtenberg and
// Moschytz 1989), to the bit.

// inverse turns the coefficients of a block into 8 rows of 8 bytes, so many bytes apart.
func inverse(dst []byte, stride int, b *[64]int32) {
	for x := range 8 {
		v := b[x:]
		v = v[:57]
		if v[8]|v[16]|v[24]|v[32]|v[40]|v[48]|v[56] == 0 {
			dc := descale(v[0]<<fixed.ConstBits, fixed.ConstBits-fixed.Pass1Bits)
			for y := range 8 {
				v[8*y] = dc
			}
			continue
		}
		v[0], v[8], v[16], v[24], v[32], v[40], v[48], v[56] = transform(v[0], v[8], v[16], v[24], v[32], v[40], v[48],
			v[56], fixed.ConstBits-fixed.Pass1Bits)
	}
	for y := range 8 {
		v := b[8*y : 8*y+8 : 8*y+8]
		row := dst[y*stride : y*stride+8 : y*stride+8]
		s0, s1, s2, s3, s4, s5, s6, s7 := transform(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7],
			fixed.ConstBits+fixed.Pass1Bits+3)
		row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7] = sample(s0), sample(s1), sample(s2), sample(s3),
			sample(s4), sample(s5), sample(s6), sample(s7)
	}
}

// flat is inverse for a block of one colour.
func flat(dst []byte, stride int, dc int32) {
	dc = descale(dc<<fixed.ConstBits, fixed.ConstBits-fixed.Pass1Bits)
	row := 0x0101010101010101 * uint64(sample(descale(dc<<fixed.ConstBits, fixed.ConstBits+fixed.Pass1Bits+3)))
	for y := range 8 {
		binary.LittleEndian.PutUint64(dst[y*stride:], row)
	}
}

// transform is the transform of 8 numbers, rounded by so many binary digits.
func transform(v0, v1, v2, v3, v4, v5, v6, v7 int32, digits int) (int32, int32, int32, int32, int32, int32, int32,
	int32) {
	z1 := (v2 + v6) * fixed.Fix0_541196100
	t2, t3 := z1-v6*fixed.Fix1_847759065, z1+v2*fixed.Fix0_765366865
	t0, t1 := (v0+v4)<<fixed.ConstBits, (v0-v4)<<fixed.ConstBits
	e0, e3, e1, e2 := t0+t3, t0-t3, t1+t2, t1-t2

	z1, z2, z3, z4 := v7+v1, v5+v3, v7+v3, v5+v1
	z5 := (z3 + z4) * fixed.Fix1_175875602
	z1, z2, z3, z4 = -z1*fixed.Fix0_899976223, -z2*fixed.Fix2_562915447, z5-z3*fixed.Fix1_961570560,
		z5-z4*fixed.Fix0_390180644
	o0 := v7*fixed.Fix0_298631336 + z1 + z3
	o1 := v5*fixed.Fix2_053119869 + z2 + z4
	o2 := v3*fixed.Fix3_072711026 + z2 + z3
	o3 := v1*fixed.Fix1_501321110 + z1 + z4
	return descale(e0+o3, digits), descale(e1+o2, digits), descale(e2+o1, digits), descale(e3+o0, digits),
		descale(e3-o0, digits), descale(e2-o1, digits), descale(e1-o2, digits), descale(e0-o3, digits)
}

func descale(v int32, digits int) int32 { return (v + 1<<(digits-1)) >> digits }

// sample is a byte around the middle of its range.
func sample(v int32) byte { return byte(min(max(v+128, 0), 255)) }
