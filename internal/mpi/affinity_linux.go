package mpi

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// affinity names the cores that this process may run on, and counts them.
func affinity() (bound string, cores int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return "", runtime.NumCPU()
	}
	return fmt.Sprintf("%x", set), set.Count()
}
