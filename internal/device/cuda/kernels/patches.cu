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
