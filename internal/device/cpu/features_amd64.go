package cpu

import "golang.org/x/sys/cpu"

// extensions are what the kernels of each instruction set need beyond what every amd64 processor
// has, by the assembler's names. Not all processors that have AVX-512 have it for shorter
// registers.
var extensions = map[string]map[string]bool{
	"avx512": {"AVX": cpu.X86.HasAVX, "AVX512F": cpu.X86.HasAVX512F, "AVX512VL": cpu.X86.HasAVX512VL},
	"avx2":   {"AVX": cpu.X86.HasAVX, "AVX2": cpu.X86.HasAVX2, "FMA3": cpu.X86.HasFMA},
}

// availableKernels lists what this machine can run, best first.
func availableKernels() []*kernels {
	var tables []*kernels
	for _, ks := range []*kernels{avx512Kernels(), avx2Kernels(), genericKernels()} {
		runs := true
		for _, has := range extensions[ks.name] {
			runs = runs && has
		}
		if runs {
			tables = append(tables, ks)
		}
	}
	return tables
}
