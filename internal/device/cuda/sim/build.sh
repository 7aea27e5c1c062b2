#!/usr/bin/env bash
# Builds the simulated GPU, a libcuda.so.1 that computes on the CPU with the kernels as they are:
#
#   internal/device/cuda/sim/build.sh libcudasim.so
#   VOXSAW_CUDA_DRIVER=$PWD/libcudasim.so voxsaw pretrain --device cuda ...
#
# VOXSAW_SIM_SEED chooses the order in which threads run, VOXSAW_SIM_MEMORY the bytes of its memory,
# VOXSAW_SIM_SHARED the bytes of shared memory that a block may have (101376 is an RTX 30's),
# VOXSAW_SIM_PROCESSORS the number of multiprocessors, VOXSAW_SIM_GPUS how many GPUs there are (1).
# Objects are kept in the user's cache, named by all that they were made of.
set -euo pipefail
output=$(realpath "${1:?usage: build.sh OUTPUT.so}")
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/voxsaw-simulated-gpu
mkdir -p "$cache"
# no contraction of products and sums, lest results depend on the processor
flags="-std=c++17 -O2 -march=native -ffp-contract=off -fno-strict-aliasing -Wno-unknown-pragmas -fPIC -fvisibility=hidden"
common=$({ echo "$flags"; g++ --version; grep -m1 '^model name' /proc/cpuinfo || true; } | sha256sum)
part=$(mktemp -d)
trap 'rm -rf "$part"' EXIT

sources() { # FILE: its text, and that of the headers which it includes
  local text line
  text=$(<"$1")
  printf '%s\n' "$text"
  while read -r line; do
    if [[ $line =~ ^'#include "'(.*)'"'$ ]]; then sources "${1%/*}/${BASH_REMATCH[1]}"; fi
  done <<<"$text"
}
compile() { # SOURCE: leaves the object's path in $part; an object appears only when it is whole
  local object
  object=$cache/$( (echo "$common $(basename "$1")"; sources "$1") | sha256sum | cut -c1-32).o
  if [ ! -e "$object" ]; then
    # shellcheck disable=SC2086 # words
    g++ $flags -x c++ -c "$1" -o "$part/$(basename "$1").o"
    mv "$part/$(basename "$1").o" "$object"
  fi
  echo "$object" >"$part/$(basename "$1").path"
}
export -f compile sources
export flags common cache part
{ ls ./*.cc; sed -n 's|^#include "\(.*\)"$|../kernels/\1|p' ../kernels/all.cu; } | xargs -P "$(nproc)" -I{} bash -c 'set -euo pipefail; compile "$1"' _ {}
g++ -shared $(cat "$part"/*.path) -o "$part/library.so"
mv "$part/library.so" "$output"
