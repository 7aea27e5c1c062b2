//go:build !linux

package mpi

import "runtime"

// affinity names the cores that this process may run on, and counts them.
func affinity() (bound string, cores int) { return "", runtime.NumCPU() }
