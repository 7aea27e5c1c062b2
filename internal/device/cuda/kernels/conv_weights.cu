// The gradient of a convolution's weights as a matrix product over voxels.
//
//	dw[o, (tap, i)] = sum over voxels of x[voxel + tap, i] dy[voxel, o]
//
// The voxels are split among blocks; each writes sums of its own in float32, and sumWeights adds
// them up in a fixed order.
#include "tile.h"

struct ConvWeights {
  int groups, in, out; // channels of a group of x and of dy
  int x[3], y[3];      // sizes
  int kernel[3], stride[3], pad[3];
  int voxels;          // of dy, of all images
  int perSplit;        // voxels of a block: a multiple of 32
  int splits;
  Divisor byW, byH, byD; // sizes of dy
};

CONSTANT int weightsStages = 3, weightsVoxels = 32;

// A tile in shared memory: 32 voxels, so many elements of each; rows are padded so that neither
// ldmatrix nor the reads of single elements meet in a bank.
template <class T, int N> struct VoxelTile {
  CONSTANT int pitch = sizeof(T) == 2 ? pitchOf(N * 2) : (N + 8) * 4; // bytes
  CONSTANT int bytes = weightsVoxels * pitch;
};

// The sums of a tile of M = 128 rows (tap, in) and N columns (out).
template <class K, int N> struct WeightSums;

template <int N> struct WeightSums<Bf16, N> {
  typedef Tiling<N> Tile;
  float sum[Tile::MT][Tile::NT][4] = {};

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    constexpr int pl = VoxelTile<bf16, 128>::pitch, pr = VoxelTile<bf16, N>::pitch;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / Tile::columns * Tile::MT * 16, column = warp % Tile::columns * Tile::NT * 8;
#pragma unroll
    for (int v = 0; v < weightsVoxels; v += 16) {
      uint32_t a[Tile::MT][4];
#pragma unroll
      for (int m = 0; m < Tile::MT; m++) loadMatrix4T(a[m], left + (v + lane / 16 * 8 + lane % 8) * pl + 2 * (row + 16 * m + lane / 8 % 2 * 8));
#pragma unroll
      for (int t = 0; t < Tile::NT; t += 2) {
        uint32_t b[4];
        loadMatrix4T(b, right + (v + lane / 8 % 2 * 8 + lane % 8) * pr + 2 * (column + 8 * t + lane / 16 * 8));
#pragma unroll
        for (int m = 0; m < Tile::MT; m++) {
          mmaBf16(sum[m][t], a[m], b[0], b[1]);
          mmaBf16(sum[m][t + 1], a[m], b[2], b[3]);
        }
      }
    }
  }
};

template <int N> struct WeightSums<Tf32, N> {
  typedef Tiling<N> Tile;
  float sum[Tile::MT][Tile::NT][4] = {};

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    constexpr int pl = VoxelTile<float, 128>::pitch / 4, pr = VoxelTile<float, N>::pitch / 4;
    const float *l = reinterpret_cast<const float *>(left), *r = reinterpret_cast<const float *>(right);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / Tile::columns * Tile::MT * 16 + lane / 4, column = warp % Tile::columns * Tile::NT * 8 + lane / 4;
#pragma unroll
    for (int v = 0; v < weightsVoxels; v += 8) {
      uint32_t a[Tile::MT][4];
#pragma unroll
      for (int m = 0; m < Tile::MT; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) a[m][i] = toTf32(l[(v + lane % 4 + i / 2 * 4) * pl + row + 16 * m + i % 2 * 8]);
#pragma unroll
      for (int t = 0; t < Tile::NT; t++) {
        const uint32_t b0 = toTf32(r[(v + lane % 4) * pr + column + 8 * t]), b1 = toTf32(r[(v + lane % 4 + 4) * pr + column + 8 * t]);
#pragma unroll
        for (int m = 0; m < Tile::MT; m++) mmaTf32(sum[m][t], a[m], b0, b1);
      }
    }
  }
};

template <int N> struct WeightSums<Fp32, N> {
  CONSTANT int columns = N / 16;
  float sum[8][columns] = {};

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    constexpr int pl = VoxelTile<float, 128>::pitch / 4, pr = VoxelTile<float, N>::pitch / 4;
    const float *l = reinterpret_cast<const float *>(left) + 4 * (threadIdx.x % 16), *r = reinterpret_cast<const float *>(right) + threadIdx.x / 16 * columns;
    for (int v = 0; v < weightsVoxels; v++) {
      float a[2][4];
      load(a[0], l + v * pl);
      load(a[1], l + v * pl + 64);
#pragma unroll
      for (int j = 0; j < columns; j++) {
        const float b = r[v * pr + j];
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i][j] += a[i / 4][i % 4] * b;
      }
    }
  }
};

// each calls f(row, column, sum) for the sums of this thread.
template <class K, int N, class F> FN void eachSum(const WeightSums<K, N> &s, F f) {
  typedef Tiling<N> Tile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / Tile::columns * Tile::MT * 16 + lane / 4, column = warp % Tile::columns * Tile::NT * 8 + lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < Tile::MT; m++)
#pragma unroll
    for (int t = 0; t < Tile::NT; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) f(row + 16 * m + i / 2 * 8, column + 8 * t + i % 2, s.sum[m][t][i]);
}
template <int N, class F> FN void eachSum(const WeightSums<Fp32, N> &s, F f) {
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < N / 16; j++) f(4 * (threadIdx.x % 16) + i / 4 * 64 + i % 4, threadIdx.x / 16 * (N / 16) + j, s.sum[i][j]);
}

//	to (splits, groups, out, taps in)      grid: x tiles of 128 (tap, in), y groups x tiles of N out, z splits
template <class K, int N> FN void convWeights(float *to, const typename K::Type *x, const typename K::Type *dy, const ConvWeights &a) {
  typedef typename K::Type T;
  typedef VoxelTile<T, 128> Left;
  typedef VoxelTile<T, N> Right;
  constexpr int V = Vector<T>::size, M = 128, threads = 256, stageBytes = Left::bytes + Right::bytes;
  SHARED(unsigned char, shared);
  const int taps = a.kernel[0] * a.kernel[1] * a.kernel[2], depth = taps * a.in;
  const int tilesN = (a.out + N - 1) / N, group = blockIdx.y / tilesN, firstOut = blockIdx.y % tilesN * N, firstIn = blockIdx.x * M;
  const int begin = blockIdx.z * a.perSplit, end = min(a.voxels, begin + a.perSplit);
  const bool vectorX = a.in % V == 0, vectorY = a.out % V == 0;

  // which (tap, in) this thread copies, the same for all voxels
  const int unitX = vectorX ? V : 1, perRowX = M / unitX, rowX = threadIdx.x / perRowX, elementX = threadIdx.x % perRowX * unitX;
  const int k = firstIn + elementX, tap = k / a.in, channel = group * a.in + k % a.in;
  const int kz = tap / (a.kernel[1] * a.kernel[2]), ky = tap / a.kernel[2] % a.kernel[1], kx = tap % a.kernel[2];
  const int unitY = vectorY ? V : 1, perRowY = N / unitY, rowY = threadIdx.x / perRowY, elementY = threadIdx.x % perRowY * unitY;

  auto fetch = [&](int stage, int first) {
    unsigned char *left = shared + stage * stageBytes, *right = left + Left::bytes;
    for (int r = rowX; r < weightsVoxels; r += threads / perRowX) {
      const int voxel = first + r;
      const uint32_t row = quotient(voxel, a.byW), plane = quotient(row, a.byH), image = quotient(plane, a.byD);
      const int z = (int)(plane - image * a.y[0]) * a.stride[0] - a.pad[0] + kz, y = (int)(row - plane * a.y[1]) * a.stride[1] - a.pad[1] + ky,
                w = (int)(voxel - row * a.y[2]) * a.stride[2] - a.pad[2] + kx;
      const bool there = voxel < end && k < depth && z >= 0 && z < a.x[0] && y >= 0 && y < a.x[1] && w >= 0 && w < a.x[2];
      const T *from = there ? x + ((((size_t)image * a.x[0] + z) * a.x[1] + y) * a.x[2] + w) * (a.in * a.groups) + channel : x;
      T *into = reinterpret_cast<T *>(left + r * Left::pitch) + elementX;
      if (vectorX)
        copyAsync16(into, from, there);
      else
        put(into, there ? toFloat(*from) : 0);
    }
    for (int r = rowY; r < weightsVoxels; r += threads / perRowY) {
      const int voxel = first + r, o = firstOut + elementY;
      const bool there = voxel < end && o < a.out;
      const T *from = there ? dy + (size_t)voxel * (a.out * a.groups) + group * a.out + o : dy;
      T *into = reinterpret_cast<T *>(right + r * Right::pitch) + elementY;
      if (vectorY)
        copyAsync16(into, from, there);
      else
        put(into, there ? toFloat(*from) : 0);
    }
  };

  const int chunks = (end - begin + weightsVoxels - 1) / weightsVoxels;
  for (int s = 0; s < weightsStages - 1; s++) {
    if (s < chunks) fetch(s, begin + s * weightsVoxels);
    commitAsync();
  }
  WeightSums<K, N> sums;
  for (int c = 0; c < chunks; c++) {
    waitAsync<weightsStages - 2>();
    barrier();
    if (c + weightsStages - 1 < chunks) fetch((c + weightsStages - 1) % weightsStages, begin + (c + weightsStages - 1) * weightsVoxels);
    commitAsync();
    const unsigned char *left = shared + c % weightsStages * stageBytes;
    sums.add(left, left + Left::bytes);
  }
  waitAsync<0>();
  float *out = to + ((size_t)blockIdx.z * a.groups + group) * a.out * depth;
  eachSum(sums, [&](int row, int column, float sum) {
    if (firstIn + row < depth && firstOut + column < a.out) out[(size_t)(firstOut + column) * depth + firstIn + row] = sum;
  });
}

// sumWeights: dw (Out, In, taps) = the sum of the splits (splits, Out, taps, In)
KERNEL(256, 4, sumWeights, (float *dw, const float *from, ConvWeights a)) {
  const int taps = a.kernel[0] * a.kernel[1] * a.kernel[2], n = a.groups * a.out * taps * a.in, i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int s = 0; s < a.splits; s++) sum += from[(size_t)s * n + i];
  const int in = i % a.in, tap = i / a.in % taps, out = i / (a.in * taps);
  dw[((size_t)out * a.in + in) * taps + tap] = sum;
}

#define CONV_WEIGHTS(K, N, suffix) \
  KERNEL(256, 2, convWeights##suffix, (float *to, const K::Type *x, const K::Type *dy, ConvWeights a)) { convWeights<K, N>(to, x, dy, a); }
CONV_WEIGHTS(Fp32, 16, _fp32_16)
CONV_WEIGHTS(Fp32, 64, _fp32_64)
CONV_WEIGHTS(Tf32, 16, _tf32_16)
CONV_WEIGHTS(Tf32, 64, _tf32_64)
CONV_WEIGHTS(Bf16, 16, _bf16_16)
CONV_WEIGHTS(Bf16, 32, _bf16_32)
CONV_WEIGHTS(Bf16, 64, _bf16_64)
