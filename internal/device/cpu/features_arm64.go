package cpu

// availableKernels lists what this machine can run, best first. All processors of arm64 that Go
// supports have NEON.
func availableKernels() []*kernels { return []*kernels{neonKernels(), genericKernels()} }
