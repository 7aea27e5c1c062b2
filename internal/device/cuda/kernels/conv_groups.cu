// Convolution with 5^3 or 3^3 taps that keeps the size, of multiples of 32 channels to such, in bfloat16,
// by products of four warps (wgmma); forward, and as data gradient with the taps flipped.
//
// A block makes 64 MT x 2 voxels of two planes, one behind the other, in 32 channels. Both matrices of a
// product lie in shared memory: x with its halo so that the 64 voxels of a product are 8 pieces of 8
// neighbours, at the same distance from each other for every tap, and the weights of both planes side
// by side. So a plane of x is multiplied with a tap once for two planes of y, and nothing is shifted.
//
// Neighbours are 8 voxels of a row, or, where rows are short, the same voxel of 8 images.
//
// The products stand in one row without a branch, or the compiler makes them wait for each other, and
// computes where matrices begin in every lane.
#include "tile.h"

struct ConvGroup {
  int images, in, out, size[3];
  int slabs, inner;  // images of a tile: apart in shared memory, and those whose voxels are neighbours
  int rows, columns; // of a tile's planes
  int units;         // 16 bytes each, from 8 channels of a stage to the next 8
  int ring;          // stages of weights: 3, or 4
  int tiles;
  Divisor byOut, byAcross, byDown, byPairs;  // tiles along each axis
  Divisor byInner, byHalo, byHaloRows;       // images, columns and rows with their halo
};

CONSTANT int groupBlock = 32; // channels of a stage of x

#ifdef WARPGROUPS
template <int K, int MT> FN void convGroup(bf16 *y, Moments *moments, const bf16 *x, const bf16 *w, const float *bias, const ConvGroup &a) {
  constexpr int halo = K - 1, chunks = groupBlock / 16, parts = groupBlock / 8;
  constexpr int tap = 2048, weightBytes = K * chunks * tap; // the weights of a tap and 16 channels of x
  SHARED(unsigned char, shared);
  const int D = a.size[0], H = a.size[1], W = a.size[2];
  const int across = a.columns + halo, down = a.rows + halo, xBytes = parts * a.units * 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned char *xStages = shared + a.ring * weightBytes;
  float *sums = reinterpret_cast<float *>(xStages + 2 * xBytes); // (2, 8, 32, 3)
  float *counts = sums + 2 * 8 * 32 * 3;                         // (8)
  uint32_t *table = reinterpret_cast<uint32_t *>(counts + 8);             // (2, units)

  // Where a block is in its work: a tile, a plane of x that reaches it, channels of x, and one ky.
  struct Cursor {
    int tile, out, x, y, z, image, tileOfPlane, imageTile; // the tile's first voxel, and its number in its plane
    int s, end, channel, ky;                               // the plane is z + s - K / 2
  };
  auto begin = [&](Cursor &c) {
    if (c.tile >= a.tiles) return;
    const int q = quotient(c.tile, a.byOut), row = quotient(q, a.byAcross), plane = quotient(row, a.byDown);
    c.imageTile = quotient(plane, a.byPairs);
    c.out = (c.tile - q * (int)a.byOut.d) * 32, c.x = (q - row * (int)a.byAcross.d) * a.columns;
    c.y = (row - plane * (int)a.byDown.d) * a.rows, c.z = (plane - c.imageTile * (int)a.byPairs.d) * 2;
    c.image = c.imageTile * a.slabs * a.inner, c.tileOfPlane = q - plane * (int)(a.byAcross.d * a.byDown.d);
    c.s = max(0, K / 2 - c.z), c.end = min(K + 1, D - c.z + K / 2), c.channel = c.ky = 0;
  };
  auto nextStage = [&](Cursor &c) { // of x
    c.ky = 0;
    if ((c.channel += groupBlock) < a.in) return;
    c.channel = 0;
    if (++c.s < c.end) return;
    c.tile += gridDim.x;
    begin(c);
  };
  auto advance = [&](Cursor &c) {
    if (++c.ky == K) nextStage(c);
  };

  // A stage of weights, as packGroup leaves it: for each 16 channels and kx those of the first plane, then of the second
  // one, whose kz is one less; of the first and the last plane of x those of one alone. Each (4 x 8 out, 2 x 8 in, 8, 8).
  auto fetchWeights = [&](int stage, const Cursor &c) {
    const int half = K * chunks * 512, row = (c.channel / groupBlock * K + c.ky) * half; // elements of one plane's weights
    const int planes = a.in / groupBlock * K * half;                                    // of all channels and ky
    const bool both = c.s > 0 && c.s < K;
    const bf16 *from = w + (size_t)(c.out / 32) * 2 * K * planes + (both ? (2 * c.s - 1) * planes + 2 * row : max(0, 2 * c.s - 1) * planes + row);
    const bf16 *mine = from + 8 * threadIdx.x;
    unsigned char *to = shared + stage * weightBytes + 16 * threadIdx.x;
#pragma unroll
    for (int i = 0; i < K * chunks * 128; i += 256)
      if (i + (int)threadIdx.x < (both ? K * chunks * 128 : K * chunks * 64)) copyAsync16(to + 16 * i, mine + 8 * i, true);
  };
  // Where each unit of a stage of x lies, in 16 bytes from its first voxel in the first image's plane; none outside. Two
  // tables, since the next tile's is made while this one's is in use.
  constexpr uint32_t none = 0xffffffffu;
  const int live = a.slabs * down * across * a.inner;
  auto makeTable = [&](const Cursor &c, int which) {
    for (int u = threadIdx.x; u < live; u += 256) {
      const int q = quotient(u, a.byInner), r = quotient(q, a.byHalo), slab = quotient(r, a.byHaloRows);
      const int image = slab * a.inner + u - q * a.inner, yy = c.y + r - slab * down - K / 2, xx = c.x + q - r * across - K / 2;
      const bool there = c.image + image < a.images && yy >= 0 && yy < H && xx >= 0 && xx < W;
      table[which * a.units + u] = there ? (uint32_t)((image * D * H + yy) * W + xx) * (a.in / 8) : none;
    }
  };
  // A stage of x: (8 channels each, slabs, rows, columns, inner images), a part of so many of it.
  auto fetchX = [&](int stage, const Cursor &c, int which, int first, int of) {
    const int each = (live + of - 1) / of, part = threadIdx.x % parts, end = min(live, (first + 1) * each);
    unsigned char *to = xStages + stage * xBytes + part * a.units * 16;
    const bf16 *plane = x + ((size_t)c.image * D + c.z + c.s - K / 2) * H * W * a.in + c.channel + 8 * part;
    const uint32_t *at = table + which * a.units;
    for (int u = first * each + threadIdx.x / parts; u < end; u += 256 / parts) {
      const uint32_t offset = at[u];
      copyAsync16(to + u * 16, plane + (size_t)(offset != none ? offset : 0) * 8, offset != none);
    }
  };

  // The products of this warp's four: 64 voxels each.
  const int wide = a.columns * a.inner, perLine = a.inner > 1 ? (wide + 63) / 64 : a.columns / 8;
  const int perSlab = a.inner > 1 ? a.rows * perLine : a.rows / 8 * perLine;
  auto placeOf = [&](int m, int &slab, int &line, int &piece) {
    const int q = warp / 4 * MT + m;
    slab = q / perSlab;
    line = q % perSlab / perLine, piece = q % perSlab % perLine;
    return slab < a.slabs;
  };
  uint32_t base[MT]; // where the voxels of each begin
#pragma unroll
  for (int m = 0; m < MT; m++) {
    int slab, line, piece;
    const bool there = placeOf(m, slab, line, piece);
    const int row = slab * down + (a.inner > 1 ? line : 8 * line);
    base[m] = uniform(there ? row * across * a.inner + piece * (a.inner > 1 ? 64 : 8) : 0);
  }
  const SharedMatrix left = matrixOf(xStages, 16 * a.units, a.inner > 1 ? 128 : 16 * across), right = matrixOf(shared, 128, 256);

  float sum[MT][2][4][4]; // of both planes
  float one[MT][4][4];    // of the one that a plane of x reaches alone
  // what is given to each accumulator of a plane, before products begin or once they are made
  auto each = [&](int h, auto f) {
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int t = 0; t < 4; t++) {
        keepInPlace(one[m][t]), keepInPlace(sum[m][h][t]);
#pragma unroll
        for (int i = 0; i < 4; i++) f(one[m][t][i], sum[m][h][t][i]);
        keepInPlace(one[m][t]), keepInPlace(sum[m][h][t]);
      }
  };

  auto writeTile = [&](const Cursor &c) {
    int voxel[MT][2]; // of the first plane; -1 where there is none
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int slab, line, piece;
        const bool there = placeOf(m, slab, line, piece);
        const int row = warp % 4 * 16 + lane / 4 + 8 * half, u = 64 * piece + row, q = quotient(u, a.byInner);
        const int yy = c.y + (a.inner > 1 ? line : 8 * line + row / 8), column = a.inner > 1 ? q : 8 * piece + row % 8;
        const int image = c.image + slab * a.inner + (a.inner > 1 ? u - q * a.inner : 0), xx = c.x + column;
        voxel[m][half] = there && image < a.images && yy < H && column < a.columns && xx < W ? ((image * D + c.z) * H + yy) * W + xx : -1;
      }
    int live = -1; // the first of this lane's voxels that is there
#pragma unroll
    for (int i = 2 * MT - 1; i >= 0; i--) live = voxel[i / 2][i % 2] >= 0 ? i : live;
    float share = live >= 0; // of a lane, where such are added up
    for (int mask = 4; mask < 32; mask *= 2) share += shuffleXor(share, mask);
    share = share > 0 ? 1 / share : 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (c.z + h >= D) break;
#pragma unroll
      for (int t = 0; t < 4; t++) {
        const int channel = c.out + 8 * t + lane % 4 * 2;
        const float add[2] = {bias ? bias[channel] : 0, bias ? bias[channel + 1] : 0};
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
          for (int half = 0; half < 2; half++) {
            float *v = &sum[m][h][t][2 * half];
            v[0] += add[0], v[1] += add[1];
            if (voxel[m][half] >= 0) *reinterpret_cast<uint32_t *>(y + ((size_t)voxel[m][half] + (size_t)h * H * W) * a.out + channel) = packBf16(v[0], v[1]);
          }
      }
      if (!moments) continue;
      // Sums about a number that all lanes of a column agree on and that lies among its values, so that little is
      // lost where they are taken from each other: the mean of the first one of each lane that has any.
#pragma unroll
      for (int t = 0; t < 4; t++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
          float some = 0, first = 0, second = 0;
#pragma unroll
          for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) some = live == 2 * m + half ? sum[m][h][t][2 * half + i] : some;
          for (int mask = 4; mask < 32; mask *= 2) some += shuffleXor(some, mask);
          some *= share;
#pragma unroll
          for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
              const float d = voxel[m][half] >= 0 ? sum[m][h][t][2 * half + i] - some : 0;
              first += d, second += d * d;
            }
          for (int mask = 4; mask < 32; mask *= 2) first += shuffleXor(first, mask), second += shuffleXor(second, mask);
          float *to = sums + ((h * 8 + warp) * 32 + 8 * t + lane % 4 * 2 + i) * 3;
          if (lane < 4) to[0] = some, to[1] = first, to[2] = second;
        }
    }
    if (!moments) return;
    float count = 0;
#pragma unroll
    for (int m = 0; m < MT; m++) count += (voxel[m][0] >= 0) + (voxel[m][1] >= 0);
    for (int mask = 4; mask < 32; mask *= 2) count += shuffleXor(count, mask);
    if (lane == 0) counts[warp] = count;
    barrier();
    // moments: (images or groups of them, planes, tiles of a plane, out); two slabs are of four warps each
    const int h = threadIdx.x / 32 % 2, part = threadIdx.x / 64, of = a.inner == 1 && a.slabs == 2 ? 2 : 1, warps = 8 / of;
    if (part < of && c.z + h < D && (of == 1 || c.image + part < a.images)) {
      Moments all = {0, 0, 0};
      for (int i = part * warps; i < (part + 1) * warps; i++) {
        const float *from = sums + ((h * 8 + i) * 32 + lane) * 3, n = counts[i], mean = n > 0 ? from[1] / n : 0;
        all = merge(all, {n, from[0] + mean, fmaxf(0, from[2] - mean * from[1])});
      }
      moments[(((size_t)(c.imageTile * of + part) * D + c.z + h) * (a.byAcross.d * a.byDown.d) + c.tileOfPlane) * a.out + c.out + lane] = all;
    }
    barrier(); // before the next tile's
  };

  Cursor now = {(int)blockIdx.x}, ahead, next; // the products, the weights and the x that are fetched
  begin(now);
  next = ahead = now;
  int tables = 0; // which is next's
  makeTable(next, 0);
  barrier();
  fetchX(0, next, 0, 0, 1);
  auto nextX = [&] {
    const int tile = next.tile;
    nextStage(next);
    if (next.tile != tile && next.tile < a.tiles) makeTable(next, tables ^= 1); // read after the next barrier
  };
  nextX();
  const int early = a.ring - 2; // stages of weights are under way before they are multiplied
  for (int i = 0; i < early; i++) {
    if (ahead.tile < a.tiles) fetchWeights(i, ahead), advance(ahead);
    commitAsync();
  }
  int ring = 0, stage = 0; // of weights and of x, which are multiplied
  // The products of all ky and channels with the planes of x from this one to the last one given. Each of these
  // parts of a tile ends with all its products made, since they have accumulators of different sizes.
  auto multiplyPlanes = [&](int last, int tapUnits, auto multiply) {
    if (now.s > last) return;
    const int tile = now.tile;
    do {
      if (early == 2)
        waitAsync<1>();
      else
        waitAsync<0>();
      fenceProducts();
      barrier(); // this stage is there, and nobody multiplies the one before the last any more
      beginProducts();
      const uint32_t weights = uniform(right.start + ring * (weightBytes / 16));
      const uint32_t voxels = uniform(left.start + stage * (xBytes / 16) + now.ky * across * a.inner);
#pragma unroll
      for (int c = 0; c < chunks; c++)
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
          for (int kx = 0; kx < K; kx++)
            multiply(m, SharedMatrix{voxels + base[m] + 2 * c * a.units + kx * a.inner, left.stride}, SharedMatrix{weights + (c * K + kx) * tapUnits, right.stride});
        }
      commitProducts();
      if (ahead.tile < a.tiles) fetchWeights(ring + early < a.ring ? ring + early : ring + early - a.ring, ahead), advance(ahead);
      if (next.tile < a.tiles && now.ky > 0 && now.ky < K - 1) {
        fetchX(stage ^ 1, next, tables, now.ky - 1, K - 2);
        if (now.ky == K - 2) nextX();
      }
      commitAsync();
      waitProducts<1>();
      advance(now);
      if (now.ky == 0) stage ^= 1;
      if (++ring == a.ring) ring = 0;
    } while (now.tile == tile && now.s <= last);
    waitProducts<0>();
  };
  while (now.tile < a.tiles) {
    const Cursor made = now;
    each(0, [](float &one, float &) { one = 0; });
    multiplyPlanes(0, tap / 32, [&](int m, SharedMatrix l, SharedMatrix r) { multiplyGroup(one[m], l, r); });
    each(0, [](float &one, float &sum) { sum = one; });
    each(1, [](float &, float &sum) { sum = 0; });
    if (now.tile == made.tile) multiplyPlanes(K - 1, tap / 16, [&](int m, SharedMatrix l, SharedMatrix r) { multiplyGroup(sum[m][0], sum[m][1], l, r); });
    each(1, [](float &one, float &sum) { one = sum; });
    if (now.tile == made.tile) multiplyPlanes(K, tap / 32, [&](int m, SharedMatrix l, SharedMatrix r) { multiplyGroup(one[m], l, r); });
    each(1, [](float &one, float &sum) { sum = one; });
    writeTile(made);
  }
  waitAsync<0>();
}

#define CONV_GROUP(K, MT)                                                                                                                             \
  KERNEL(256, 1, convGroup##K##_##MT, (bf16 * y, Moments *moments, const bf16 *x, const bf16 *w, const float *bias, ConvGroup a)) { \
    convGroup<K, MT>(y, moments, x, w, bias, a);                                                                                       \
  }
CONV_GROUP(5, 1)
CONV_GROUP(5, 2)
CONV_GROUP(5, 4)
CONV_GROUP(3, 1)
CONV_GROUP(3, 2)
CONV_GROUP(3, 4)
#endif

// packGroup: w (Out, In, whole taps) in float32 as the stages of weights have them: for each 32 out and each plane of x
// that reaches a pair of planes of y, (blocks of in, ky, groups of 16 in of a block, kx, planes of y that it reaches,
// 4 x 8 out, 2 x 8 in, 8 out, 8 in). As data gradient the taps are flipped, in and out exchanged.
struct PackGroup {
  int in, out, taps, transposed; // taps along each axis
  int whole[3], first[3];        // of w's kernel, and which tap is the first one here
};
KERNEL(256, 4, packGroup, (bf16 *to, const float *w, PackGroup a)) {
  const int K = a.taps, whole = a.whole[0] * a.whole[1] * a.whole[2], planes = a.in * 32 * K * K, chunks = groupBlock / 16;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < 2 * K * planes * (a.out / 32); i += gridDim.x * 256) {
    const int tile = i / (2 * K * planes), at = i - tile * 2 * K * planes, s = (at / planes + 1) / 2, both = s > 0 && s < K;
    const int r = at - max(0, 2 * s - 1) * planes, e = both ? r % 1024 : r % 512, q = both ? r / 1024 : r / 512;
    const int kz = min(s, K - 1) - e / 512, kx = q % K, chunk = q / K % chunks, ky = q / (K * chunks) % K;
    const int in = q / (K * chunks * K) * groupBlock + 16 * chunk + e / 64 % 2 * 8 + e % 8, out = 32 * tile + e / 128 % 4 * 8 + e / 8 % 8;
    const int flip = a.transposed ? K - 1 : 0, sign = a.transposed ? -1 : 1;
    const int tap = ((flip + sign * kz + a.first[0]) * a.whole[1] + flip + sign * ky + a.first[1]) * a.whole[2] + flip + sign * kx + a.first[2];
    put(to + i, w[(a.transposed ? (size_t)in * a.out + out : (size_t)out * a.in + in) * whole + tap]);
  }
}
