// Products of matrices, and what goes row by row: softmax, and the rows of features that puzzles
// move, average and pair.
#include "tile.h"

// c (M, N) = op(a) op(b) + bias. Rows or columns that lie far apart in memory are read along the other
// axis. A long inner axis is split among blocks, so that few rows keep the whole GPU busy; sumSplits
// adds the parts up in a fixed order.
struct Matrix {
  int M, N, K, transA, transB;
  int perSplit, splits; // of K: perSplit is a multiple of 32
};

CONSTANT int matrixDepth = 32, matrixPitch = 72, matrixEach = 8; // elements of a thread

// MatrixTile is 32 x 64 elements of a matrix whose element (k, i) is at k * strideK + i * strideI, on their
// way through the registers of 256 threads. Along k eight threads read 32 bytes of a row, so that
// what they write meets two others in a bank at most.
struct MatrixTile {
  float value[matrixEach];

  // from the first element of the thread on; so many of k and of i are there
  FN_MEMBER void fetch(const float *p, bool alongK, int ks, int is, int stride) {
#pragma unroll
    for (int j = 0; j < matrixEach; j++) {
      const bool there = alongK ? ks > 8 * (j % 4) && is > 32 * (j / 4) : ks > 4 * j && is > 0;
      const size_t at = alongK ? (size_t)(32 * (j / 4)) * stride + 8 * (j % 4) : (size_t)(4 * j) * stride;
      value[j] = there ? p[at] : 0;
    }
  }
  FN_MEMBER void put(float *to, bool alongK) const {
    const int t = threadIdx.x;
    to += alongK ? t % 8 * matrixPitch + t / 8 : t / 64 * matrixPitch + t % 64;
#pragma unroll
    for (int j = 0; j < matrixEach; j++) to[alongK ? 8 * (j % 4) * matrixPitch + 32 * (j / 4) : 4 * j * matrixPitch] = value[j];
  }
};

template <class K> struct MatrixSums;
template <> struct MatrixSums<Fp32> {
  float sum[4][4] = {};
  FN_MEMBER void add(const float *a, const float *b) {
    for (int k = 0; k < matrixDepth; k++) {
      float p[4], q[4];
      load(p, a + k * matrixPitch + threadIdx.x / 16 * 4);
      load(q, b + k * matrixPitch + threadIdx.x % 16 * 4);
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] += p[i] * q[j];
    }
  }
  template <class F> FN_MEMBER void each(F f) const {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j += 2) f(threadIdx.x / 16 * 4 + i, threadIdx.x % 16 * 4 + j, sum[i][j], sum[i][j + 1]);
  }
};
template <> struct MatrixSums<Tf32> {
  float sum[4][4] = {}; // a warp has 16 x 32
  FN_MEMBER void add(const float *a, const float *b) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 16 + lane / 4, column = warp % 2 * 32 + lane / 4;
#pragma unroll
    for (int k = 0; k < matrixDepth; k += 8) {
      uint32_t left[4];
#pragma unroll
      for (int i = 0; i < 4; i++) left[i] = toTf32(a[(k + lane % 4 + i / 2 * 4) * matrixPitch + row + i % 2 * 8]);
#pragma unroll
      for (int t = 0; t < 4; t++) mmaTf32(sum[t], left, toTf32(b[(k + lane % 4) * matrixPitch + column + 8 * t]), toTf32(b[(k + lane % 4 + 4) * matrixPitch + column + 8 * t]));
    }
  }
  template <class F> FN_MEMBER void each(F f) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int t = 0; t < 4; t++)
#pragma unroll
      for (int i = 0; i < 4; i += 2) f(warp / 2 * 16 + lane / 4 + i / 2 * 8, warp % 2 * 32 + 8 * t + lane % 4 * 2, sum[t][i], sum[t][i + 1]);
  }
};

//	c (splits, M, N), with bias where there is one split       grid: x tiles of N, y tiles of M, z splits
template <class K> FN void matrix(float *c, const float *a, const float *b, const float *bias, const Matrix &m) {
  constexpr int tile = matrixDepth * matrixPitch;
  SHARED(float, shared); // twice both tiles: one pair is multiplied while the next is on its way
  const int n0 = blockIdx.x * 64, m0 = blockIdx.y * 64, begin = blockIdx.z * m.perSplit, end = min(m.K, begin + m.perSplit);
  const bool alongA = !m.transA, alongB = m.transB; // k lies together
  const int t = threadIdx.x, strideA = alongA ? m.K : m.M, strideB = alongB ? m.K : m.N;
  const int kA = alongA ? t % 8 : t / 64, iA = m0 + (alongA ? t / 8 : t % 64), kB = alongB ? t % 8 : t / 64, iB = n0 + (alongB ? t / 8 : t % 64);
  const float *fromA = a + (alongA ? (size_t)iA * strideA + begin + kA : (size_t)(begin + kA) * strideA + iA);
  const float *fromB = b + (alongB ? (size_t)iB * strideB + begin + kB : (size_t)(begin + kB) * strideB + iB);
  MatrixSums<K> sums;
  MatrixTile left, right;
  auto fetch = [&](int k) {
    left.fetch(fromA, alongA, end - k - kA, m.M - iA, strideA);
    right.fetch(fromB, alongB, end - k - kB, m.N - iB, strideB);
    fromA += alongA ? matrixDepth : (size_t)matrixDepth * strideA;
    fromB += alongB ? matrixDepth : (size_t)matrixDepth * strideB;
  };
  fetch(begin);
  float *now = shared, *other = shared + 2 * tile;
  for (int k = begin; k < end; k += matrixDepth) {
    left.put(now, alongA);
    right.put(now + tile, alongB);
    barrier(); // the pair is there, and nobody reads the one before it any more
    if (k + matrixDepth < end) fetch(k + matrixDepth);
    sums.add(now, now + tile);
    float *const swap = now;
    now = other, other = swap;
  }
  float *to = c + (size_t)blockIdx.z * m.M * m.N;
  const bool pairs = m.N % 2 == 0;
  sums.each([&](int i, int j, float v0, float v1) { // two neighbours
    if (m0 + i >= m.M || n0 + j >= m.N) return;
    if (bias && m.splits == 1) v0 += bias[n0 + j], v1 += n0 + j + 1 < m.N ? bias[n0 + j + 1] : 0;
    float *p = to + (size_t)(m0 + i) * m.N + n0 + j;
    if (pairs) {
      *reinterpret_cast<float2 *>(p) = {v0, v1};
    } else {
      p[0] = v0;
      if (n0 + j + 1 < m.N) p[1] = v1;
    }
  });
}
KERNEL(256, 4, matrix_fp32, (float *c, const float *a, const float *b, const float *bias, Matrix m)) { matrix<Fp32>(c, a, b, bias, m); }
KERNEL(256, 4, matrix_tf32, (float *c, const float *a, const float *b, const float *bias, Matrix m)) { matrix<Tf32>(c, a, b, bias, m); }

KERNEL(256, 4, sumSplits, (float *c, const float *from, const float *bias, Matrix m)) {
  const size_t n = (size_t)m.M * m.N, i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int s = 0; s < m.splits; s++) sum += from[s * n + i];
  c[i] = sum + (bias ? bias[i % m.N] : 0);
}

// --- Softmax over channels, which lie together: a thread a row

struct RowsOf {
  uint32_t rows;
  int columns;
};

template <class T> FN void rowStatistics(float &top, float &sum, const T *x, int columns) {
  top = toFloat(x[0]), sum = 0;
  for (int c = 1; c < columns; c++) {
    const float v = toFloat(x[c]);
    top = v > top || v != v ? v : top;
  }
  for (int c = 0; c < columns; c++) sum += expf(toFloat(x[c]) - top);
}
template <class T> FN void softmax(T *y, const T *x, const RowsOf &a) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i >= a.rows) return;
  const size_t at = (size_t)i * a.columns;
  float top, sum;
  rowStatistics(top, sum, x + at, a.columns);
  for (int c = 0; c < a.columns; c++) put(y + at + c, expf(toFloat(x[at + c]) - top) / sum);
}
template <class T> FN void softmaxGrad(T *dx, const T *y, const T *dy, const RowsOf &a) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i >= a.rows) return;
  const size_t at = (size_t)i * a.columns;
  float dot = 0;
  for (int c = 0; c < a.columns; c++) dot += toFloat(y[at + c]) * toFloat(dy[at + c]);
  for (int c = 0; c < a.columns; c++) put(dx + at + c, toFloat(y[at + c]) * (toFloat(dy[at + c]) - dot));
}
KERNEL(256, 4, softmax_f32, (float *y, const float *x, RowsOf a)) { softmax(y, x, a); }
KERNEL(256, 4, softmax_bf16, (bf16 *y, const bf16 *x, RowsOf a)) { softmax(y, x, a); }
KERNEL(256, 4, softmaxGrad_f32, (float *dx, const float *y, const float *dy, RowsOf a)) { softmaxGrad(dx, y, dy, a); }
KERNEL(256, 4, softmaxGrad_bf16, (bf16 *dx, const bf16 *y, const bf16 *dy, RowsOf a)) { softmaxGrad(dx, y, dy, a); }

// --- Rows of features

struct Rows {
  int in, out, columns;
};
KERNEL(256, 4, gatherRows, (float *y, const float *x, const float *index, Rows a)) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.out * a.columns) return;
  const int row = (int)index[i / a.columns];
  y[i] = row >= 0 && row < a.in ? x[(size_t)row * a.columns + i % a.columns] : asFloat(0x7fffffffu);
}
// every V elements of dx look for the rows that go to them: few, and added in their order
template <int V> FN void scatterRows(float *dx, const float *dy, const float *index, const Rows &a) {
  constexpr int list = 1024;
  SHARED(int, rows); // of the index, -1 past its end
  const size_t i = ((size_t)blockIdx.x * 256 + threadIdx.x) * V;
  const bool live = i < (size_t)a.in * a.columns;
  const int row = live ? (int)(i / a.columns) : -2, column = live ? (int)(i % a.columns) : 0;
  float sum[V] = {};
  for (int first = 0; first < a.out; first += list) {
    barrier(); // nobody reads the list any more
    for (int r = threadIdx.x; r < list; r += 256) rows[r] = first + r < a.out ? (int)index[first + r] : -1;
    barrier();
    const int count = min(list, (a.out - first + 3) / 4 * 4);
    for (int r = 0; r < count; r += 4) {
      const uint4 four = *reinterpret_cast<const uint4 *>(rows + r);
      const int to[4] = {(int)four.x, (int)four.y, (int)four.z, (int)four.w};
      if (to[0] != row && to[1] != row && to[2] != row && to[3] != row) continue;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        if (to[k] != row) continue;
        float v[V];
        load(v, dy + (size_t)(first + r + k) * a.columns + column);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] += v[j];
      }
    }
  }
  if (live) store(dx + i, sum);
}
KERNEL(256, 4, scatterRows_1, (float *dx, const float *dy, const float *index, Rows a)) { scatterRows<1>(dx, dy, index, a); }
KERNEL(256, 4, scatterRows_4, (float *dx, const float *dy, const float *index, Rows a)) { scatterRows<4>(dx, dy, index, a); }

struct Groups {
  int groups, rows, columns;
};
KERNEL(256, 4, meanOfOthers, (float *y, const float *x, Groups a)) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.groups * a.rows * a.columns) return;
  const int column = i % a.columns, row = i / a.columns % a.rows, group = i / a.columns / a.rows;
  float sum = 0;
  for (int r = 0; r < a.rows; r++)
    if (r != row) sum += x[((size_t)group * a.rows + r) * a.columns + column];
  y[i] = a.rows > 1 ? sum / (a.rows - 1) : 0;
}
KERNEL(256, 4, pairSum, (float *y, const float *p, const float *q, Groups a)) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.groups * a.rows * a.rows * a.columns) return;
  const size_t column = i % a.columns, pair = i / a.columns, group = pair / a.rows / a.rows;
  y[i] = p[pair / a.rows * a.columns + column] + q[(group * a.rows + pair % a.rows) * a.columns + column];
}
KERNEL(256, 4, pairSumGrad, (float *dp, float *dq, const float *dy, Groups a)) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.groups * a.rows * a.columns) return;
  const size_t column = i % a.columns, row = i / a.columns % a.rows, group = i / a.columns / a.rows;
  float p = 0, q = 0;
  for (size_t r = 0; r < (size_t)a.rows; r++) {
    p += dy[((group * a.rows + row) * a.rows + r) * a.columns + column];
    q += dy[((group * a.rows + r) * a.rows + row) * a.columns + column];
  }
  dp[i] = p, dq[i] = q;
}

// columnSums: of the softmax of the rows of each group, to (groups, columns); each row's largest element
// and sum of exponentials, to (groups rows, 2). One block a group.
KERNEL(128, 8, columnSums, (float *sums, float *statistics, const float *u, Groups a)) {
  const int group = blockIdx.x;
  for (int r = threadIdx.x; r < a.rows; r += 128) {
    const int row = group * a.rows + r;
    float top, sum;
    rowStatistics(top, sum, u + (size_t)row * a.columns, a.columns);
    statistics[2 * row] = top, statistics[2 * row + 1] = sum;
  }
  barrier(); // of the block, which alone reads what it wrote
  for (int c = threadIdx.x; c < a.columns; c += 128) {
    float sum = 0;
    for (int r = 0; r < a.rows; r++) {
      const int row = group * a.rows + r;
      sum += expf(u[(size_t)row * a.columns + c] - statistics[2 * row]) / statistics[2 * row + 1];
    }
    sums[group * a.columns + c] = sum;
  }
}
// columnSumLoss: one block
KERNEL(128, 8, columnSumLoss, (float *loss, const float *sums, const float *weights, Groups a)) {
  SHARED(float, shared);
  float total = 0, sum = 0;
  for (int g = threadIdx.x; g < a.groups; g += 128) total += weights[g];
  total = sumOfBlock<128>(total, shared);
  for (int i = threadIdx.x; i < a.groups * a.columns; i += 128) sum += total > 0 ? fabsf(sums[i] - 1) * (weights[i / a.columns] / total) : 0;
  sum = sumOfBlock<128>(sum, shared);
  if (threadIdx.x == 0) *loss = sum;
}
// columnSumLossGrad: one block a group
KERNEL(128, 8, columnSumLossGrad, (float *du, const float *u, const float *weights, const float *dloss, const float *sums, const float *statistics, Groups a)) {
  SHARED(float, shared);
  float total = 0;
  for (int g = threadIdx.x; g < a.groups; g += 128) total += weights[g];
  total = sumOfBlock<128>(total, shared);
  const int group = blockIdx.x;
  const float share = total > 0 ? weights[group] / total * *dloss : 0;
  for (int r = threadIdx.x; r < a.rows; r += 128) {
    const int row = group * a.rows + r;
    const size_t at = (size_t)row * a.columns;
    float dot = 0;
    for (int c = 0; c < a.columns; c++) dot += expf(u[at + c] - statistics[2 * row]) / statistics[2 * row + 1] * (sums[group * a.columns + c] < 1 ? -share : share);
    for (int c = 0; c < a.columns; c++)
      du[at + c] = expf(u[at + c] - statistics[2 * row]) / statistics[2 * row + 1] * ((sums[group * a.columns + c] < 1 ? -share : share) - dot);
  }
}
