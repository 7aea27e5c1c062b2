// The gradient of the weights of convolutions that keep the size, with 5^3 or 3^3 taps, in bfloat16.
//
//	dw[o, tap, i] = sum over voxels of x[voxel + tap, i] dy[voxel, o]
//
// Where conv_weights.cu gathers x once for each tap, here a block has a tile of dy in shared memory and
// that of x around it, and multiplies both with each other for all taps of a plane.
#include "tile.h"

// --- 32 channels and multiples of 32

struct RowsWeights {
  int in, out, size[3];
  int planes, rows, columns; // voxels of a tile
  int tiles, perSplit;       // of all images, of a block
  Divisor byAcross, byDown, byDeep;              // tiles of an image along each axis, the last one first
  Divisor byColumns, byRows, byHalo, byHaloRows; // of a tile of dy, of one of x
};

// The bytes of a voxel: 32 channels, and 16 more so that ldmatrix meets no bank twice.
CONSTANT int rowsStages = 3, rowsPitch = 80;

// A warp makes the K kx of one ky for 32 channels of dy and 8 of x, so that dy is loaded from shared
// memory once for 2 K products, and each value of x once for two.
//
//	to (splits, out, taps, in)      grid: x kz, y tiles of 32 out x tiles of 32 in, z splits; 128 K threads
template <int K> FN void rowsWeights(float *to, const bf16 *x, const bf16 *dy, const RowsWeights &a) {
  constexpr int threads = 128 * K, parts = 4; // 16 bytes of a voxel's 32 channels
  SHARED(unsigned char, shared);
  const int D = a.size[0], H = a.size[1], W = a.size[2], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int ky = warp / 4, column = warp % 4 * 8, kz = blockIdx.x, tilesIn = a.in / 32;
  const int firstIn = blockIdx.y % tilesIn * 32, firstOut = blockIdx.y / tilesIn * 32;
  const int voxels = a.planes * a.rows * a.columns, padded = (voxels + 15) / 16 * 16;
  const int halo = a.columns + K - 1, haloRows = a.rows + K - 1, leftBytes = padded * rowsPitch;
  const int stageBytes = leftBytes + a.planes * haloRows * halo * rowsPitch;
  const int end = min(a.tiles, ((int)blockIdx.z + 1) * a.perSplit);

  // the first tile from t on of which a plane of x is in the image
  auto live = [&](int t) {
    for (; t < end; t++) {
      const int deep = quotient(quotient(t, a.byAcross), a.byDown), image = quotient(deep, a.byDeep);
      const int z = (deep - image * (int)a.byDeep.d) * a.planes + kz - K / 2;
      if (z + a.planes > 0 && z < D) break;
    }
    return t;
  };
  auto fetch = [&](int stage, int t) {
    const int row = quotient(t, a.byAcross), deep = quotient(row, a.byDown), image = quotient(deep, a.byDeep);
    const int x0 = (t - row * (int)a.byAcross.d) * a.columns, y0 = (row - deep * (int)a.byDown.d) * a.rows;
    const int z0 = (deep - image * (int)a.byDeep.d) * a.planes;
    unsigned char *left = shared + stage * stageBytes, *right = left + leftBytes;
    const int part = threadIdx.x % parts;
    for (int v = threadIdx.x / parts; v < padded; v += threads / parts) {
      const int r = quotient(v, a.byColumns), plane = quotient(r, a.byRows);
      const int z = z0 + plane, y = y0 + r - plane * a.rows, w = x0 + v - r * a.columns;
      const bool there = v < voxels && z < D && y < H && w < W;
      const size_t from = ((((size_t)image * D + z) * H + y) * W + w) * a.out + firstOut + 8 * part;
      copyAsync16(left + v * rowsPitch + 16 * part, there ? dy + from : dy, there);
    }
    for (int v = threadIdx.x / parts; v < a.planes * haloRows * halo; v += threads / parts) {
      const int r = quotient(v, a.byHalo), plane = quotient(r, a.byHaloRows);
      const int z = z0 + plane + kz - K / 2, y = y0 + r - plane * haloRows - K / 2, w = x0 + v - r * halo - K / 2;
      const bool there = z >= 0 && z < D && y >= 0 && y < H && w >= 0 && w < W;
      const size_t from = ((((size_t)image * D + z) * H + y) * W + w) * a.in + firstIn + 8 * part;
      copyAsync16(right + v * rowsPitch + 16 * part, there ? x + from : x, there);
    }
  };

  float sum[2][K][4] = {};
  // the next tile to fetch, and how many were fetched and not multiplied
  int ahead = live(blockIdx.z * a.perSplit), left = 0;
  for (int s = 0; s < rowsStages - 1; s++) {
    if (ahead < end) fetch(s, ahead), ahead = live(ahead + 1), left++;
    commitAsync();
  }
  for (int stage = 0; left > 0; left--, stage = stage + 1 < rowsStages ? stage + 1 : 0) {
    waitAsync<rowsStages - 2>();
    barrier(); // the tile is there, and nobody reads the one before it any more
    if (ahead < end) fetch(stage ? stage - 1 : rowsStages - 1, ahead), ahead = live(ahead + 1), left++;
    commitAsync();
    const unsigned char *dyTile = shared + stage * stageBytes;
    const unsigned char *xTile = dyTile + leftBytes + ky * halo * rowsPitch + 2 * column;
    dyTile += (lane / 16 * 8 + lane % 8) * rowsPitch + 2 * (lane / 8 % 2 * 8);
    for (int first = 0; first < padded; first += 16) {
      uint32_t l[2][4];
#pragma unroll
      for (int m = 0; m < 2; m++) loadMatrix4T(l[m], dyTile + first * rowsPitch + 32 * m);
      // a voxel for each lane; past the last one dy is 0
      const int v = first + lane % 16 < voxels ? first + lane % 16 : 0;
      const int r = quotient(v, a.byColumns), plane = quotient(r, a.byRows);
      const unsigned char *from = xTile + (v + (r + plane * halo) * (K - 1)) * rowsPitch;
#pragma unroll
      for (int kx = 0; kx < K; kx += 2) { // two taps at once, the second half of the lanes has the second one
        const bool two = kx + 1 < K;
        uint32_t b[4];
        loadMatrix4T(b, from + (kx + (two ? lane / 16 : 0)) * rowsPitch);
#pragma unroll
        for (int m = 0; m < 2; m++) {
          mmaBf16(sum[m][kx], l[m], b[0], b[1]);
          if (two) mmaBf16(sum[m][kx + two], l[m], b[2], b[3]);
        }
      }
    }
  }
  waitAsync<0>();
  float *out = to + ((size_t)blockIdx.z * a.out + firstOut) * (K * K * K) * a.in + firstIn;
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int kx = 0; kx < K; kx++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int o = 16 * m + lane / 4 + i / 2 * 8, tap = (kz * K + ky) * K + kx;
        out[((size_t)o * (K * K * K) + tap) * a.in + column + lane % 4 * 2 + i % 2] = sum[m][kx][i];
      }
}

#define ROWS_WEIGHTS(K)                                                                            \
  KERNEL(128 * K, 1, rowsWeights_##K, (float *to, const bf16 *x, const bf16 *dy, RowsWeights a)) { \
    rowsWeights<K>(to, x, dy, a);                                                                  \
  }
ROWS_WEIGHTS(5)
ROWS_WEIGHTS(3)

// --- One channel in

struct OneWeights {
  int out, size[3];
  int tiles, perSplit; // of all images, of a block
  Divisor byX, byY, byZ; // tiles of an image along each axis
};

// A tile is 8 x 8 x 16 voxels of dy. Of x around it there are two copies, the second one shifted by a voxel:
// with these each pair of neighbours begins at a multiple of 4 bytes in one of them.
CONSTANT int oneTileX = 16, oneTileY = 8, oneTileZ = 8, oneHaloX = 20, oneHaloY = 12, oneHaloZ = 12;
CONSTANT int oneVoxels = oneTileX * oneTileY * oneTileZ, onePitch = 48; // bytes of a voxel of dy: 16 channels, and 16
CONSTANT int oneHalo = oneHaloX * oneHaloY * oneHaloZ, oneCopy = oneHalo + 32; // voxels of a copy: 16 banks on

// The matrix has 16 rows, of dy, and 125 columns, the taps: each warp makes all of it, of an eighth of the
// voxels.
//
//	to (splits, out, 125)      grid: x splits, y tiles of 16 out
KERNEL(256, 2, oneWeights, (float *to, const bf16 *x, const bf16 *dy, OneWeights a)) {
  SHARED(unsigned char, shared);
  bf16 *tile = reinterpret_cast<bf16 *>(shared + oneVoxels * onePitch);
  const int D = a.size[0], H = a.size[1], W = a.size[2], firstOut = blockIdx.y * 16;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int offset[16]; // of the pair that a lane has of a tap, in 4 bytes
#pragma unroll
  for (int t = 0; t < 16; t++) {
    const int tap = min(124, 8 * t + lane / 4), at = (tap / 25 * oneHaloY + tap / 5 % 5) * oneHaloX + tap % 5;
    offset[t] = at / 2 + at % 2 * (oneCopy / 2) + lane % 4;
  }
  float sum[16][4] = {};
  const int end = min(a.tiles, ((int)blockIdx.x + 1) * a.perSplit);
  for (int t = blockIdx.x * a.perSplit; t < end; t++) {
    const int row = quotient(t, a.byX), plane = quotient(row, a.byY), image = quotient(plane, a.byZ);
    const int x0 = (t - row * (int)a.byX.d) * oneTileX, y0 = (row - plane * (int)a.byY.d) * oneTileY;
    const int z0 = (plane - image * (int)a.byZ.d) * oneTileZ;
    barrier(); // nobody reads the tile before any more
    for (int i = threadIdx.x; i < 2 * oneVoxels; i += 256) {
      const int v = i / 2, z = z0 + v / (oneTileX * oneTileY), y = y0 + v / oneTileX % oneTileY, w = x0 + v % oneTileX;
      const bool there = z < D && y < H && w < W;
      const size_t from = ((((size_t)image * D + z) * H + y) * W + w) * a.out + firstOut + i % 2 * 8;
      copyAsync16(shared + v * onePitch + i % 2 * 16, there ? dy + from : dy, there);
    }
    commitAsync();
    for (int i = threadIdx.x; i < oneHalo; i += 256) {
      const int z = z0 + i / (oneHaloX * oneHaloY) - 2, y = y0 + i / oneHaloX % oneHaloY - 2, w = x0 + i % oneHaloX - 2;
      const bool there = z >= 0 && z < D && y >= 0 && y < H && w >= 0 && w < W;
      const bf16 value = there ? x[(((size_t)image * D + z) * H + y) * W + w] : bf16{0};
      tile[i] = value;
      if (i) tile[oneCopy + i - 1] = value;
    }
    waitAsync<0>();
    barrier();
#pragma unroll 1
    for (int r = warp; r < oneTileY * oneTileZ; r += 8) { // a row of 16 voxels
      uint32_t l[4];
      loadMatrix4T(l, shared + (16 * r + lane / 16 * 8 + lane % 8) * onePitch + 2 * (lane / 8 % 2 * 8));
      const int begin = (r / oneTileY * oneHaloY + r % oneTileY) * (oneHaloX / 2);
      const uint32_t *from = reinterpret_cast<const uint32_t *>(tile) + begin;
#pragma unroll
      for (int n = 0; n < 16; n++) mmaBf16(sum[n], l, from[offset[n]], from[offset[n] + 4]);
    }
  }
  // the warps' sums, one after the other
  float *all = reinterpret_cast<float *>(shared); // (16, 128)
  for (int w = 0; w < 8; w++) {
    barrier();
    if (warp == w) {
#pragma unroll
      for (int n = 0; n < 16; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          float *s = all + (lane / 4 + i / 2 * 8) * 128 + 8 * n + lane % 4 * 2 + i % 2;
          *s = w ? *s + sum[n][i] : sum[n][i];
        }
    }
  }
  barrier();
  for (int i = threadIdx.x; i < 16 * 125; i += 256)
    to[((size_t)blockIdx.x * a.out + firstOut + i / 125) * 125 + i % 125] = all[i / 125 * 128 + i % 125];
}
