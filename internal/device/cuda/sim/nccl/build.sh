#!/usr/bin/env bash
# Builds the simulated NCCL, which sums between processes that each have a simulated GPU:
#
#   internal/device/cuda/sim/nccl/build.sh libncclsim.so
#   VOXSAW_CUDA_DRIVER=$PWD/libcudasim.so VOXSAW_SIM_GPUS=2 VOXSAW_NCCL=$PWD/libncclsim.so mpirun -n 2 voxsaw finetune --device cuda ...
#
# VOXSAW_SIM_NCCL plants faults: see nccl.cc.
set -euo pipefail
output=$(realpath "${1:?usage: build.sh OUTPUT.so}")
cd "$(dirname "$0")"
g++ -std=c++17 -O2 -ffp-contract=off -fPIC -shared -fvisibility=hidden -Wall -Wextra nccl.cc -o "$output.part"
mv "$output.part" "$output"
