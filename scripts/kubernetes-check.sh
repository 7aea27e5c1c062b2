#!/bin/bash
# Decodes the Job and the MPIJobs that "crossval --write kubernetes" writes, strictly, into the types of
# Kubernetes and of mpi-operator. They are fetched from the Go module proxy into a module of its own,
# which the program does not depend on.
set -euo pipefail
cd "$(dirname "$0")/../testdata/kubernetes"
go vet .
go test .
