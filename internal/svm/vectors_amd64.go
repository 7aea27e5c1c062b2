package svm

import (
	"os"

	"golang.org/x/sys/cpu"
)

// fastest is the best that the processor has, unless VOXSAW_CPU asks for generic kernels, as it
// does of the CPU device.
var fastest = choose(cpu.X86.HasAVX2 && cpu.X86.HasFMA && os.Getenv("VOXSAW_CPU") != "generic")

func choose(avx2 bool) *vectors {
	if avx2 {
		return &vectors{dotAVX2, axpyAVX2}
	}
	return &vectors{}
}
