// Package fixed holds the fixed-point numbers of resizing, colour and JPEG, which the kernels of
// package photo and the generator of their assembly share.
//
// Start at [SampleBits]. The package has no code.
package fixed

const (
	// WeightBits is where the binary point of a resizing weight stands: weights add up to 1 <<
	// WeightBits, which an int16 holds.
	WeightBits = 14
	// SampleBits is where the binary point of a sample stands between the passes: 255 << SampleBits
	// is an int16, too.
	SampleBits = 7

	VerticalShift   = WeightBits - SampleBits // of sums over bytes
	HorizontalShift = WeightBits              // of sums over samples
)

// The matrix from YCbCr to RGB of JFIF 1.02 (ITU-R BT.601, full range), as products with 15 binary
// digits:
//
//	R = Y + Cr' + 0.402 Cr'     Cr' = Cr - 128
//	B = Y + Cb' + 0.772 Cb'     Cb' = Cb - 128
//	G = Y - (0.344136 Cb' + 0.714136 Cr')
const (
	Grey    = 128 << SampleBits
	RedCr   = 13173
	BlueCb  = 25297
	GreenCb = 11277
	GreenCr = 23401
)

// The constants of libjpeg's inverse cosine transform (jidctint.c), with [ConstBits] binary digits;
// between its passes a sample has [Pass1Bits] of them.
const (
	ConstBits = 13
	Pass1Bits = 2

	Fix0_298631336 = 2446
	Fix0_390180644 = 3196
	Fix0_541196100 = 4433
	Fix0_765366865 = 6270
	Fix0_899976223 = 7373
	Fix1_175875602 = 9633
	Fix1_501321110 = 12299
	Fix1_847759065 = 15137
	Fix1_961570560 = 16069
	Fix2_053119869 = 16819
	Fix2_562915447 = 20995
	Fix3_072711026 = 25172
)
