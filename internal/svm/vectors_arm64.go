package svm

import "os"

// fastest is NEON, which every arm64 has, unless VOXSAW_CPU asks for generic kernels, as it does of
// the CPU device.
var fastest = choose(os.Getenv("VOXSAW_CPU") != "generic")

func choose(neon bool) *vectors {
	if neon {
		return &vectors{dotNEON, axpyNEON}
	}
	return &vectors{}
}
