//go:build !mpi || !linux || !(amd64 || arm64)

package mpi

import "errors"

// Compiled says whether this build can join a job.
const Compiled = false

func open(Launch) (library, error) {
	return nil, errors.New("this build has no MPI: take one with the tag mpi, such as the release for linux")
}
