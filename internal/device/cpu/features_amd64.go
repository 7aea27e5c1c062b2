package cpu

import (
	"strings"

	"golang.org/x/sys/cpu"
)

// availableKernels lists what this machine can run, best first.
func availableKernels() []*kernels {
	return []*kernels{genericKernels()}
}

var _ = cpu.X86

func processor() string { return strings.TrimSpace("amd64") }
