//go:build !linux

package mpi

// affinity lists the cores that this process may run on, by numbers.
func affinity() []int { return allCores() }
