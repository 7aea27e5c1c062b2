#!/usr/bin/env bash
# Trains with two and four ranks under Debian's Open MPI and MPICH, on one host and between two network
# namespaces, kills ranks, and resumes; and with two ranks on simulated GPUs that sum by a simulated NCCL.
# Runs as root, and installs what is missing. Where VOXSAW_TEST_COMMIT is set, a part of it (internal/turns).
#
#   bash scripts/mpi-check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v mpirun.openmpi >/dev/null || ! command -v mpiexec.mpich >/dev/null || ! command -v ip >/dev/null; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends openmpi-bin mpich iproute2
fi
part() { [ -z "${VOXSAW_TEST_COMMIT:-}" ] || [ $((VOXSAW_TEST_COMMIT % $2)) = "$1" ]; }
tested() { go test -json -count=1 -vet=off "$@" | go run ./scripts/skips; }
CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags)
# with GPUs: net and os/user in Go alone, so that most packages are those of a build without cgo
export CGO_CFLAGS CGO_ENABLED=1
both=gpu,mpi,netgo,osusergo
if part 1 3; then
  CGO_ENABLED=0 tested -tags mpi -run '^TestMPI$' ./cli/tests/devices
else # the same program, which the tests of GPUs need anyway
  tested -tags $both -run '^TestMPI$' ./cli/tests/devices
fi
if part 2 3; then
  tested -tags mpi,netgo,osusergo -race ./internal/mpi
else
  tested -tags $both ./internal/mpi
fi
if part 0 3; then
  tested -tags $both -run '^TestPeersGPU$' ./cli/tests/devices
fi
