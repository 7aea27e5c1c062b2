//go:build !amd64 && !arm64

package cpu

// availableKernels lists what this machine can run, best first.
func availableKernels() []*kernels { return []*kernels{genericKernels()} }
