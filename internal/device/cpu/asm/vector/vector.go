// Package vector is avo's package build for two architectures: a kernel that is described once, in
// amd64's instructions on virtual registers, becomes assembly for amd64 by avo, or for arm64 by
// this package (see [arm64]).
//
// Import it with a dot in place of avo's build. Start at [Options].
package vector

import (
	"flag"
	"go/format"
	"log"
	"os"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/reg"
)

// context collects what all kernels of a generator emit.
var context = build.NewContext()

// What avo's package build has for its own context, as far as the kernels need it.
var (
	ConstraintExpr             = context.ConstraintExpr
	Doc                        = context.Doc
	Pragma                     = context.Pragma
	Label                      = context.Label
	Param, ReturnIndex         = context.Param, context.ReturnIndex
	Load, Store                = context.Load, context.Store
	GP64, XMM, YMM, ZMM, K     = context.GP64, context.XMM, context.YMM, context.ZMM, context.K
	ADDQ, SUBQ, DECQ, ANDQ     = context.ADDQ, context.SUBQ, context.DECQ, context.ANDQ
	SHLQ, SHRQ, IMUL3Q         = context.SHLQ, context.SHRQ, context.IMUL3Q
	MOVQ, LEAQ, CMPB, TESTQ    = context.MOVQ, context.LEAQ, context.CMPB, context.TESTQ
	JMP, JZ, JNZ, JEQ, JG, RET = context.JMP, context.JZ, context.JNZ, context.JEQ, context.JG, context.RET
	PREFETCHT0, PREFETCHT1     = context.PREFETCHT0, context.PREFETCHT1
	SFENCE, VZEROUPPER         = context.SFENCE, context.VZEROUPPER

	VMOVUPS, VMOVAPS, VMOVSS, VMOVNTPS = context.VMOVUPS, context.VMOVAPS, context.VMOVSS, context.VMOVNTPS
	VMOVAPS_Z                          = context.VMOVAPS_Z
	VBROADCASTSS                       = context.VBROADCASTSS
	VBROADCASTF128, VBROADCASTF32X4    = context.VBROADCASTF128, context.VBROADCASTF32X4
	VINSERTF128, VINSERTF32X4          = context.VINSERTF128, context.VINSERTF32X4
	VEXTRACTF128, VEXTRACTF32X4        = context.VEXTRACTF128, context.VEXTRACTF32X4
	VEXTRACTF64X4                      = context.VEXTRACTF64X4
	VPERM2F128, VSHUFF32X4             = context.VPERM2F128, context.VSHUFF32X4
	VPERMILPS, VPERMILPD               = context.VPERMILPS, context.VPERMILPD
	VUNPCKLPS, VUNPCKHPS               = context.VUNPCKLPS, context.VUNPCKHPS
	VUNPCKLPD, VUNPCKHPD               = context.VUNPCKLPD, context.VUNPCKHPD
	VXORPS, VPXORD, VANDPS, VANDNPS    = context.VXORPS, context.VPXORD, context.VANDPS, context.VANDNPS
	VADDPS, VSUBPS, VMULPS, VDIVPS     = context.VADDPS, context.VSUBPS, context.VMULPS, context.VDIVPS
	VXORPD, VMOVUPD                    = context.VXORPD, context.VMOVUPD
	VBROADCASTSD, VMOVDDUP             = context.VBROADCASTSD, context.VMOVDDUP
	VADDPD, VADDSS, VADDSD, VPADDD     = context.VADDPD, context.VADDSS, context.VADDSD, context.VPADDD
	VMAXPS, VSQRTPS                    = context.VMAXPS, context.VSQRTPS
	VFMADD231PS, VFNMADD231PS          = context.VFMADD231PS, context.VFNMADD231PS
	VFMADD231PD, VFMADD213PS           = context.VFMADD231PD, context.VFMADD213PS
	VFMADD231PS_BCST                   = context.VFMADD231PS_BCST
	VCMPPS, VBLENDVPS, VBLENDMPS       = context.VCMPPS, context.VBLENDVPS, context.VBLENDMPS
	VROUNDPS, VRNDSCALEPS, VSCALEFPS   = context.VROUNDPS, context.VRNDSCALEPS, context.VSCALEFPS
	VCVTPS2PD, VCVTPS2DQ, VPSLLD       = context.VCVTPS2PD, context.VCVTPS2DQ, context.VPSLLD
)

// TEXT starts a function.
func TEXT(name string, attributes attr.Attribute, signature string) {
	context.Function(name)
	context.Attributes(attributes)
	context.SignatureExpr(signature)
}

// GLOBL declares data, which DATA fills.
func GLOBL(name string, attributes attr.Attribute) operand.Mem {
	g := context.StaticGlobal(name)
	context.DataAttributes(attributes)
	return g
}

// DATA is a value at an offset of the data that were declared last.
func DATA(offset int, v operand.Constant) { context.AddDatum(offset, v) }

// LDR loads so many bytes into the first lanes of r: an instruction of arm64 alone, as FMLA is.
func LDR(bytes int, m operand.Mem, r reg.VecVirtual) {
	context.Instruction(&ir.Instruction{Opcode: "LDR", Operands: []operand.Op{operand.Imm(uint64(bytes)), m, r}})
}

// FMLA adds y times one lane of x to sum.
func FMLA(x reg.VecVirtual, lane int, y, sum reg.VecVirtual) {
	context.Instruction(&ir.Instruction{Opcode: "FMLA", Operands: []operand.Op{operand.Imm(uint64(lane)), x, y, sum}})
}

// Options are the flags of a generator: avo's -out, -stubs and -pkg, and -table, the file that its
// caller's tables go to.
type Options struct {
	flags      *build.Flags
	out, table string
}

// ParseOptions reads the command line.
func ParseOptions() *Options {
	// avo's package build has its own on the command line's set already
	set := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	o := &Options{flags: build.NewFlags(set)}
	set.StringVar(&o.table, "table", "", "file to write the tables of kernels to")
	set.Parse(os.Args[1:]) // exits on an error
	o.out = set.Lookup("out").Value.String()
	ConstraintExpr(o.Architecture())
	return o
}

// Architecture is the one that the name of -out ends in, as Go reads it: amd64 or arm64.
func (o *Options) Architecture() string {
	if strings.HasSuffix(o.out, "_arm64.s") {
		return "arm64"
	}
	return "amd64"
}

// Generate writes all that was emitted, and the tables.
func (o *Options) Generate(tables string) {
	if o.table != "" {
		text, err := format.Source([]byte(tables))
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(o.table, text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
	config := o.flags.Config()
	if o.Architecture() == "arm64" {
		// In place of avo's compiler and its printer. The stubs are Go on any architecture.
		config.Passes = config.Passes[1:]
		config.Passes[0].(*pass.Output).Printer = arm64{}
	}
	os.Exit(build.Main(config, context))
}
