// Convolutions whose taps do not overlap: 1^3, and those whose stride is their size, such as 2^3 with
// stride 2. Forward and as adjoint they are one product of matrices over the voxels of the coarse
// tensor, of which each has a patch of voxels of the fine one:
//
//	forward   y[m, o] = b[o] + sum over k = (tap, i) of x[patch m + tap, i] w[o, tap, i]
//	adjoint   y[patch m + tap, i] = b[i] + sum over o of x[m, o] w[o, tap, i]        columns n = (tap, i)
//
// No row has a halo, and no sum is divided into phases. A block makes tile after tile: the copies of
// the next one are under way while the sums of the one before are written. The columns of a tile of
// voxels come one after the other, so that what is read again is still in the cache.
#include "product.h"

struct Patches {
  int rows;            // voxels of the coarse tensor, of all images
  int left, right;     // channels of a voxel that is read, and written
  int depth, columns;  // of the product
  int gathers, spreads; // the fine tensor is the one that is read, or written; neither with one tap
  int kernel[3], fine[3]; // taps and size of the fine tensor
  Divisor byW, byH, byD;  // the coarse one's size
  Divisor byLeft, byRight;
};

// the first voxel of the patch of a voxel
FN int patchOf(const Patches &a, int m) {
  const int row = quotient(m, a.byW), plane = quotient(row, a.byH), image = quotient(plane, a.byD);
  const int z = (plane - image * (int)a.byD.d) * a.kernel[0], y = (row - plane * (int)a.byH.d) * a.kernel[1], x = (m - row * (int)a.byW.d) * a.kernel[2];
  return ((image * a.fine[0] + z) * a.fine[1] + y) * a.fine[2] + x;
}

// A Tap of a patch, and how many voxels after the first one it lies.
struct Tap {
  int x, y, voxel;
};
FN void nextTap(const Patches &a, Tap &t) {
  t.voxel++;
  if (++t.x < a.kernel[2]) return;
  t.x = 0, t.voxel += a.fine[2] - a.kernel[2];
  if (++t.y < a.kernel[1]) return;
  t.y = 0, t.voxel += (a.fine[1] - a.kernel[1]) * a.fine[2];
}

// the row of the packed weights for a column, negative past the last one
FN int weightsOf(const Patches &a, int n) {
  if (n >= a.columns) return -1;
  if (!a.spreads) return n;
  const int tap = quotient(n, a.byRight), taps = a.kernel[0] * a.kernel[1] * a.kernel[2];
  return (n - tap * a.right) * taps + tap;
}

// spreadResult writes the sums of a tile to the patches of its voxels, V channels at a time.
template <class T, int N, int V> FN void spreadResult(T *y, const float *sums, const float *bias, const Patches &a, int m0, int n0) {
  constexpr int perRow = N / V, pitch = Tiling<N>::pitch, threads = Tiling<N>::threads;
  const int c = threadIdx.x % perRow * V, n = n0 + c;
  if (n >= a.columns) return;
  const int number = quotient(n, a.byRight), channel = n - number * a.right;
  Tap tap = {0, 0, 0};
  for (int i = 0; i < number; i++) nextTap(a, tap);
  for (int row = threadIdx.x / perRow; row < Tiling<N>::M && m0 + row < a.rows; row += threads / perRow) {
    float v[V];
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = sums[row * pitch + c + k] + (bias ? bias[channel + k] : 0);
    store(y + (size_t)(patchOf(a, m0 + row) + tap.voxel) * a.right + channel, v);
  }
}

//	grid: x and y: tiles of 128 rows and of N columns are dealt out to so many blocks
//	moments: (tiles of rows, columns); not where the result is spread
template <class K, int N> FN void patches(typename K::Type *y, Moments *moments, const typename K::Type *x, const typename K::Type *w, const float *bias, const Patches &a) {
  typedef typename K::Type T;
  typedef Tiling<N> Tile;
  constexpr int V = Vector<T>::size, chunk = convRowBytes / sizeof(T), stageBytes = (Tile::M + N) * convPitch;
  SHARED(unsigned char, shared);
  float *out = reinterpret_cast<float *>(shared + convStages * stageBytes); // (M, pitch), then scratch
  const int tilesM = (a.rows + Tile::M - 1) / Tile::M, tilesN = (a.columns + N - 1) / N, chunks = (a.depth + chunk - 1) / chunk;
  const bool vectors = a.left % V == 0;
  // 16 bytes of two rows, or one column of all elements
  const int perRow = vectors ? 4 : chunk, column = threadIdx.x % perRow * (vectors ? V : 1), row = threadIdx.x / perRow, step = Tile::threads / perRow;

  // Of rows with fewer channels than a stage has room for, the rest stays zero.
  const bool narrow = !vectors && a.depth <= chunk;
  if (narrow) {
    for (int i = threadIdx.x; i < convStages * stageBytes / 4; i += Tile::threads) reinterpret_cast<uint32_t *>(shared)[i] = 0;
    barrier();
  }

  // what is fetched next
  int tileM = blockIdx.x, tileN = blockIdx.y, chunkOf = 0, channel, from[2], weights;
  Tap tap;
  auto place = [&]() { // at the beginning of a tile
    channel = column, tap = {0, 0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int m = tileM * Tile::M + row + i * step;
      from[i] = m >= a.rows ? -1 : a.gathers ? patchOf(a, m) : m;
    }
    weights = row < N ? weightsOf(a, tileN * N + row) : -1;
  };
  place();
  auto fetch = [&](int stage) {
    unsigned char *left = shared + stage * stageBytes, *right = left + Tile::M * convPitch;
    const int k = chunkOf * chunk + column;
    if (vectors) {
      while (a.gathers && channel >= a.left) channel -= a.left, nextTap(a, tap);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const bool there = k < a.depth && from[i] >= 0;
        copyAsync16(left + (row + i * step) * convPitch + 16 * (threadIdx.x % 4), there ? x + (size_t)(from[i] + tap.voxel) * a.left + channel : x, there);
      }
      if (row < N) {
        const bool there = k < a.depth && weights >= 0;
        copyAsync16(right + row * convPitch + 16 * (threadIdx.x % 4), there ? w + (size_t)weights * a.depth + k : w, there);
      }
      channel += chunk;
    } else { // rows without patches: they lie one after the other
      const int first = tileM * Tile::M;
      for (int i = threadIdx.x; narrow && i < Tile::M * a.left; i += Tile::threads) {
        const int r = quotient(i, a.byLeft);
        put(reinterpret_cast<T *>(left + r * convPitch) + (i - r * a.left), first + r < a.rows ? toFloat(x[(size_t)first * a.left + i]) : 0);
      }
      for (int r = row; !narrow && r < Tile::M; r += step)
        put(reinterpret_cast<T *>(left + r * convPitch) + column, k < a.depth && first + r < a.rows ? toFloat(x[(size_t)(first + r) * a.left + k]) : 0);
      for (int r = row; r < N; r += step) {
        const int o = weightsOf(a, tileN * N + r);
        put(reinterpret_cast<T *>(right + r * convPitch) + column, k < a.depth && o >= 0 ? toFloat(w[(size_t)o * a.depth + k]) : 0);
      }
    }
    if (++chunkOf < chunks) return;
    chunkOf = 0, tileN += gridDim.y;
    if (tileN >= tilesN) tileN = blockIdx.y, tileM += gridDim.x;
    place();
  };

  const int mine = (tilesM - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x * ((tilesN - (int)blockIdx.y + (int)gridDim.y - 1) / (int)gridDim.y);
  const int steps = mine * chunks;
  for (int s = 0; s < convStages - 1; s++) {
    if (s < steps) fetch(s);
    commitAsync();
  }
  Accumulator<K, N> sums;
  int m = blockIdx.x, n = blockIdx.y, left = chunks; // of the tile that is summed up
  for (int s = 0; s < steps; s++) {
    waitAsync<convStages - 2>();
    barrier(); // stage s is there, and nobody reads the one before it, or the last result, any more
    if (s + convStages - 1 < steps) fetch((s + convStages - 1) % convStages);
    commitAsync();
    const unsigned char *stage = shared + s % convStages * stageBytes;
    sums.add(stage, stage + Tile::M * convPitch);
    if (--left) continue;
    const int live = min(N, a.columns - n * N);
    sums.put(out, bias && !a.spreads ? bias + n * N : nullptr, live);
    barrier();
    if (a.spreads) {
      if (a.right % V == 0)
        spreadResult<T, N, V>(y, out, bias, a, m * Tile::M, n * N);
      else
        spreadResult<T, N, 1>(y, out, bias, a, m * Tile::M, n * N);
    } else {
      const Result result = {out, Tile::M, Tile::pitch, live, a.columns, n * N, out + Tile::M * Tile::pitch, Tile::threads};
      const int first = m * Tile::M;
      writeResult<T, N>(y, moments ? moments + (size_t)m * a.columns : nullptr, result, [&](int r) { return first + r < a.rows ? first + r : -1; });
    }
    sums = {};
    left = chunks, n += gridDim.y;
    if (n >= tilesN) n = blockIdx.y, m += gridDim.x;
  }
  waitAsync<0>();
}

#define PATCHES(K, N, suffix)                                                                                                                \
  KERNEL(256, 2, patches##suffix, (K::Type * y, Moments * moments, const K::Type *x, const K::Type *w, const float *bias, Patches a)) { \
    patches<K, N>(y, moments, x, w, bias, a);                                                                                                \
  }
PATCHES(Fp32, 16, _fp32_16)
PATCHES(Fp32, 64, _fp32_64)
PATCHES(Tf32, 16, _tf32_16)
PATCHES(Tf32, 64, _tf32_64)
PATCHES(Bf16, 16, _bf16_16)
PATCHES(Bf16, 32, _bf16_32)
PATCHES(Bf16, 64, _bf16_64)

// --- Small depths in bfloat16: from memory to the registers of the tensor cores
//
// Where a row's depth and a row's result are whole pieces of 32 elements, each next to each other in memory,
// nothing but the weights need go through shared memory. The order of k and of columns is free: four lanes have
// a piece of a row, 16 bytes each, and take that as their part of two products; and of 32 columns each has 8
// neighbours, which it writes as 16 bytes. So warps wait for nobody, and four pieces of 16 rows are on
// their way to each.

struct Direct {
  Patches of;
  int units, groups;  // 128 rows; columns of a lane's NT tiles
  int parts;          // 1 << parts warps share the groups of a unit
  int from[8];        // of a patch: where each piece of its depth begins, in 16 bytes
  Divisor byWide, byY; // groups of columns along x of a patch, and taps along y
};

CONSTANT int directThreads = 128, directRows = 128;

// Of a group of columns, tile t of NT: its column j.
template <int NT> FN int directColumn(int group, int t, int j) { return group * 8 * NT + j / 2 * 2 * NT + 2 * t + j % 2; }

// storePair writes two neighbours of the columns there are.
FN void storePair(bf16 *row, int column, int columns, float v0, float v1) {
  if (columns % 2 == 0) {
    if (column < columns) *reinterpret_cast<uint32_t *>(row + column) = packBf16(v0, v1);
    return;
  }
  if (column < columns) put(row + column, v0);
  if (column + 1 < columns) put(row + column + 1, v1);
}

//	grid: x blocks of 4 warps: units, and parts of their groups, are dealt out to them
//	moments: (units, columns); not where the result is spread, and with as many parts as groups
template <int pieces, int ring, int NT, bool spreads> FN void directPatches(bf16 *y, Moments *moments, const bf16 *x, const bf16 *w, const float *bias, const Direct &a) {
  constexpr int together = pieces < ring ? ring / pieces : 1, each = 2 * NT;
  SHARED(uint4, weights); // (groups, pieces, NT, lanes)
  const Patches &p = a.of;
  const int lane = threadIdx.x % 32, quarter = lane % 4, count = a.groups * pieces * NT * 32;
  float *biases = reinterpret_cast<float *>(weights + count);        // (groups, 8 NT)
  int *places = reinterpret_cast<int *>(biases + a.groups * 8 * NT); // of the groups, in a patch, in 16 bytes
  for (int i = threadIdx.x; i < count; i += directThreads) {
    const int l = i % 32, t = i / 32 % NT, c = i / (32 * NT) % pieces, row = weightsOf(p, directColumn<NT>(i / (32 * NT * pieces), t, l / 4));
    weights[i] = row < 0 ? uint4{0, 0, 0, 0} : *reinterpret_cast<const uint4 *>(w + (size_t)row * p.depth + 32 * c + 8 * (l % 4));
  }
  for (int i = threadIdx.x; i < a.groups * 8 * NT; i += directThreads)
    biases[i] = bias && i < p.columns ? bias[spreads ? i - quotient(i, p.byRight) * p.right : i] : 0;
  for (int g = threadIdx.x; g < a.groups; g += directThreads) {
    const int r = quotient(g, a.byWide), z = quotient(r, a.byY), row = spreads ? (z * p.fine[1] + r - z * (int)a.byY.d) * p.fine[2] * p.right : 0;
    places[g] = (row + (spreads ? g - r * (int)a.byWide.d : g) * 8 * NT) / 8;
  }
  barrier();

  const int warp = blockIdx.x * (directThreads / 32) + threadIdx.x / 32, stride = gridDim.x * (directThreads / 32) >> a.parts;
  const int per = a.groups >> a.parts, firstGroup = (warp & ((1 << a.parts) - 1)) * per, first = warp >> a.parts;
  // what is fetched next: 16 rows of a unit
  int ahead = first * directRows + lane / 4;
  uint32_t from[2]; // in 16 bytes
  bool there[2];
  uint4 left[ring][2];
  auto place = [&]() {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int m = ahead + 8 * h;
      there[h] = m < p.rows;
      from[h] = (uint32_t)(!spreads && p.gathers ? patchOf(p, m) : m) * (uint32_t)(p.left / 8) + quarter;
    }
    ahead += 16;
    if (ahead % directRows < 16) ahead += (stride - 1) * directRows;
  };
  auto fetch = [&](uint4 (&to)[2], int piece) {
#pragma unroll
    for (int h = 0; h < 2; h++) to[h] = there[h] ? reinterpret_cast<const uint4 *>(x)[from[h] + a.from[piece]] : uint4{0, 0, 0, 0};
  };
  const uint4 *const right = weights + firstGroup * (pieces * NT * 32) + lane;
  auto multiply = [&](float (&sum)[NT][4], const uint4 (&l)[2], int group, int piece) {
    const uint32_t low[4] = {l[0].x, l[1].x, l[0].y, l[1].y}, high[4] = {l[0].z, l[1].z, l[0].w, l[1].w};
#pragma unroll
    for (int t = 0; t < NT; t++) {
      const uint4 r = right[((group * pieces + piece) * NT + t) * 32];
      mmaBf16(sum[t], low, r.x, r.y);
      mmaBf16(sum[t], high, r.z, r.w);
    }
  };
#pragma unroll
  for (int i = 0; i < ring; i++) {
    if (i % pieces == 0) place();
    fetch(left[i], i % pieces);
  }

  for (int unit = first; unit < a.units; unit += stride) {
    float rows = 0, pivot[each], sums[each], squares[each]; // of the lane's rows
#pragma unroll
    for (int k = 0; k < each; k++) pivot[k] = sums[k] = squares[k] = 0;
#pragma unroll 1
    for (int step = 0; step < directRows; step += 16 * together)
#pragma unroll
      for (int u = 0; u < together; u++) {
        const int m0 = unit * directRows + step + 16 * u + lane / 4;
        if constexpr (spreads) {
          uint32_t to[2]; // in 16 bytes
#pragma unroll
          for (int h = 0; h < 2; h++) to[h] = (uint32_t)patchOf(p, m0 + 8 * h) * (uint32_t)(p.right / 8) + quarter;
#pragma unroll 1
          for (int g = 0; g < per; g++) {
            float sum[NT][4] = {};
#pragma unroll
            for (int c = 0; c < pieces; c++) multiply(sum, left[(u * pieces + c) % ring], g, c);
            const int group = firstGroup + g;
            const float *b = biases + group * 8 * NT + quarter * each;
            uint4 *const at = reinterpret_cast<uint4 *>(y) + places[group];
#pragma unroll
            for (int h = 0; h < 2; h++) {
              uint4 v;
              v.x = packBf16(sum[0][2 * h] + b[0], sum[0][2 * h + 1] + b[1]), v.y = packBf16(sum[1][2 * h] + b[2], sum[1][2 * h + 1] + b[3]);
              v.z = packBf16(sum[2][2 * h] + b[4], sum[2][2 * h + 1] + b[5]), v.w = packBf16(sum[3][2 * h] + b[6], sum[3][2 * h + 1] + b[7]);
              if (m0 + 8 * h < p.rows) at[to[h]] = v;
            }
          }
#pragma unroll
          for (int c = 0; c < pieces; c++) {
            if (c == 0) place();
            fetch(left[(u * pieces + c) % ring], c);
          }
        } else {
          float sum[NT][4] = {};
#pragma unroll
          for (int c = 0; c < pieces; c++) {
            uint4(&l)[2] = left[(u * pieces + c) % ring];
            multiply(sum, l, 0, c);
            if ((c + ring) % pieces == 0) place();
            fetch(l, (c + ring) % pieces);
          }
          const int column = firstGroup * 8 * NT + quarter * each;
          const float *b = biases + column;
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const int m = m0 + 8 * h;
            float v[each];
#pragma unroll
            for (int k = 0; k < each; k++) v[k] = sum[k / 2][2 * h + k % 2] + b[k];
            if (m < p.rows) {
              bf16 *const to = y + (size_t)m * p.right;
              if constexpr (NT == 4)
                store(to + column, v);
              else
#pragma unroll
                for (int k = 0; k < each; k += 2) storePair(to, column + k, p.columns, v[k], v[k + 1]);
              if (moments) {
#pragma unroll
                for (int k = 0; k < each; k++) {
                  if (rows == 0) pivot[k] = v[k];
                  const float d = v[k] - pivot[k];
                  sums[k] += d, squares[k] += d * d;
                }
                rows++;
              }
            }
          }
        }
      }
    if (spreads || !moments) continue;
    // the first of the lane's values stands for the mean at first, so that nothing cancels
    const float perRow = rows > 0 ? 1 / rows : 0;
#pragma unroll
    for (int k = 0; k < each; k++) {
      const float mean = sums[k] * perRow;
      squares[k] = fmaxf(0, squares[k] - sums[k] * mean), sums[k] = pivot[k] + mean;
    }
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) {
      const float other = shuffleXor(rows, mask), all = rows + other, share = all > 0 ? other / all : 0, both = rows * share;
#pragma unroll
      for (int k = 0; k < each; k++) {
        const float d = shuffleXor(sums[k], mask) - sums[k];
        squares[k] += shuffleXor(squares[k], mask) + d * d * both, sums[k] += d * share;
      }
      rows = all;
    }
    const int column = firstGroup * 8 * NT + quarter * each;
    if (lane < 4)
#pragma unroll
      for (int k = 0; k < each; k++)
        if (column + k < p.columns) moments[(size_t)unit * p.columns + column + k] = {rows, sums[k], squares[k]};
  }
}

#define DIRECT(name, perSM, pieces, ring, NT, spreads)                                                                                       \
  KERNEL(directThreads, perSM, name, (bf16 * y, Moments * moments, const bf16 *x, const bf16 *w, const float *bias, Direct a)) { \
    directPatches<pieces, ring, NT, spreads>(y, moments, x, w, bias, a);                                                                     \
  }
DIRECT(directHead, 6, 1, 4, 1, false)
DIRECT(directRows_1, 3, 1, 4, 4, false)
DIRECT(directRows_2, 3, 2, 4, 4, false)
DIRECT(directRows_4, 4, 4, 4, 4, false)
DIRECT(directRows_8, 3, 8, 4, 4, false)
DIRECT(directSpread_1, 4, 1, 4, 4, true)
DIRECT(directSpread_2, 4, 2, 4, 4, true)
DIRECT(directSpread_4, 4, 4, 8, 4, true)

// y[m, i] = b[i] + sum over o of x[m, o] w[i, o]: one tap and K channels in, as the adjoint of a head has. A
// thread has 8 columns.
struct FewIn {
  int rows, columns, perBlock;
};
template <int K> FN void fewIn(bf16 *y, const bf16 *x, const bf16 *w, const float *bias, const FewIn &a) {
  constexpr int together = 4;
  const int perRow = a.columns / 8, column = threadIdx.x % perRow * 8, step = 256 / perRow;
  float weights[K][8], biases[8];
#pragma unroll
  for (int i = 0; i < 8; i++) {
    biases[i] = bias ? bias[column + i] : 0;
#pragma unroll
    for (int k = 0; k < K; k++) weights[k][i] = toFloat(w[(column + i) * K + k]);
  }
  const int end = min(a.rows, (int)(blockIdx.x + 1) * a.perBlock);
  for (int m0 = blockIdx.x * a.perBlock + threadIdx.x / perRow; m0 < end; m0 += together * step) {
    uint32_t pair[together][K / 2];
#pragma unroll
    for (int j = 0; j < together; j++)
#pragma unroll
      for (int k = 0; k < K / 2; k++) {
        const int m = m0 + j * step;
        pair[j][k] = m < end ? reinterpret_cast<const uint32_t *>(x)[(size_t)m * (K / 2) + k] : 0;
      }
#pragma unroll
    for (int j = 0; j < together; j++) {
      const int m = m0 + j * step;
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; i++) {
        v[i] = biases[i];
#pragma unroll
        for (int k = 0; k < K; k++) v[i] += asFloat(k % 2 ? pair[j][k / 2] & 0xffff0000u : pair[j][k / 2] << 16) * weights[k][i];
      }
      if (m < end) store(y + (size_t)m * a.columns + column, v);
    }
  }
}
KERNEL(256, 4, fewIn_2, (bf16 *y, const bf16 *x, const bf16 *w, const float *bias, FewIn a)) { fewIn<2>(y, x, w, bias, a); }
KERNEL(256, 4, fewIn_4, (bf16 *y, const bf16 *x, const bf16 *w, const float *bias, FewIn a)) { fewIn<4>(y, x, w, bias, a); }
