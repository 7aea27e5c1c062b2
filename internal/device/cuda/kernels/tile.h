// What convolution kernels share: tiles in shared memory, their products, the epilogue.
#pragma once
#include "gpu.h"

// --- How numbers are multiplied

struct Fp32 { // on the ordinary units
  typedef float Type;
};
struct Tf32 { // on tensor cores, ten bits of fraction
  typedef float Type;
  CONSTANT int steps = 2; // of 32 bytes: see multiplyTiles
};
struct Bf16 {
  typedef bf16 Type;
};

FN void multiply(Tf32, float (&d)[4], uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mmaTf32(d, a, b0, b1); }
FN void multiply(Bf16, float (&d)[4], uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mmaBf16(d, a, b0, b1); }
// what was stored as float is rounded when it is multiplied
FN void roundOperand(Tf32, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = toTf32(asFloat(a[i]));
}
FN void roundOperand(Bf16, uint32_t (&)[4]) {}

// A block of 256 threads makes 128 x N products. On tensor cores each warp makes MT x NT tiles of
// 16 x 8; on the ordinary units each thread makes 8 x N/16.
template <int N> struct Tiling {
  CONSTANT int M = 128, threads = 256;
  CONSTANT int columns = N >= 64 ? 2 : 1; // of warps
  CONSTANT int MT = 128 / 16 / (8 / columns), NT = N / 8 / columns;
  // pitch of the result in shared memory, in floats
  CONSTANT int pitch = N + 4;
};

// Rows in shared memory begin an odd number of 16 bytes apart, so that the 8 rows that ldmatrix reads
// at a time lie in different banks.
FN constexpr int pitchOf(int bytes) { return bytes / 16 % 2 ? bytes : bytes + 16; }

// --- The epilogue

// A Result is a tile of sums in shared memory, on its way out.
struct Result {
  const float *sums; // (rows, pitch), bias included
  int rows, pitch, channels; // of the tile
  int all, first;            // channels of a voxel of y, and which is the tile's first one
  float *scratch;            // 3 threads floats
  int threads;
};

// writeResult writes a tile to y, whose voxel of each row is given, negative where there is none; and
// to moments, where that is not null, the moments of each of its channels.
template <class T, int N, class F> FN void writeResult(T *y, Moments *moments, const Result &r, F voxelOf) {
  constexpr int V = Vector<T>::size;
  const int live = min(N, r.channels);
  if (live % V == 0 && r.all % V == 0) {
    for (int i = threadIdx.x; i < r.rows * (N / V); i += r.threads) {
      const int row = i / (N / V), c = i % (N / V) * V, voxel = voxelOf(row);
      if (voxel < 0 || c >= live) continue;
      float v[V];
#pragma unroll
      for (int k = 0; k < V; k++) v[k] = r.sums[row * r.pitch + c + k];
      store(y + (size_t)voxel * r.all + r.first + c, v);
    }
  } else {
    for (int i = threadIdx.x; i < r.rows * N; i += r.threads) {
      const int row = i / N, c = i % N, voxel = voxelOf(row);
      if (voxel >= 0 && c < live) put(y + (size_t)voxel * r.all + r.first + c, r.sums[row * r.pitch + c]);
    }
  }
  if (!moments) return; // null for all threads or for none
  const int c = threadIdx.x % N, part = threadIdx.x / N, parts = r.threads / N;
  float count = 0, mean = 0, m2 = 0;
  for (int row = part; row < r.rows; row += parts)
    if (voxelOf(row) >= 0) mean += r.sums[row * r.pitch + c], count++;
  mean = count > 0 ? mean / count : 0;
  for (int row = part; row < r.rows; row += parts) {
    const float d = r.sums[row * r.pitch + c] - mean;
    if (voxelOf(row) >= 0) m2 += d * d;
  }
  // halves are merged until one part is left
  Moments all = {count, mean, m2};
  float *counts = r.scratch, *means = counts + r.threads, *squares = means + r.threads;
  for (int left = parts; left > 1; left = (left + 1) / 2) {
    if (part < left) counts[threadIdx.x] = all.count, means[threadIdx.x] = all.mean, squares[threadIdx.x] = all.m2;
    barrier();
    const int half = (left + 1) / 2, other = threadIdx.x + half * N;
    if (part + half < left) all = merge(all, {counts[other], means[other], squares[other]});
  }
  if ((int)threadIdx.x < live) moments[r.first + c] = all;
}
