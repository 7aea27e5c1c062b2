// How kernels that treat channels apart share out the voxels of images (N, voxels, C).
//
// A thread owns V neighbouring channels, 16 bytes where C allows it, and every so many voxels of one
// chunk of one image: what depends on the channel alone stays in its registers. Neighbouring
// threads own neighbouring channels, so that a warp reads memory in one stretch.
//
//   grid: x chunks of an image, y images, z groups of 256 owners
#pragma once
#include "gpu.h"

struct Channels {
  int images, channels, voxels; // of one image
  int chunk;                    // voxels of a block
};

// the threads of a block
CONSTANT int ownerThreads = 256;

template <int V> struct Owner {
  int channel; // the first of V
  int first, end, step; // voxels
  int row, rows;        // this thread among those that own the same channels
  int slot, slots;      // this thread's channels among those of the block
  bool active;

  FN_MEMBER Owner(const Channels &a) {
    const int owners = a.channels / V, from = blockIdx.z * ownerThreads;
    slots = min(ownerThreads, owners - from);
    rows = ownerThreads / slots;
    row = threadIdx.x / slots;
    slot = threadIdx.x % slots;
    channel = V * (from + slot);
    active = row < rows;
    first = blockIdx.x * a.chunk + row;
    end = active ? min(a.voxels, (int)(blockIdx.x + 1) * a.chunk) : 0;
    step = rows;
  }

  // the index of this thread's channels at a voxel
  FN_MEMBER size_t at(const Channels &a, int voxel) const { return ((size_t)blockIdx.y * a.voxels + voxel) * a.channels + channel; }
};

// addRows adds K sums of V channels over the rows of a block, in their order, and writes them as
// to[channel * K + k]. Shared memory: 256 V floats.
template <int V, int K> FN void addRows(float *to, const Owner<V> &o, const float (&sums)[K][V], float *shared) {
#pragma unroll
  for (int k = 0; k < K; k++) {
    barrier();
#pragma unroll
    for (int i = 0; i < V; i++) shared[threadIdx.x * V + i] = o.active ? sums[k][i] : 0;
    barrier();
    for (int i = threadIdx.x; i < o.slots * V; i += ownerThreads) {
      float sum = 0;
      for (int r = 0; r < o.rows; r++) sum += shared[r * o.slots * V + i];
      to[(o.channel - V * o.slot + i) * K + k] = sum;
    }
  }
}

