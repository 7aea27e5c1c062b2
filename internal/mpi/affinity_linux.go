package mpi

import "golang.org/x/sys/unix"

// affinity lists the cores that this process may run on, by their numbers on the host.
func affinity() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return allCores()
	}
	var cores []int
	for n := range len(set) * 64 {
		if set.IsSet(n) {
			cores = append(cores, n)
		}
	}
	if len(cores) == 0 { // of a host with more cores than a set has room for
		return allCores()
	}
	return cores
}
