// How kernels that treat channels apart share out the voxels of images (N, voxels, C).
//
// A thread owns V neighbouring channels, 16 bytes where C allows it, and every so many voxels of one
// chunk of one image: what depends on the channel alone stays in its registers. Neighbouring
// threads own neighbouring channels, so that a warp reads memory in one stretch.
//
//   grid: x chunks of an image, y images, z groups of owners, 256 at most
#pragma once
#include "gpu.h"

struct Channels {
  int images, channels, voxels; // of one image
  int chunk;                    // voxels of a block
  int group;                    // owners of a block
};

// the threads of a block
CONSTANT int ownerThreads = 256;

template <int V> struct Owner {
  int image, chunk;
  int channel; // the first of V
  int first, end, step; // voxels
  int row, rows;        // this thread among those that own the same channels
  int slot, slots;      // this thread's channels among those of the block
  bool active;

  // Last blocks first, where back: what the kernel before has read or written last may still be in
  // the cache.
  FN_MEMBER Owner(const Channels &a, bool back = false) {
    const int owners = a.channels / V, from = blockIdx.z * a.group;
    image = back ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    chunk = back ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    slots = min(a.group, owners - from);
    rows = ownerThreads / slots;
    row = threadIdx.x / slots;
    slot = threadIdx.x % slots;
    channel = V * (from + slot);
    active = row < rows;
    first = chunk * a.chunk + row;
    end = active ? min(a.voxels, (chunk + 1) * a.chunk) : 0;
    step = rows;
  }

  // the index of this thread's channels at a voxel
  FN_MEMBER size_t at(const Channels &a, int voxel) const { return ((size_t)image * a.voxels + voxel) * a.channels + channel; }
  // the first channel of the block
  FN_MEMBER int base() const { return channel - V * slot; }
};

// Columns are the channels of a block. Each has as many threads as there are, which begin to add or
// merge its rows; then one is left. Where a block has more channels than threads, each thread has
// several.
struct Columns {
  int width, parts, column, part;

  FN_MEMBER Columns(int width) : width(width) {
    parts = max(1, ownerThreads / width);
    column = threadIdx.x % width, part = threadIdx.x / width;
  }
};

// keep writes V floats of a thread to shared memory.
template <int V> FN void keep(float *to, const float (&v)[V]) {
  if constexpr (V == 1) {
    *to = v[0];
  } else {
#pragma unroll
    for (int i = 0; i < V; i += 4) *reinterpret_cast<float4 *>(to + i) = {v[i], v[i + 1], v[i + 2], v[i + 3]};
  }
}

// addRows adds K sums of V channels over the rows of a block, in a fixed order, and writes them as
// to[k * pitch + channel]. Shared memory: K (256 V + 256) floats.
template <int V, int K> FN void addRows(float *to, int pitch, const Owner<V> &o, const float (&sums)[K][V], float *shared) {
  constexpr int all = ownerThreads * V;
  float *const parts = shared + K * all;
  const Columns c(o.slots * V);
#pragma unroll
  for (int k = 0; k < K; k++) keep(shared + k * all + threadIdx.x * V, sums[k]);
  barrier();
  if (c.parts == 1) {
    for (int i = threadIdx.x; i < c.width; i += ownerThreads)
#pragma unroll
      for (int k = 0; k < K; k++) {
        float sum = 0;
        for (int r = 0; r < o.rows; r++) sum += shared[k * all + r * c.width + i];
        to[k * pitch + o.base() + i] = sum;
      }
    return;
  }
  float sum[K] = {};
  if (c.part < c.parts)
    for (int r = c.part; r < o.rows; r += c.parts)
#pragma unroll
      for (int k = 0; k < K; k++) sum[k] += shared[k * all + r * c.width + c.column];
#pragma unroll
  for (int k = 0; k < K; k++) parts[k * ownerThreads + threadIdx.x] = sum[k];
  barrier();
  for (int i = threadIdx.x; i < K * c.width; i += ownerThreads) {
    const int k = i / c.width, column = i % c.width;
    float s = 0;
    for (int p = 0; p < c.parts; p++) s += parts[k * ownerThreads + p * c.width + column];
    to[k * pitch + o.base() + column] = s;
  }
}
