// The gradient of the weights of convolutions that keep the size, with 5^3 or 3^3 taps, in bfloat16.
//
//	dw[o, tap, i] = sum over voxels of x[voxel + tap, i] dy[voxel, o]
//
// Where conv_weights.cu gathers x once for each tap, here a block has rows of dy and of x in shared memory,
// and multiplies them with each other for all taps of a plane.
#include "tile.h"

// --- 32 channels and multiples of 32

// A tap kz joins each plane of dy with one of x, where both are in the image. 16 such pairs of planes are a
// bundle: the 16 voxels at one place of them are the depth of a product. So a column of x, once it is
// loaded, serves all kx, each with another column of dy; and where a row or a column of x lies outside the
// image, its products are left out.
//
// A block goes through strips: a bundle, so many columns of it, from one row on down to another. Rows come
// in stages. Of small images a stage has all rows of one or of several bundles.
struct RowsWeights {
  int in, out, size[3], images;
  int columns, edge; // of a strip of dy; and those of x on each side of these, 0 where it has whole rows
  int rows, ring;    // of a stage, and of all stages that shared memory has room for
  int bundles;       // of a stage
  int cut;           // rows of a strip
  int first[6];      // of grid.x, for each kz
  int strips[5], perBlock[5];
  Divisor byAcross, byCuts;   // strips across, and down an image
  Divisor byLive[3];          // planes of an image that have a partner 0, 1, 2 planes further on
  Divisor byColumns, byWide, byHeight; // columns of dy and of x of a strip, rows of an image
};

// Stages that are on their way while one is multiplied; the bytes of a voxel: 32 channels. Planes begin
// 16 bytes further on, so that ldmatrix, which reads a voxel each of 8 planes, meets no bank twice.
CONSTANT int rowsAhead = 2, rowsVoxel = 64, rowsPad = 16, bundle = 16;

// A warp makes the K kx of one ky for 32 channels of dy and 8 of x: for each column of dy it loads that one
// and one of x, and multiplies it with K of x.
//
//	to (splits, out, taps, in)      grid: x blocks of all kz, y tiles of 32 out x tiles of 32 in; 128 K threads
template <int K> FN void rowsWeights(float *to, const bf16 *x, const bf16 *dy, const RowsWeights &a) {
  constexpr int threads = 128 * K, half = K / 2, parts = 4; // 16 bytes of a voxel's 32 channels
  SHARED(unsigned char, shared);
  const int D = a.size[0], H = a.size[1], W = a.size[2], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int ky = warp / 4, column = warp % 4 * 8, tilesIn = a.in / 32;
  const int firstIn = blockIdx.y % tilesIn * 32, firstOut = blockIdx.y / tilesIn * 32;
  int kz = 0;
  while ((int)blockIdx.x >= a.first[kz + 1]) kz++;
  const int split = blockIdx.x - a.first[kz], end = min(a.strips[kz], (split + 1) * a.perBlock[kz]);
  const int shift = kz - half, away = shift < 0 ? -shift : shift, live = D - away, pairs = a.images * live;

  const int wide = a.columns + 2 * a.edge;
  const int leftPlane = a.columns * rowsVoxel + rowsPad, rightPlane = wide * rowsVoxel + rowsPad;
  const int leftRow = bundle * leftPlane, rightRow = bundle * rightPlane;
  unsigned char *right = shared + a.ring * leftRow;
  // of each voxel of a stage where it goes, and which one it is: of dy, then of x
  uint2 *voxels = reinterpret_cast<uint2 *>(right + a.ring * rightRow);
  const int leftVoxels = a.rows * bundle * a.columns, rightVoxels = a.rows * bundle * wide;
  for (int i = threadIdx.x; i < leftVoxels + rightVoxels; i += threads) {
    const bool ofX = i >= leftVoxels;
    const int v = ofX ? i - leftVoxels : i, plane = quotient(v, ofX ? a.byWide : a.byColumns);
    const int c = v - plane * (ofX ? wide : a.columns), row = plane / bundle, other = quotient(row, a.byHeight);
    const int offset = plane * (ofX ? rightPlane : leftPlane) + c * rowsVoxel;
    const int pair = plane % bundle + (a.bundles > 1 ? other * bundle : 0);
    voxels[i] = {(uint32_t)offset, (uint32_t)(pair | (a.bundles > 1 ? row - other * H : row) << 8 | c << 16)};
  }

  struct Place { // the next stage of a strip
    int strip, pair, x0, low, high, y; // its first pair and column, rows from low on and up to high, the next one
  };
  auto begin = [&](Place &p, int strip) {
    const int tile = quotient(strip, a.byCuts), group = quotient(tile, a.byAcross);
    p.strip = strip, p.pair = group * bundle * a.bundles, p.x0 = (tile - group * (int)a.byAcross.d) * a.columns;
    p.low = (strip - tile * (int)a.byCuts.d) * a.cut, p.high = min(H, p.low + a.cut);
    p.y = max(0, p.low - half); // the rows before those that meet them
  };
  auto next = [&](Place &p) {
    p.y += a.rows;
    if (p.y >= p.high) begin(p, p.strip + 1);
  };
  Place ahead, now;
  begin(ahead, split * a.perBlock[kz]);
  now = ahead;
  barrier(); // the list of voxels is there

  auto copy = [&](unsigned char *into, const bf16 *from, const uint2 *list, int n, uint32_t channels, int planes,
                  int x0) {
    const int part = threadIdx.x % parts;
    from += 8 * part;
    into += 16 * part;
    for (int i = threadIdx.x / parts; i < n; i += threads / parts) {
      const uint2 voxel = list[i];
      const int pair = ahead.pair + (voxel.y & 255), image = quotient(pair, a.byLive[away]);
      const int plane = pair + image * away + planes, y = ahead.y + (voxel.y >> 8 & 255), w = x0 + (voxel.y >> 16);
      const bool there = pair < pairs && y < ahead.high && w >= 0 && w < W;
      const uint32_t at = there ? (plane * H + y) * W + w : 0;
      copyAsync16(into + voxel.x, from + (size_t)at * channels, there);
    }
  };
  auto fetch = [&](int stage) {
    if (ahead.strip < end) {
      const int row = stage * a.rows;
      copy(shared + row * leftRow, dy + firstOut, voxels, leftVoxels, a.out, max(0, -shift), ahead.x0);
      copy(right + row * rightRow, x + firstIn, voxels + leftVoxels, rightVoxels, a.in, max(0, shift),
           ahead.x0 - a.edge);
      next(ahead);
    }
    commitAsync();
  };

  float sum[2][K][4] = {};
  uint32_t b[K][2] = {}; // K columns of x; that of column s is b[s % K]
  const int stages = a.ring / a.rows, far = ky < half ? half - ky : ky - half;
  const int backLeft = max(0, ky - half), backRight = max(0, half - ky);
  const unsigned char *leftLane = shared + (lane / 16 * 8 + lane % 8) * leftPlane + 2 * (lane / 8 % 2 * 8);
  const unsigned char *rightLane = right + lane % 16 * rightPlane + 2 * column + (a.edge - half) * rowsVoxel;
  for (int s = 0; s < rowsAhead; s++) fetch(s);
  for (int stage = 0; now.strip < end; stage = stage + 1 < stages ? stage + 1 : 0) {
    waitAsync<rowsAhead - 1>();
    barrier(); // the stage is there, and nobody reads the one any more that is fetched over
    const int after = stage + rowsAhead < stages ? stage + rowsAhead : stage + rowsAhead - stages;
    // some warps fetch first and some multiply first, so that the tensor cores have work meanwhile
    const bool early = ky % 2;
    if (early) fetch(after);
    const int low = max(0, half - now.x0), high = min(a.columns + K - 1, W - now.x0 + half);
    const int columns = min(a.columns, W - now.x0);
    for (int r = 0, y = now.y; r < a.rows; r++) {
      if (y >= max(now.low, far)) {
        // of two rows that meet, the later one is row r
        int rowLeft = stage * a.rows + r - backLeft, rowRight = stage * a.rows + r - backRight;
        if (rowLeft < 0) rowLeft += a.ring;
        if (rowRight < 0) rowRight += a.ring;
        const unsigned char *l = leftLane + rowLeft * leftRow, *q = rightLane + rowRight * rightRow;
        // columns of x count from that of the first kx of the first column of dy on
#pragma unroll
        for (int s = 0; s < K - 1; s++)
          if (s >= low && s < high) loadMatrix2T(b[s], q + s * rowsVoxel);
        for (int first = 0; first < columns; first += K, l += K * rowsVoxel, q += K * rowsVoxel)
#pragma unroll
          for (int j = 0; j < K; j++) {
            const int c = first + j;
            if (c >= columns) break;
            uint32_t f[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++) loadMatrix4T(f[m], l + j * rowsVoxel + 32 * m);
            if (c + K - 1 < high) loadMatrix2T(b[(j + K - 1) % K], q + (j + K - 1) * rowsVoxel);
            if (c >= low && c + K - 1 < high) {
#pragma unroll
              for (int kx = 0; kx < K; kx++)
#pragma unroll
                for (int m = 0; m < 2; m++) mmaBf16(sum[m][kx], f[m], b[(j + kx) % K][0], b[(j + kx) % K][1]);
            } else {
#pragma unroll
              for (int kx = 0; kx < K; kx++)
                if (c + kx >= low && c + kx < high)
#pragma unroll
                  for (int m = 0; m < 2; m++) mmaBf16(sum[m][kx], f[m], b[(j + kx) % K][0], b[(j + kx) % K][1]);
            }
          }
      }
      if (++y == now.high) {
        if (a.bundles == 1) break;
        y = 0; // of the next bundle
      }
    }
    next(now);
    if (!early) fetch(after);
  }
  waitAsync<0>();
  float *out = to + ((size_t)split * a.out + firstOut) * (K * K * K) * a.in + firstIn;
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int kx = 0; kx < K; kx++)
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int o = 16 * m + lane / 4 + i / 2 * 8, tap = (kz * K + ky) * K + kx;
        float *two = out + ((size_t)o * (K * K * K) + tap) * a.in + column + lane % 4 * 2;
        *reinterpret_cast<float2 *>(two) = {sum[m][kx][i], sum[m][kx][i + 1]};
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
CONSTANT int oneVoxels = oneTileX * oneTileY * oneTileZ, oneBytes = 32 * oneVoxels; // 16 channels of dy
CONSTANT int oneHalo = oneHaloX * oneHaloY * oneHaloZ, oneCopy = oneHalo + 32; // voxels of a copy: 16 banks on

// oneAt is where half the channels of a voxel of dy lie: both halves change places every 4 voxels, so that
// ldmatrix meets no bank twice.
FN int oneAt(int voxel, int half) { return voxel * 32 + (half ^ voxel / 4 % 2) * 16; }

// The matrix has 16 rows, of dy, and 125 columns, the taps: each warp makes all of it, of an eighth of the
// voxels. While a tile is multiplied, the next one comes: dy to the other half of its place, x to registers.
//
//	to (splits, out, 125)      grid: x splits, y tiles of 16 out
KERNEL(256, 2, oneWeights, (float *to, const bf16 *x, const bf16 *dy, OneWeights a)) {
  SHARED(unsigned char, shared);
  bf16 *tile = reinterpret_cast<bf16 *>(shared + 2 * oneBytes);
  const int D = a.size[0], H = a.size[1], W = a.size[2], firstOut = blockIdx.y * 16;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int offset[16]; // of the pair that a lane has of a tap, in bytes
#pragma unroll
  for (int t = 0; t < 16; t++) {
    const int tap = min(124, 8 * t + lane / 4), at = (tap / 25 * oneHaloY + tap / 5 % 5) * oneHaloX + tap % 5;
    offset[t] = 4 * (at / 2 + at % 2 * (oneCopy / 2) + lane % 4);
  }
  constexpr int each = (oneHalo + 255) / 256;
  bf16 halo[each]; // of x, of the next tile
  auto fetch = [&](int t, unsigned char *to) {
    const int row = quotient(t, a.byX), plane = quotient(row, a.byY), image = quotient(plane, a.byZ);
    const int x0 = (t - row * (int)a.byX.d) * oneTileX, y0 = (row - plane * (int)a.byY.d) * oneTileY;
    const int z0 = (plane - image * (int)a.byZ.d) * oneTileZ;
    int thread = threadIdx.x;
    asm volatile("" : "+r"(thread)); // the places of a thread's voxels are no numbers to keep in registers
#pragma unroll 1
    for (int i = thread; i < 2 * oneVoxels; i += 256) {
      const int v = i / 2, z = z0 + v / (oneTileX * oneTileY), y = y0 + v / oneTileX % oneTileY, w = x0 + v % oneTileX;
      const bool there = z < D && y < H && w < W;
      const uint32_t at = there ? ((image * D + z) * H + y) * W + w : 0;
      copyAsync16(to + oneAt(v, i % 2), dy + (size_t)at * a.out + firstOut + i % 2 * 8, there);
    }
#pragma unroll
    for (int n = 0; n < each; n++) {
      const int i = thread + 256 * n;
      const int z = z0 + i / (oneHaloX * oneHaloY) - 2, y = y0 + i / oneHaloX % oneHaloY - 2, w = x0 + i % oneHaloX - 2;
      const bool there = i < oneHalo && z >= 0 && z < D && y >= 0 && y < H && w >= 0 && w < W;
      halo[n] = there ? x[(uint32_t)(((image * D + z) * H + y) * W + w)] : bf16{0};
    }
  };

  float sum[16][4] = {};
  const int first = blockIdx.x * a.perSplit, end = min(a.tiles, first + a.perSplit);
  if (first < end) fetch(first, shared + first % 2 * oneBytes);
  commitAsync();
#pragma unroll 1
  for (int t = first; t < end; t++) {
    barrier(); // nobody reads the tile before any more
#pragma unroll
    for (int n = 0; n < each; n++) {
      const int i = threadIdx.x + 256 * n;
      if (i < oneHalo) tile[i] = halo[n];
      if (i && i < oneHalo) tile[oneCopy + i - 1] = halo[n];
    }
    if (t + 1 < end) fetch(t + 1, shared + (t + 1) % 2 * oneBytes);
    commitAsync();
    waitAsync<1>();
    barrier(); // this one is there
    const unsigned char *left = shared + t % 2 * oneBytes;
#pragma unroll 1
    for (int r = warp; r < oneTileY * oneTileZ; r += 8) { // a row of 16 voxels
      uint32_t l[4];
      loadMatrix4T(l, left + oneAt(16 * r + lane / 16 * 8 + lane % 8, lane / 8 % 2));
      const int begin = 2 * oneBytes + (r / oneTileY * oneHaloY + r % oneTileY) * oneHaloX * 2;
#pragma unroll
      for (int n = 0; n < 16; n++) {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(shared + (begin + offset[n]));
        mmaBf16(sum[n], l, from[0], from[4]);
      }
    }
  }
  waitAsync<0>();
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
