package cpu

import "golang.org/x/sys/cpu"

// availableKernels lists what this machine can run, best first.
func availableKernels() []*kernels {
	var tables []*kernels
	if cpu.X86.HasAVX512F {
		tables = append(tables, avx512Kernels())
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		tables = append(tables, avx2Kernels())
	}
	return append(tables, genericKernels())
}
