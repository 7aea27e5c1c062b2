// Convolution with 5^3 taps, padding 2, of 16 to 64 channels and more, in bfloat16; forward, and as
// data gradient with the taps flipped.
//
// A block makes whole rows of one plane. For each of the five input planes it has the rows with
// their halo in shared memory, so that x is loaded from there 25 times and not from global memory. A
// warp multiplies 16 voxels of x with the weights of all five kx side by side: one load of x serves
// 5 N columns, and the five products are added up, shifted, at the end. So tensor cores see a matrix
// of 80 or 160 columns where the layer has 16 or 32 channels.
#include "tile.h"

struct Conv5 {
  int images, in, out, size[3];
  int rows;  // of a tile
  int block; // channels of x in shared memory at a time: 16, 32 or 64, divides in
  Divisor byW, byTiles, byD; // voxels of a row, tiles of a plane, planes
  Divisor byParts;           // 16 bytes of the channels in shared memory
};

// 16 bytes for each of block / 8 groups of channels, and 16 more so that ldmatrix meets no bank twice
FN int conv5Pitch(const Conv5 &a) { return 2 * a.block + 16; }

// The voxels of a tile of x, and those that the last 16 rows of the matrix may reach past it.
FN int conv5Voxels(const Conv5 &a) { return (a.rows + 4) * a.size[2] + 16 * 4; }

//	grid: x images x planes x tiles of rows, y tiles of 8 NT channels; 32 threads for 16 MT voxels
template <int MT, int NT> FN void conv5(bf16 *y, Moments *moments, const bf16 *x, const uint2 *w, const float *bias, const Conv5 &a) {
  constexpr int N = 8 * NT, pitchOut = N + 1;
  SHARED(unsigned char, shared);
  const int D = a.size[0], H = a.size[1], W = a.size[2];
  const int plane = quotient(blockIdx.x, a.byTiles), image = quotient(plane, a.byD), z0 = plane - image * D, y0 = (blockIdx.x - plane * (int)a.byTiles.d) * a.rows;
  const int threads = blockDim.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp * MT * 16;
  const int pitch = conv5Pitch(a), stageBytes = conv5Voxels(a) * pitch, begin = max(0, z0 - 2), end = min(D, z0 + 3);

  // A stage is some channels of a plane's rows. These lie one after the other, so that voxel v of a stage
  // is so many further on than its first one; of the image are those from low to high.
  const int part = threadIdx.x - (int)quotient(threadIdx.x, a.byParts) * (int)a.byParts.d, low = (2 - y0) * W, high = (H + 2 - y0) * W;
  auto fetch = [&](int stage, int z, int channel) {
    const int first = ((image * D + z) * H + y0 - 2) * W;
    unsigned char *to = shared + stage * stageBytes + 16 * part;
    for (int v = quotient(threadIdx.x, a.byParts); v < (a.rows + 4) * W; v += quotient(threads, a.byParts)) {
      const bool there = v >= low && v < high;
      copyAsync16(to + v * pitch, there ? x + (size_t)(first + v) * a.in + channel + 8 * part : x, there);
    }
  };

  float sum[MT][5][NT][4] = {};
  const uint2 *weights = w + (size_t)blockIdx.y * 5 * (a.in / 16) * 25 * NT * 32 + lane;
  fetch(0, begin, 0);
  commitAsync();
  for (int z = begin, channel = 0, stage = 0; z < end; stage ^= 1) {
    const int nextChannel = channel + a.block < a.in ? channel + a.block : 0, next = nextChannel ? z : z + 1;
    waitAsync<0>();
    barrier(); // the stage is there, and nobody reads the one before it any more
    if (next < end) fetch(stage ^ 1, next, nextChannel);
    commitAsync();
    for (int c = 0; c < a.block / 16; c++) {
      const unsigned char *from = shared + stage * stageBytes + (first + lane % 16) * pitch + 16 * (2 * c + lane / 16);
      const uint2 *stageWeights = weights + (size_t)((z + 2 - z0) * (a.in / 16) + channel / 16 + c) * 25 * NT * 32;
#pragma unroll 1
      for (int ky = 0; ky < 5; ky++) {
        uint32_t left[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) loadMatrix4(left[m], from + (ky * W + 16 * m) * pitch);
#pragma unroll
        for (int kx = 0; kx < 5; kx++)
#pragma unroll
          for (int t = 0; t < NT; t++) {
            const uint2 f = stageWeights[((ky * 5 + kx) * NT + t) * 32];
#pragma unroll
            for (int m = 0; m < MT; m++) mmaBf16(sum[m][kx][t], left[m], f.x, f.y);
          }
      }
    }
    z = next, channel = nextChannel;
  }
  waitAsync<0>();
  barrier();

  // out[x] = sum over kx of sum_kx[x + kx - 2], one kx after the other
  float *out = reinterpret_cast<float *>(shared);
  const int all = threads / 32 * MT * 16, firstOut = blockIdx.y * N;
  int at[MT][2]; // in its row, of each voxel of this thread; beyond any row where there is none
#pragma unroll
  for (int m = 0; m < MT; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int v = first + 16 * m + lane / 4 + 8 * half;
      at[m][half] = v < a.rows * W ? v - (int)quotient(v, a.byW) * W : -8;
    }
  for (int i = threadIdx.x; i < all * N; i += threads) out[i / N * pitchOut + i % N] = bias ? bias[firstOut + i % N] : 0;
#pragma unroll
  for (int kx = 0; kx < 5; kx++) {
    barrier();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int v = first + 16 * m + lane / 4 + 8 * half, to = at[m][half] + 2 - kx;
        if (to < 0 || to >= W) continue;
#pragma unroll
        for (int t = 0; t < NT; t++)
#pragma unroll
          for (int i = 0; i < 2; i++) out[(v + 2 - kx) * pitchOut + 8 * t + lane % 4 * 2 + i] += sum[m][kx][t][2 * half + i];
      }
  }
  barrier();
  const Result result = {out, a.rows * W, pitchOut, N, a.out, firstOut, out + all * pitchOut, threads};
  Moments *to = moments ? moments + (size_t)blockIdx.x * a.out : nullptr;
  writeResult<bf16, N>(y, to, result, [&](int r) { return r < (H - y0) * W ? ((image * D + z0) * H + y0) * W + r : -1; });
}

KERNEL(512, 1, conv5_16, (bf16 *y, Moments *moments, const bf16 *x, const uint2 *w, const float *bias, Conv5 a)) { conv5<2, 2>(y, moments, x, w, bias, a); }
KERNEL(256, 1, conv5_32x2, (bf16 *y, Moments *moments, const bf16 *x, const uint2 *w, const float *bias, Conv5 a)) { conv5<2, 4>(y, moments, x, w, bias, a); }
KERNEL(512, 1, conv5_32, (bf16 *y, Moments *moments, const bf16 *x, const uint2 *w, const float *bias, Conv5 a)) { conv5<1, 4>(y, moments, x, w, bias, a); }

// packConv5: w (Out, In, 5, 5, 5) in float32 as the lanes of mma.m16n8k16 want it: (tiles of N out, kz,
// groups of 16 in, ky, kx, groups of 8 of the tile, lane, 4). As data gradient the taps are flipped,
// in and out exchanged.
struct PackConv5 {
  int in, out, N, transposed;
};
KERNEL(256, 4, packConv5, (bf16 *to, const float *w, PackConv5 a)) {
  const int n = 125 * a.in * a.out;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    int r = i;
    const int element = r % 4, lane = r / 4 % 32;
    r /= 128;
    const int t = r % (a.N / 8);
    r /= a.N / 8;
    const int kx = r % 5, ky = r / 5 % 5;
    r /= 25;
    const int chunk = r % (a.in / 16), kz = r / (a.in / 16) % 5, tile = r / (a.in / 16) / 5;
    const int in = 16 * chunk + lane % 4 * 2 + element % 2 + element / 2 * 8, out = tile * a.N + 8 * t + lane / 4, tap = (kz * 5 + ky) * 5 + kx;
    const size_t from = a.transposed ? ((size_t)in * a.out + out) * 125 + 124 - tap : ((size_t)out * a.in + in) * 125 + tap;
    put(to + i, w[from]);
  }
}

// --- One channel in: the first layer

struct Conv5One {
  int out, size[3];
  Divisor byX, byY, byZ; // tiles of an image along each axis
};

// conv5One_f32: on the ordinary units. A block makes 2 x 8 x 32 voxels of 16 channels, a thread 4
// voxels of 8 of them.
CONSTANT int oneX = 36, oneY = 12, oneZ = 6; // the tile of x with its halo
KERNEL(256, 2, conv5One_f32, (float *y, Moments *moments, const float *x, const float *w, const float *bias,
                              Conv5One a)) {
  SHARED(float, shared);
  float *tile = shared, *weights = shared + oneX * oneY * oneZ; // (125, 16)
  const int D = a.size[0], H = a.size[1], W = a.size[2], row = quotient(blockIdx.x, a.byX), plane = quotient(row, a.byY), image = quotient(plane, a.byZ);
  const int x0 = (blockIdx.x - row * (int)a.byX.d) * 32, y0 = (row - plane * (int)a.byY.d) * 8, z0 = (plane - image * (int)a.byZ.d) * 2, first = blockIdx.y * 16;
  for (int i = threadIdx.x; i < oneX * oneY * oneZ; i += 256) {
    const int xx = x0 + i % oneX - 2, yy = y0 + i / oneX % oneY - 2, zz = z0 + i / (oneX * oneY) - 2;
    const bool there = xx >= 0 && xx < W && yy >= 0 && yy < H && zz >= 0 && zz < D;
    tile[i] = there ? x[(((size_t)image * D + zz) * H + yy) * W + xx] : 0;
  }
  for (int i = threadIdx.x; i < 125 * 16; i += 256) weights[i] = first + i % 16 < a.out ? w[(first + i % 16) * 125 + i / 16] : 0;
  barrier();
  const int half = threadIdx.x % 2 * 8, tx = threadIdx.x / 2 % 8 * 4, ty = threadIdx.x / 16 % 8, tz = threadIdx.x / 128;
  float sum[4][8];
#pragma unroll
  for (int c = 0; c < 8; c++) {
    const float start = bias && first + half + c < a.out ? bias[first + half + c] : 0;
#pragma unroll
    for (int v = 0; v < 4; v++) sum[v][c] = start;
  }
#pragma unroll 1
  for (int k = 0; k < 25; k++) {
    float q[8];
    const float *from = tile + ((tz + k / 5) * oneY + ty + k % 5) * oneX + tx;
#pragma unroll
    for (int i = 0; i < 8; i++) q[i] = from[i];
#pragma unroll
    for (int kx = 0; kx < 5; kx++) {
      float f[2][4];
      load(f[0], weights + (k * 5 + kx) * 16 + half);
      load(f[1], weights + (k * 5 + kx) * 16 + half + 4);
#pragma unroll
      for (int v = 0; v < 4; v++)
#pragma unroll
        for (int c = 0; c < 8; c++) sum[v][c] += q[v + kx] * f[c / 4][c % 4];
    }
  }
  barrier();
  constexpr int pitch = 17;
  float *out = shared;
#pragma unroll
  for (int v = 0; v < 4; v++)
#pragma unroll
    for (int c = 0; c < 8; c++) out[((tz * 8 + ty) * 32 + tx + v) * pitch + half + c] = sum[v][c];
  barrier();
  const Result result = {out, 512, pitch, min(16, a.out - first), a.out, first, out + 512 * pitch, 256};
  Moments *to = moments ? moments + (size_t)blockIdx.x * a.out : nullptr;
  writeResult<float, 16>(y, to, result, [&](int r) {
    const int xx = x0 + r % 32, yy = y0 + r / 32 % 8, zz = z0 + r / 256;
    return xx < W && yy < H && zz < D ? ((image * D + zz) * H + yy) * W + xx : -1;
  });
}

// conv5One_bf16: on tensor cores. Rows of the matrix are 16 voxels of a row of x, every second one;
// columns are 16 channels. What is summed over are pairs of neighbours along x: three for the five
// taps of a (kz, ky), so that the voxel has one tap too many, whose weight is 0: the last one, or
// the first one where voxels are the odd ones. So pairs begin at even places always, and are 4
// bytes of shared memory.
//
// For each ky, the five kz have 15 pairs, which are two products of 16 x 16 x 16 (the sixteenth has
// no weight). What a lane loads of a row of x therefore serves five rows of y: a warp goes along y
// with the sums of five rows, and all weights, in registers.
struct Conv5OneTiles {
  Conv5One one;
  int rows;  // of a tile, of 4 x rows x 32 voxels
  int words; // of a plane of x in shared memory
  int tiles; // of all images
};

// Of x, a row of a tile has 32 voxels, and 8 on either side, so that these are copied 16 bytes at a
// time: 24 words of two. Where a plane's words are 4 more than a multiple of 32, no load of a warp
// meets a bank twice.
CONSTANT int onePlanes = 8, oneWords = 24, oneFirst = 3; // the word of the first tap of voxel 0
CONSTANT int onePart = 3 * 16;                           // floats of the moments that a warp leaves

// grid: x as many blocks as run at a time, which take the tiles in turn, y tiles of 16 channels
KERNEL(256, 2, conv5One_bf16, (bf16 *y, Moments *moments, const bf16 *x, const float *w, const float *bias,
                               Conv5OneTiles a)) {
  SHARED(uint32_t, shared);
  float *parts = reinterpret_cast<float *>(shared + 2 * onePlanes * a.words); // (2, warps, onePart)
  const int out = a.one.out, D = a.one.size[0], H = a.one.size[1], W = a.one.size[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, quad = lane % 4;
  const int odd = warp % 2, level = warp / 2, first = blockIdx.y * 16;
  struct Place {
    int image, z, y, x;
    int begin, end; // the rows of x that are of the image
  };
  auto place = [&](int t) {
    const int r = quotient(t, a.one.byX), plane = quotient(r, a.one.byY), image = quotient(plane, a.one.byZ);
    const int y0 = (r - plane * (int)a.one.byY.d) * a.rows;
    return Place{image, (plane - image * (int)a.one.byZ.d) * 4, y0, (t - r * (int)a.one.byX.d) * 32, max(0, 2 - y0),
                 min(a.rows + 4, H + 2 - y0)};
  };
  // a warp copies a plane
  auto fetch = [&](int stage, int t) {
    const Place p = place(t);
    uint32_t *plane = shared + (stage * onePlanes + warp) * a.words;
    const int z = p.z + warp - 2, from = ((p.image * D + z) * H + p.y - 2) * W;
    const bool inside = z >= 0 && z < D;
    if (W % 8 == 0) {
      const int piece = lane % 6, v = p.x - 8 + 8 * piece;
      const bool there = inside && v >= 0 && v < W;
      if (lane < 30)
        for (int r = p.begin + lane / 6; r < p.end; r += 5)
          copyAsync16(plane + r * oneWords + 4 * piece, there ? x + (from + r * W + v) : x, there);
    } else if (lane < oneWords) {
      const int v = p.x - 8 + 2 * lane;
      const bool low = inside && v >= 0 && v < W, high = inside && v >= -1 && v + 1 < W;
      for (int r = p.begin; r < p.end; r++) {
        const bf16 *pair = x + (from + r * W + v);
        plane[r * oneWords + lane] = (low ? pair[0].bits : 0) | (uint32_t)(high ? pair[1].bits : 0) << 16;
      }
    }
  };
  // the moments of a tile, from those of its warps
  auto leave = [&](int stage, int t) {
    const int c = threadIdx.x;
    if (c >= 16 || first + c >= out) return;
    const float *from = parts + stage * 8 * onePart + c;
    Moments all = {0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++) all.count += from[i * onePart], all.mean += from[i * onePart] * from[i * onePart + 16];
    all.mean /= all.count;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const float d = from[i * onePart + 16] - all.mean;
      all.m2 += from[i * onePart + 32] + from[i * onePart] * d * d;
    }
    moments[(size_t)t * out + first + c] = all;
  };

  fetch(0, blockIdx.x);
  commitAsync();
  // The weights, where the second tile will be. Of two columns of 8, a lane has four channels that
  // are neighbours.
  uint32_t right[5][2][2][2]; // ky, product, columns, half
  float *weights = reinterpret_cast<float *>(shared + onePlanes * a.words);
  for (int i = threadIdx.x; i < 16 * 125; i += 256) weights[i] = first * 125 + i < out * 125 ? w[first * 125 + i] : 0;
  barrier();
  int offset[4]; // of the pair that a lane has of each half of both products
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const bool none = quad == 3 && j == 3; // it reads what its neighbour does
    const int kz = quad < 3 || none ? j : 4, pair = none ? 2 : quad < 3 ? quad : j, kx = 2 * pair - odd;
    offset[j] = (level + kz) * a.words + oneFirst + row + pair;
#pragma unroll
    for (int ky = 0; ky < 5; ky++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const float *from = weights + (row / 2 * 4 + 2 * n + row % 2) * 125 + kz * 25 + ky * 5 + kx;
        right[ky][j / 2][n][j % 2] = packBf16(none || kx < 0 ? 0 : from[0], none || kx == 4 ? 0 : from[1]);
      }
  }
  const bool live = first + 4 * quad < out;
  float start[4];
#pragma unroll
  for (int c = 0; c < 4; c++) start[c] = bias && live ? bias[first + 4 * quad + c] : 0;

  int last = -1, stage = 0;
  for (int t = blockIdx.x; t < a.tiles; last = t, t += gridDim.x, stage ^= 1) {
    waitAsync<0>();
    barrier(); // the tile is there, and nobody reads the one before it any more
    if (t + (int)gridDim.x < a.tiles) fetch(stage ^ 1, t + gridDim.x);
    commitAsync();
    if (moments && last >= 0) leave(stage ^ 1, last);
    const Place p = place(t);
    const int z = p.z + level, rows = z < D ? min(a.rows, H - p.y) : 0, voxel = p.x + odd + 2 * row;
    const bool there[2] = {live && voxel < W, live && voxel + 16 < W};
    bf16 *to = y + ((size_t)(((p.image * D + z) * H + p.y) * W + voxel) * out + first + 4 * quad);
    const uint32_t *from = shared + stage * onePlanes * a.words;
    float sum[5][2][4];
    auto begin = [&](float (&s)[2][4]) {
#pragma unroll
      for (int c = 0; c < 4; c++) s[c / 2][c % 2] = s[c / 2][c % 2 + 2] = start[c];
    };
#pragma unroll
    for (int i = 0; i < 5; i++) begin(sum[i]);
    // of each channel of this lane: about the first voxel, sums of differences and of their squares
    float about[4] = {}, once[4] = {}, square[4] = {};
#pragma unroll 1
    for (int i0 = 0; i0 < rows + 4; i0 += 5, from += 5 * oneWords) {
#pragma unroll
      for (int u = 0; u < 5; u++) { // row i of x, with which row i - 4 of y is made
        const int i = i0 + u;
        if (i >= p.begin && i < p.end) {
          uint32_t left[2][4];
#pragma unroll
          for (int j = 0; j < 4; j++) {
            left[j / 2][j % 2 * 2] = from[offset[j] + u * oneWords];
            left[j / 2][j % 2 * 2 + 1] = from[offset[j] + u * oneWords + 8];
          }
#pragma unroll
          for (int s = 0; s < 2; s++)
#pragma unroll
            for (int ky = 4; ky >= 0; ky--)
#pragma unroll
              for (int n = 0; n < 2; n++) mmaBf16(sum[(u + 5 - ky) % 5][n], left[s], right[ky][s][n][0], right[ky][s][n][1]);
        }
        float(&made)[2][4] = sum[(u + 1) % 5];
        if (i >= 4 && i < rows + 4) {
#pragma unroll
          for (int half = 0; half < 2; half++)
            if (there[half])
              *reinterpret_cast<uint2 *>(to + half * 16 * out) = {packBf16(made[0][2 * half], made[0][2 * half + 1]),
                                                                  packBf16(made[1][2 * half], made[1][2 * half + 1])};
          to += W * out;
          if (moments) {
#pragma unroll
            for (int c = 0; c < 4; c++) {
              if (i == 4) about[c] = made[c / 2][c % 2];
#pragma unroll
              for (int half = 0; half < 2; half++)
                if (there[half]) {
                  const float d = made[c / 2][2 * half + c % 2] - about[c];
                  once[c] += d, square[c] += d * d;
                }
            }
          }
        }
        begin(made);
      }
    }
    if (moments) { // of the 8 lanes that have the same channels
      const float n = rows * (there[0] + there[1]), all = rows * max(0, min(16, (W - p.x - odd + 1) / 2));
      const float part = n > 0 ? 1 / n : 0, whole = all > 0 ? 1 / all : 0;
      float *mine = parts + (stage * 8 + warp) * onePart + 4 * quad;
#pragma unroll
      for (int c = 0; c < 4; c++) {
        float mean = n * about[c] + once[c];
#pragma unroll
        for (int l = 4; l < 32; l *= 2) mean += shuffleXor(mean, l);
        mean *= whole;
        const float d = about[c] + once[c] * part - mean;
        float m2 = square[c] - once[c] * once[c] * part + n * d * d;
#pragma unroll
        for (int l = 4; l < 32; l *= 2) m2 += shuffleXor(m2, l);
        if (row == 0) mine[c] = all, mine[16 + c] = mean, mine[32 + c] = m2;
      }
    }
  }
  waitAsync<0>();
  barrier();
  if (moments) leave(stage ^ 1, last);
}
