#!/usr/bin/env bash
# Trains with two and four ranks under Debian's Open MPI and MPICH, on one host and between two network
# namespaces, kills ranks, and resumes; and with two ranks on simulated GPUs that sum by a simulated NCCL.
# Runs as root, and installs what is missing.
#
#   bash scripts/mpi-check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v mpirun.openmpi >/dev/null || ! command -v mpiexec.mpich >/dev/null || ! command -v ip >/dev/null; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends openmpi-bin mpich iproute2
fi
export CGO_ENABLED=1 # net and os/user in Go alone, so that most packages are those of a build without cgo
go test -json -count=1 -vet=off -tags mpi,netgo,osusergo -race ./internal/mpi | go run ./scripts/skips
CGO_ENABLED=0 go test -json -count=1 -vet=off -tags mpi -run '^TestMPI$' ./cli/tests/devices | go run ./scripts/skips
CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags)
export CGO_CFLAGS
go test -json -count=1 -vet=off -tags gpu,mpi,netgo,osusergo -run '^TestPeersGPU$' ./cli/tests/devices | go run ./scripts/skips
