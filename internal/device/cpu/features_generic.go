//go:build !amd64

package cpu

import "runtime"

// availableKernels lists what this machine can run, best first.
func availableKernels() []*kernels { return []*kernels{genericKernels()} }

func processor() string { return runtime.GOARCH }
