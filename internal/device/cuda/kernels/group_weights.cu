// The gradient of the weights of convolutions that keep the size, with 5^3 or 3^3 taps, of multiples of 32
// channels to such, in bfloat16, by products of four warps (wgmma).
//
//	dw[o, tap, i] = sum over voxels of x[voxel + tap, i] dy[voxel, o]
//
// The depth of a product are 16 voxels: of a row, or 8 of two rows each where rows are short. Shared memory has
// rows of groups of 8 channels of voxels, 16 bytes a voxel and group, so that all groups of neighbouring rows lie
// at one distance. The columns of a product are 32 channels of K rows of dy: a row of x meets all its ky at once. Its
// rows are 32 channels of x twice, the second time of a copy that is shifted by a voxel: two kx at once. Of an odd
// number of kx the last product has one that nobody wants, which costs a sixth, or a quarter.
//
// Rows and columns of voxels outside the image are zeros; of planes only those meet that are both in the image.
#include "tile.h"

#ifdef WARPGROUPS
struct GroupWeights {
  int in, out, size[3], images;
  int columns, rows, slabs; // of a stage: voxels of a row, rows of x of a slab, and slabs, each a plane of one image
  int steps, ring;          // products of a stage and warp, a multiple of groupSteps; stages that there is room for
  int first[6];             // of grid.x, for each kz
  int items[5], perBlock[5];
  Divisor byAcross, byDown; // tiles along an image's axes
  Divisor byLive[3];        // planes of an image that have a partner 0, 1, 2 planes further on
  Divisor byWide;           // columns of x, with those of the halo and one more
};

CONSTANT int groupSteps = 8; // products that are given to the tensor cores together

//	to (splits, out, taps, in)      grid: x blocks of all kz, y tiles of 32 out x tiles of 32 in; four warps for two kx
template <int K> FN void groupWeights(float *to, const bf16 *x, const bf16 *dy, const GroupWeights &a) {
  constexpr int half = K / 2, threads = 128 * ((K + 1) / 2), parts = 4, padX = K == 5 ? 2 : 0, padY = 2;
  SHARED(unsigned char, shared);
  const int D = a.size[0], H = a.size[1], W = a.size[2], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tilesIn = a.in / 32, firstIn = blockIdx.y % tilesIn * 32, firstOut = blockIdx.y / tilesIn * 32;
  int kz = 0;
  while ((int)blockIdx.x >= a.first[kz + 1]) kz++;
  const int split = blockIdx.x - a.first[kz], end = min(a.items[kz], (split + 1) * a.perBlock[kz]);
  const int shift = kz - half, away = shift < 0 ? -shift : shift, pairs = a.images * (D - away);

  // 16 bytes from a group to the next one, of x and of dy: 2 or 6 more than a multiple of 8, so that copies of four
  // groups of two voxels meet no bank twice
  const int groupX = a.columns + 2 * half + padX, groupY = a.columns + padY, tall = a.rows + 2 * half;
  const int rowX = 2 * parts * groupX, rowY = parts * groupY, sizeX = a.slabs * a.rows * rowX;
  const int stageBytes = 16 * (sizeX + a.slabs * tall * rowY);

  const int part = threadIdx.x % parts;
  auto fetch = [&](int item, int stage) {
    if (item >= end) return commitAsync();
    const int line = quotient(item, a.byAcross), group = quotient(line, a.byDown);
    const int x0 = (item - line * (int)a.byAcross.d) * a.columns, y0 = (line - group * (int)a.byDown.d) * a.rows;
    unsigned char *left = shared + stage * stageBytes + 16 * part * groupX;
    unsigned char *right = shared + stage * stageBytes + 16 * (sizeX + part * groupY);
    int plane[2]; // of both slabs, of dy; -1 where there is none
#pragma unroll
    for (int s = 0; s < 2; s++) {
      const int pair = group * a.slabs + s;
      plane[s] = pair < pairs ? pair + quotient(pair, a.byLive[away]) * away + max(0, -shift) : -1;
    }
    const int wide = (int)a.byWide.d;
#pragma unroll 1
    for (int i = threadIdx.x / parts; i < a.slabs * a.rows * wide; i += threads / parts) {
      const int row = quotient(i, a.byWide), c = i - row * wide, second = row >= a.rows;
      const int w = x0 + c - half, y = y0 + row - (second ? a.rows : 0), p = second ? plane[1] : plane[0];
      const bool there = p >= 0 && y < H && w >= 0 && w < W;
      const uint32_t at = there ? ((p + shift) * H + y) * W + w : 0;
      const bf16 *from = x + (size_t)at * a.in + firstIn + 8 * part;
      unsigned char *into = left + 16 * (row * rowX + c);
      if (c < wide - 1) copyAsync16(into, from, there);
      if (c > 0) copyAsync16(into + 16 * (parts * groupX - 1), from, there); // to the shifted copy
    }
#pragma unroll 1
    for (int i = threadIdx.x / parts; i < a.slabs * tall * a.columns; i += threads / parts) {
      const int row = a.columns == 16 ? i / 16 : i / 8, c = i - row * a.columns, second = row >= tall;
      const int w = x0 + c, y = y0 + row - (second ? tall : 0) - half, p = second ? plane[1] : plane[0];
      const bool there = p >= 0 && y >= 0 && y < H && w < W;
      const uint32_t at = there ? (p * H + y) * W + w : 0;
      copyAsync16(right + 16 * (row * rowY + c), dy + (size_t)at * a.out + firstOut + 8 * part, there);
    }
    commitAsync();
  };

  // A step are 16 voxels of a row, or 8 of two rows. Of two slabs each has half of the steps.
  const bool two = a.columns == 8;
  const int stepX = two ? 2 * rowX : rowX, stepY = two ? 2 * rowY : rowY, between = a.slabs == 2 ? 2 * half * rowY : 0;
  const SharedMatrix left = matrixOf(shared, two ? 16 * rowX : 128, 16 * groupX);
  const SharedMatrix right = matrixOf(shared + 16 * sizeX, two ? 16 * rowY : 128, 16 * groupY);
  const int kx = warp / 4 * 2; // and the next one
  float sum[K][4][4];          // of rows of dy from half above the one of x on: ky = K - 1 down to 0
#pragma unroll
  for (int b = 0; b < K; b++)
#pragma unroll
    for (int t = 0; t < 4; t++) {
#pragma unroll
      for (int i = 0; i < 4; i++) sum[b][t][i] = 0;
      keepInPlace(sum[b][t]);
    }

  const int begin = split * a.perBlock[kz], early = a.ring - 2; // stages that are on their way
  for (int i = 0; i < early; i++) fetch(begin + i, i);
  int stage = 0;
#pragma unroll 1
  for (int item = begin; item < end; item++) {
    // all but the stages after this one are there
    if (early == 1)
      waitAsync<0>();
    else if (early == 2)
      waitAsync<1>();
    else
      waitAsync<2>();
    fenceProducts();
    barrier(); // this stage is there, and nobody multiplies the one before the last any more
#pragma unroll 1
    for (int step = 0; step < a.steps; step += groupSteps) {
      const uint32_t l = uniform(left.start + stage * (stageBytes / 16) + step * stepX + kx);
      const uint32_t r = uniform(right.start + stage * (stageBytes / 16) + step * stepY);
      beginProducts();
#pragma unroll
      for (int s = 0; s < groupSteps; s++)
        multiplyTurned(sum, SharedMatrix{l + s * stepX, left.stride},
                       SharedMatrix{r + s * stepY + (s < groupSteps / 2 ? 0 : between), right.stride});
      commitProducts();
      if (step == 0) fetch(item + early, stage + early < a.ring ? stage + early : stage + early - a.ring);
      waitProducts<1>();
    }
    if (++stage == a.ring) stage = 0;
  }
  waitProducts<0>();
  waitAsync<0>();
  const int row = warp % 4 * 16, tap = kx + row / 32; // both halves of the 64 rows have a kx
#pragma unroll
  for (int b = 0; b < K; b++)
#pragma unroll
    for (int t = 0; t < 4; t++) keepInPlace(sum[b][t]);
  if (tap >= K) return;
  float *out = to + ((size_t)split * a.out + firstOut) * (K * K * K) * a.in + firstIn + row % 32 + lane / 4;
#pragma unroll
  for (int b = 0; b < K; b++)
#pragma unroll
    for (int t = 0; t < 4; t++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int o = 8 * t + lane % 4 * 2 + i % 2;
        out[((size_t)o * (K * K * K) + (kz * K + K - 1 - b) * K + tap) * a.in + i / 2 * 8] = sum[b][t][i];
      }
}

#define GROUP_WEIGHTS(K)                                                                                               \
  KERNEL(128 * ((K + 1) / 2), 1, groupWeights_##K, (float *to, const bf16 *x, const bf16 *dy, GroupWeights a)) { \
    groupWeights<K>(to, x, dy, a);                                                                                     \
  }
GROUP_WEIGHTS(5)
GROUP_WEIGHTS(3)
#endif
