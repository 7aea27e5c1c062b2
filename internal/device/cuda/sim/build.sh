#!/usr/bin/env bash
# Builds the simulated GPU, a libcuda.so.1 that computes on the CPU with the kernels as they are:
#
#   internal/device/cuda/sim/build.sh libcudasim.so
#   VOXSAW_CUDA_DRIVER=$PWD/libcudasim.so voxsaw pretrain --device cuda ...
#
# VOXSAW_SIM_SEED chooses the order in which threads run, VOXSAW_SIM_MEMORY the bytes of its memory.
set -euo pipefail
output=$(realpath "${1:?usage: build.sh OUTPUT.so}")
cd "$(dirname "$0")"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
{ ls ./*.cc; sed -n 's|^#include "\(.*\)"$|../kernels/\1|p' ../kernels/all.cu; } | xargs -P "$(nproc)" -I{} sh -c '
  g++ -std=c++17 -O2 -march=native -ffp-contract=off -fno-strict-aliasing -Wno-unknown-pragmas -fPIC -fvisibility=hidden -x c++ -c "$1" -o "$2/$(basename "$1").o"' _ {} "$objects"
g++ -shared "$objects"/*.o -o "$output"
