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

CONSTANT int weightsVoxels = 32;

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
  constexpr int weightsStages = sizeof(T) == 2 ? 4 : 3;
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

// --- One tap

// Of 1^3 with few channels a tile of 128 rows would be empty for the most part. Here a tile is 32 channels
// of x by 16 of dy, a stage 128 voxels, and each of the eight warps sums up over 16 of these alone.
CONSTANT int pointRows = 32, pointColumns = 16, pointVoxels = 128;

template <class T> struct PointTile {
  CONSTANT int left = VoxelTile<T, pointRows>::pitch, right = VoxelTile<T, pointColumns>::pitch; // bytes of a voxel
  CONSTANT int bytes = pointVoxels * (left + right);
};

// The sums of a warp: of its 16 voxels, from the first one on.
template <class K> struct PointSums;

template <> struct PointSums<Bf16> {
  float sum[2][2][4] = {};

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    constexpr int pl = PointTile<bf16>::left, pr = PointTile<bf16>::right;
    const int lane = threadIdx.x % 32;
    uint32_t b[4];
    loadMatrix4T(b, right + (lane / 8 % 2 * 8 + lane % 8) * pr + 2 * (lane / 16 * 8));
#pragma unroll
    for (int m = 0; m < 2; m++) {
      uint32_t a[4];
      loadMatrix4T(a, left + (lane / 16 * 8 + lane % 8) * pl + 2 * (16 * m + lane / 8 % 2 * 8));
      mmaBf16(sum[m][0], a, b[0], b[1]);
      mmaBf16(sum[m][1], a, b[2], b[3]);
    }
  }
};

template <> struct PointSums<Tf32> {
  float sum[2][2][4] = {};

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    constexpr int pl = PointTile<float>::left / 4, pr = PointTile<float>::right / 4;
    const float *l = reinterpret_cast<const float *>(left), *r = reinterpret_cast<const float *>(right);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int v = 0; v < 16; v += 8) {
      uint32_t a[2][4];
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) a[m][i] = toTf32(l[(v + lane % 4 + i / 2 * 4) * pl + lane / 4 + 16 * m + i % 2 * 8]);
#pragma unroll
      for (int t = 0; t < 2; t++) {
        const uint32_t b0 = toTf32(r[(v + lane % 4) * pr + lane / 4 + 8 * t]), b1 = toTf32(r[(v + lane % 4 + 4) * pr + lane / 4 + 8 * t]);
#pragma unroll
        for (int m = 0; m < 2; m++) mmaTf32(sum[m][t], a[m], b0, b1);
      }
    }
  }
};

template <> struct PointSums<Fp32> {
  float sum[pointColumns] = {}; // of the row of this lane

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    constexpr int pl = PointTile<float>::left / 4, pr = PointTile<float>::right / 4;
    const float *l = reinterpret_cast<const float *>(left) + threadIdx.x % 32, *r = reinterpret_cast<const float *>(right);
    for (int v = 0; v < 16; v++) {
      const float a = l[v * pl];
#pragma unroll
      for (int j = 0; j < pointColumns; j += 4) {
        float b[4];
        load(b, r + v * pr + j);
#pragma unroll
        for (int i = 0; i < 4; i++) sum[j + i] += a * b[i];
      }
    }
  }
};

template <class K, class F> FN void eachSum(const PointSums<K> &s, F f) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) f(lane / 4 + 16 * m + i / 2 * 8, lane % 4 * 2 + 8 * t + i % 2, s.sum[m][t][i]);
}
template <class F> FN void eachSum(const PointSums<Fp32> &s, F f) {
#pragma unroll
  for (int j = 0; j < pointColumns; j++) f((int)threadIdx.x % 32, j, s.sum[j]);
}

// copyVoxels fetches so many channels of 128 voxels into a stage: of each voxel from the given channel
// on, zeros where there are none.
template <class T, int N> FN void copyVoxels(unsigned char *to, int pitch, const T *from, int first, int end, int channels, int channel) {
  constexpr int V = Vector<T>::size, threads = 256;
  if (channels % V == 0) {
    const int c = threadIdx.x % (N / V) * V;
    for (int r = threadIdx.x / (N / V); r < pointVoxels; r += threads / (N / V)) {
      const bool there = first + r < end && channel + c < channels;
      copyAsync16(to + r * pitch + c * (int)sizeof(T), there ? from + (size_t)(first + r) * channels + channel + c : from, there);
    }
    return;
  }
  constexpr int rows = threads / N, parts = 8; // that many are under way together
  const int c = threadIdx.x % N;
  for (int r = threadIdx.x / N; r < pointVoxels; r += parts * rows) {
    float v[parts];
#pragma unroll
    for (int i = 0; i < parts; i++) v[i] = first + r + i * rows < end && channel + c < channels ? toFloat(from[(size_t)(first + r + i * rows) * channels + channel + c]) : 0;
#pragma unroll
    for (int i = 0; i < parts; i++) put(reinterpret_cast<T *>(to + (r + i * rows) * pitch) + c, v[i]);
  }
}

//	to (splits, out, in)      grid: x tiles of 32 channels of x, y tiles of 16 of dy, z splits
template <class K> FN void pointWeights(float *to, const typename K::Type *x, const typename K::Type *dy, const ConvWeights &a) {
  typedef typename K::Type T;
  typedef PointTile<T> Tile;
  constexpr int weightsStages = 3;
  SHARED(unsigned char, shared);
  const int firstIn = blockIdx.x * pointRows, firstOut = blockIdx.y * pointColumns, warp = threadIdx.x / 32;
  const int begin = blockIdx.z * a.perSplit, end = min(a.voxels, begin + a.perSplit);
  auto fetch = [&](int stage, int first) {
    unsigned char *left = shared + stage * Tile::bytes;
    copyVoxels<T, pointRows>(left, Tile::left, x, first, end, a.in, firstIn);
    copyVoxels<T, pointColumns>(left + pointVoxels * Tile::left, Tile::right, dy, first, end, a.out, firstOut);
  };
  const int chunks = (end - begin + pointVoxels - 1) / pointVoxels;
  for (int s = 0; s < weightsStages - 1; s++) {
    if (s < chunks) fetch(s, begin + s * pointVoxels);
    commitAsync();
  }
  PointSums<K> sums;
  for (int c = 0; c < chunks; c++) {
    waitAsync<weightsStages - 2>();
    barrier(); // 128 voxels are there, and nobody reads those before them any more
    if (c + weightsStages - 1 < chunks) fetch((c + weightsStages - 1) % weightsStages, begin + (c + weightsStages - 1) * pointVoxels);
    commitAsync();
    const unsigned char *left = shared + c % weightsStages * Tile::bytes;
    sums.add(left + 16 * warp * Tile::left, left + pointVoxels * Tile::left + 16 * warp * Tile::right);
  }
  waitAsync<0>();
  barrier(); // nobody reads a stage any more: the sums of the warps take its place
  float *part = reinterpret_cast<float *>(shared); // (8, rows, columns)
  eachSum(sums, [&](int row, int column, float sum) { part[(warp * pointRows + row) * pointColumns + column] = sum; });
  barrier();
  float *out = to + (size_t)blockIdx.z * a.out * a.in;
  for (int i = threadIdx.x; i < pointRows * pointColumns; i += 256) {
    const int row = i % pointRows, column = i / pointRows;
    float sum = 0;
    for (int w = 0; w < 8; w++) sum += part[(w * pointRows + row) * pointColumns + column];
    if (firstIn + row < a.in && firstOut + column < a.out) out[(size_t)(firstOut + column) * a.in + firstIn + row] = sum;
  }
}

#define POINT_WEIGHTS(K, suffix, perSM) \
  KERNEL(256, perSM, pointWeights##suffix, (float *to, const K::Type *x, const K::Type *dy, ConvWeights a)) { pointWeights<K>(to, x, dy, a); }
POINT_WEIGHTS(Fp32, _fp32, 2)
POINT_WEIGHTS(Tf32, _tf32, 2)
POINT_WEIGHTS(Bf16, _bf16, 4)

// --- The sum of parts

struct SumWeights {
  int out, in;      // of all groups, of one
  int tile, piece;  // channels in and taps of a block
  int kernel[3], whole[3], first[3]; // taps that the parts have, those of dw, where the former begin in these
  int splits[5];    // parts of each plane of taps; of the fifth one and of those after it
  int share;        // threads of an element, of which each adds up a range of the parts
  Divisor byElements, byTile, byPiece, byWidth, byHeight; // whole[2], whole[1]
};

// sumWeights: dw (out, in, whole taps) = the sum of parts (splits, out, taps, in), 0 for taps that reach no
// voxel. Parts are read channel by channel, and dw is written tap by tap: shared memory turns them round.
// Where there are many parts of few elements, several threads share those of an element.
//
//	grid: x out, y tiles of in, z pieces of taps
KERNEL(256, 6, sumWeights, (float *dw, const float *from, SumWeights a)) {
  SHARED(float, sums); // (share, tile, piece), rows of an odd length
  const int whole = a.whole[0] * a.whole[1] * a.whole[2], taps = a.kernel[0] * a.kernel[1] * a.kernel[2];
  const int firstIn = blockIdx.y * a.tile, firstTap = blockIdx.z * a.piece, pitch = a.piece | 1;
  const size_t n = (size_t)a.out * taps * a.in;
  for (int n0 = threadIdx.x; n0 < a.share * a.tile * a.piece; n0 += 256) {
    const int range = quotient(n0, a.byElements), i = n0 - range * a.tile * a.piece;
    const int at = quotient(i, a.byTile), in = i - at * a.tile, tap = firstTap + at;
    if (firstIn + in >= a.in || tap >= whole) continue;
    const int row = quotient(tap, a.byWidth), plane = quotient(row, a.byHeight);
    const int z = plane - a.first[0], y = row - plane * a.whole[1] - a.first[1], x = tap - row * a.whole[2] - a.first[2];
    float sum = 0;
    if (z >= 0 && z < a.kernel[0] && y >= 0 && y < a.kernel[1] && x >= 0 && x < a.kernel[2]) {
      const float *part = from + ((size_t)blockIdx.x * taps + (z * a.kernel[1] + y) * a.kernel[2] + x) * a.in + firstIn + in;
      int splits = a.splits[4];
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (z == k) splits = a.splits[k];
      int s = splits * range / a.share;
      splits = splits * (range + 1) / a.share;
      // eight parts are on their way together, or the last two
#pragma unroll 1
      for (; s + 8 <= splits; s += 8) {
        float v[8];
#pragma unroll
        for (int k = 0; k < 8; k++) v[k] = part[(s + k) * n];
#pragma unroll
        for (int k = 0; k < 8; k++) sum += v[k];
      }
#pragma unroll 1
      for (; s < splits; s += 2) {
        const float last = part[s * n];
        sum += s + 1 < splits ? last + part[(s + 1) * n] : last;
      }
    }
    sums[(range * a.tile + in) * pitch + at] = sum;
  }
  barrier();
  for (int i = threadIdx.x; i < a.tile * a.piece; i += 256) {
    const int in = quotient(i, a.byPiece), at = i - in * a.piece;
    if (firstIn + in >= a.in || firstTap + at >= whole) continue;
    float sum = sums[in * pitch + at];
    for (int range = 1; range < a.share; range++) sum += sums[(range * a.tile + in) * pitch + at];
    dw[((size_t)blockIdx.x * a.in + firstIn + in) * whole + firstTap + at] = sum;
  }
}

#define CONV_WEIGHTS(K, N, suffix, perSM) \
  KERNEL(256, perSM, convWeights##suffix, (float *to, const K::Type *x, const K::Type *dy, ConvWeights a)) { convWeights<K, N>(to, x, dy, a); }
CONV_WEIGHTS(Fp32, 16, _fp32_16, 2)
CONV_WEIGHTS(Fp32, 32, _fp32_32, 2)
CONV_WEIGHTS(Fp32, 64, _fp32_64, 2)
CONV_WEIGHTS(Tf32, 16, _tf32_16, 2)
CONV_WEIGHTS(Tf32, 32, _tf32_32, 2)
CONV_WEIGHTS(Tf32, 64, _tf32_64, 2)
CONV_WEIGHTS(Bf16, 16, _bf16_16, 4)
CONV_WEIGHTS(Bf16, 32, _bf16_32, 4)
CONV_WEIGHTS(Bf16, 64, _bf16_64, 2)
