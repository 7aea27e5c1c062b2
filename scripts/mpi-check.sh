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
export CGO_ENABLED=0
tested -tags mpi -run '^TestMPI$' ./cli/tests/devices
if part 2 3; then # net and os/user in Go alone, so that most packages are those of a build without cgo
  CGO_ENABLED=1 tested -tags mpi,netgo,osusergo -race ./internal/mpi
else
  tested -tags mpi ./internal/mpi
fi
part 0 3 || exit 0
CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags)
export CGO_CFLAGS
CGO_ENABLED=1 tested -tags gpu,mpi,netgo,osusergo -run '^TestPeersGPU$' ./cli/tests/devices
