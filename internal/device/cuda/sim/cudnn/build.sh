#!/usr/bin/env bash
# Builds the simulated cuDNN, which computes for the simulated GPU:
#
#   internal/device/cuda/sim/cudnn/build.sh libcudnnsim.so
#   VOXSAW_CUDA_DRIVER=$PWD/libcudasim.so VOXSAW_CUDNN=$PWD/libcudnnsim.so voxsaw tune --device cuda ...
#
# VOXSAW_SIM_CUDNN plants faults: see cudnn.cc.
set -euo pipefail
output=$(realpath "${1:?usage: build.sh OUTPUT.so}")
cd "$(dirname "$0")"
g++ -std=c++17 -O2 -ffp-contract=off -fPIC -shared -fvisibility=hidden -Wall -Wextra cudnn.cc -o "$output.part"
mv "$output.part" "$output"
