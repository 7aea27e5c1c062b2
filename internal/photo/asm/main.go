// Command asm generates the assembly of package photo: kernels_amd64.s and its Go declarations.
//
// Run it by go generate in package photo. What the kernels compute is said by their namesakes in
// kernels.go and idct.go, to the bit; a test compares them.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/voxsaw/voxsaw/internal/photo/fixed"
)

func main() {
	ConstraintExpr("amd64")
	vertical()
	horizontal()
	rows("interleaveAVX2", false)
	rows("colourAVX2", true)
	inverse()
	Generate()
}

// words is a constant that fills a register with one 16-bit number.
func words(name string, value int16) operand.Mem {
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	for n := range 16 {
		DATA(2*n, operand.I16(value))
	}
	return m
}

// dwords is a constant that fills a register with one 32-bit number.
func dwords(name string, value int32) operand.Mem {
	m := GLOBL(name, 8|16)
	for n := range 8 {
		DATA(4*n, operand.I32(value))
	}
	return m
}

// vertical weighs rows of bytes, 16 columns at a time, two rows by one VPMADDWD. The last 16
// columns may overlap those before them.
func vertical() {
	round := dwords("roundVertical", 1<<(fixed.VerticalShift-1))
	TEXT("verticalAVX2", 4, "func(dst *int16, src *byte, stride, taps, n int, weights *int16)")
	Doc("verticalAVX2 is vertical for n of 16 or more and an even number of taps.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	stride, taps := Load(Param("stride"), GP64()), Load(Param("taps"), GP64())
	n, weights := Load(Param("n"), GP64()), Load(Param("weights"), GP64())
	x, last := GP64(), GP64()
	XORQ(x, x)
	MOVQ(n, last)
	SUBQ(operand.Imm(16), last)

	Label("columns")
	CMPQ(x, last)
	CMOVQGT(last, x)
	row, w, left := GP64(), GP64(), GP64()
	LEAQ(operand.Mem{Base: src, Index: x, Scale: 1}, row)
	MOVQ(weights, w)
	MOVQ(taps, left)
	low, high := YMM(), YMM()
	VMOVDQU(round, low)
	VMOVDQU(round, high)

	Label("taps")
	a, b, l, h, pair := YMM(), YMM(), YMM(), YMM(), YMM()
	VPMOVZXBW(operand.Mem{Base: row}, a)
	VPMOVZXBW(operand.Mem{Base: row, Index: stride, Scale: 1}, b)
	VPBROADCASTD(operand.Mem{Base: w}, pair)
	VPUNPCKLWD(b, a, l)
	VPUNPCKHWD(b, a, h)
	VPMADDWD(pair, l, l)
	VPMADDWD(pair, h, h)
	VPADDD(l, low, low)
	VPADDD(h, high, high)
	LEAQ(operand.Mem{Base: row, Index: stride, Scale: 2}, row)
	ADDQ(operand.Imm(4), w)
	SUBQ(operand.Imm(2), left)
	JG(operand.LabelRef("taps"))

	VPSRAD(operand.Imm(fixed.VerticalShift), low, low)
	VPSRAD(operand.Imm(fixed.VerticalShift), high, high)
	VPACKSSDW(high, low, low)
	VMOVDQU(low, operand.Mem{Base: dst, Index: x, Scale: 2})
	ADDQ(operand.Imm(16), x)
	CMPQ(x, n)
	JL(operand.LabelRef("columns"))
	VZEROUPPER()
	RET()
}

// horizontal weighs neighbours in a row, 8 of them by one VPMADDWD, for four places at a time.
func horizontal() {
	round := dwords("roundHorizontal", 1<<(fixed.HorizontalShift-1))
	TEXT("horizontalAVX2", 4, "func(dst, src *int16, starts *int32, weights *int16, taps, n int)")
	Doc("horizontalAVX2 is horizontal for n and taps that are multiples of 4 and 8.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	starts, weights := Load(Param("starts"), GP64()), Load(Param("weights"), GP64())
	taps, n := Load(Param("taps"), GP64()), Load(Param("n"), GP64())
	SHLQ(operand.Imm(1), taps) // bytes

	Label("places")
	var from [4]reg.GPVirtual
	var sum [4]reg.VecVirtual
	for i := range from {
		from[i], sum[i] = GP64(), XMM()
		MOVLQSX(operand.Mem{Base: starts, Disp: 4 * i}, from[i])
		LEAQ(operand.Mem{Base: src, Index: from[i], Scale: 2}, from[i])
		VPXOR(sum[i], sum[i], sum[i])
	}
	at := GP64()
	XORQ(at, at)

	Label("chunk")
	w, part := GP64(), XMM()
	LEAQ(operand.Mem{Base: weights, Index: at, Scale: 1}, w)
	for i := range from {
		VMOVDQU(operand.Mem{Base: from[i], Index: at, Scale: 1}, part)
		VPMADDWD(operand.Mem{Base: w}, part, part)
		VPADDD(part, sum[i], sum[i])
		if i < 3 {
			ADDQ(taps, w)
		}
	}
	ADDQ(operand.Imm(16), at)
	CMPQ(at, taps)
	JL(operand.LabelRef("chunk"))

	VPHADDD(sum[1], sum[0], sum[0])
	VPHADDD(sum[3], sum[2], sum[2])
	VPHADDD(sum[2], sum[0], sum[0])
	VPADDD(round, sum[0], sum[0])
	VPSRAD(operand.Imm(fixed.HorizontalShift), sum[0], sum[0])
	VPACKSSDW(sum[0], sum[0], sum[0])
	VMOVQ(sum[0], operand.Mem{Base: dst})
	ADDQ(operand.Imm(8), dst)
	ADDQ(operand.Imm(16), starts)
	LEAQ(operand.Mem{Base: weights, Index: taps, Scale: 4}, weights)
	SUBQ(operand.Imm(4), n)
	JG(operand.LabelRef("places"))
	VZEROUPPER()
	RET()
}

// spread is the order that puts 16 bytes of a channel at every third place of 48.
func spread(name string, channel int) (masks [3]operand.Mem) {
	for third := range masks {
		masks[third] = GLOBL(name+string(rune('0'+third)), 8|16)
		for n := range 16 {
			value := operand.U8(0x80) // zero
			if at := 16*third + n; at%3 == channel {
				value = operand.U8(at / 3)
			}
			DATA(n, value)
		}
	}
	return masks
}

var (
	masks     [3][3]operand.Mem
	half      operand.Mem
	constants map[string]operand.Mem
)

// rows turns three rows of samples into one of pixels, 16 at a time; from luma and chroma, if
// asked.
func rows(name string, colour bool) {
	if constants == nil {
		for c, n := range []string{"red", "green", "blue"} {
			masks[c] = spread(n, c)
		}
		half = words("half", 1<<(fixed.SampleBits-1))
		constants = map[string]operand.Mem{
			"zero": words("grey", fixed.Grey), "rCr": words("redOfCr", fixed.RedCr),
			"bCb": words("blueOfCb", fixed.BlueCb),
			"gCb": words("greenOfCb", fixed.GreenCb), "gCr": words("greenOfCr", fixed.GreenCr),
		}
	}
	TEXT(name, 4, "func(dst *byte, a, b, c *int16, n int)")
	if colour {
		Doc(name + " is colour for n that is a multiple of 16.")
	} else {
		Doc(name + " is interleave for n that is a multiple of 16.")
	}
	dst := Load(Param("dst"), GP64())
	pa, pb, pc := Load(Param("a"), GP64()), Load(Param("b"), GP64()), Load(Param("c"), GP64())
	n := Load(Param("n"), GP64())
	Label("loop")
	r, g, b := YMM(), YMM(), YMM()
	if colour {
		y, cb, cr := YMM(), YMM(), YMM()
		VMOVDQU(operand.Mem{Base: pa}, y)
		VMOVDQU(operand.Mem{Base: pb}, cb)
		VMOVDQU(operand.Mem{Base: pc}, cr)
		VPSUBW(constants["zero"], cb, cb)
		VPSUBW(constants["zero"], cr, cr)
		VPMULHRSW(constants["rCr"], cr, r)
		VPADDW(cr, r, r)
		VPADDSW(y, r, r)
		VPMULHRSW(constants["bCb"], cb, b)
		VPADDW(cb, b, b)
		VPADDSW(y, b, b)
		VPMULHRSW(constants["gCb"], cb, cb)
		VPMULHRSW(constants["gCr"], cr, cr)
		VPADDW(cb, cr, g)
		VPSUBSW(g, y, g)
	} else {
		VMOVDQU(operand.Mem{Base: pa}, r)
		VMOVDQU(operand.Mem{Base: pb}, g)
		VMOVDQU(operand.Mem{Base: pc}, b)
	}
	channels := [3]reg.VecVirtual{r, g, b}
	var bytes [3]reg.VecVirtual
	for i, v := range channels {
		VPADDSW(half, v, v)
		VPSRAW(operand.Imm(fixed.SampleBits), v, v)
		high := XMM()
		VEXTRACTI128(operand.Imm(1), v, high)
		bytes[i] = XMM()
		VPACKUSWB(high, v.AsX(), bytes[i])
	}
	for third := range 3 {
		out, part := XMM(), XMM()
		VPSHUFB(masks[0][third], bytes[0], out)
		for i := 1; i < 3; i++ {
			VPSHUFB(masks[i][third], bytes[i], part)
			VPOR(part, out, out)
		}
		VMOVDQU(out, operand.Mem{Base: dst, Disp: 16 * third})
	}
	ADDQ(operand.Imm(48), dst)
	for _, p := range []reg.Register{pa, pb, pc} {
		ADDQ(operand.Imm(32), p)
	}
	SUBQ(operand.Imm(16), n)
	JG(operand.LabelRef("loop"))
	VZEROUPPER()
	RET()
}
