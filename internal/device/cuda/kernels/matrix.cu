// Products of matrices, and what goes row by row: softmax, and the rows of features that puzzles
// move, average and pair.
#include "tile.h"

// c (M, N) = op(a) op(b) + bias. Rows or columns that lie far apart in memory are read along the other
// axis. A long inner axis is split among blocks, so that few rows keep the whole GPU busy; sumSplits
// adds the parts up in a fixed order.
struct Matrix {
  int M, N, K, transA, transB;
  int perSplit, splits; // of K: perSplit is a multiple of 16
};

CONSTANT int matrixDepth = 16, matrixPitch = 72;

// loadTile reads 16 x 64 elements of a matrix whose element (k, i) is at k * strideK + i * strideI
FN void loadTile(float *to, const float *from, int k0, int i0, int kEnd, int iEnd, size_t strideK, size_t strideI) {
  const bool alongK = strideK == 1;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int e = threadIdx.x + 256 * j, k = alongK ? e % 16 : e / 64, i = alongK ? e / 16 : e % 64;
    to[k * matrixPitch + i] = k0 + k < kEnd && i0 + i < iEnd ? from[(k0 + k) * strideK + (i0 + i) * strideI] : 0;
  }
}

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
      for (int j = 0; j < 4; j++) f(threadIdx.x / 16 * 4 + i, threadIdx.x % 16 * 4 + j, sum[i][j]);
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
      for (int i = 0; i < 4; i++) f(warp / 2 * 16 + lane / 4 + i / 2 * 8, warp % 2 * 32 + 8 * t + lane % 4 * 2 + i % 2, sum[t][i]);
  }
};

//	c (splits, M, N), with bias where there is one split       grid: x tiles of N, y tiles of M, z splits
template <class K> FN void matrix(float *c, const float *a, const float *b, const float *bias, const Matrix &m) {
  SHARED(float, shared);
  float *left = shared, *right = shared + matrixDepth * matrixPitch;
  const int n0 = blockIdx.x * 64, m0 = blockIdx.y * 64, begin = blockIdx.z * m.perSplit, end = min(m.K, begin + m.perSplit);
  const size_t ak = m.transA ? m.M : 1, ai = m.transA ? 1 : m.K, bk = m.transB ? 1 : m.N, bi = m.transB ? m.K : 1;
  MatrixSums<K> sums;
  for (int k = begin; k < end; k += matrixDepth) {
    barrier();
    loadTile(left, a, k, m0, end, m.M, ak, ai);
    loadTile(right, b, k, n0, end, m.N, bk, bi);
    barrier();
    sums.add(left, right);
  }
  float *to = c + (size_t)blockIdx.z * m.M * m.N;
  sums.each([&](int i, int j, float sum) {
    if (m0 + i < m.M && n0 + j < m.N) to[(size_t)(m0 + i) * m.N + n0 + j] = sum + (bias && m.splits == 1 ? bias[n0 + j] : 0);
  });
}
KERNEL(256, 2, matrix_fp32, (float *c, const float *a, const float *b, const float *bias, Matrix m)) { matrix<Fp32>(c, a, b, bias, m); }
KERNEL(256, 2, matrix_tf32, (float *c, const float *a, const float *b, const float *bias, Matrix m)) { matrix<Tf32>(c, a, b, bias, m); }

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
// every element of dx looks for the rows that go to it: few, and added in their order
KERNEL(256, 4, scatterRows, (float *dx, const float *dy, const float *index, Rows a)) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.in * a.columns) return;
  const int row = i / a.columns;
  float sum = 0;
  for (int r = 0; r < a.out; r++)
    if ((int)index[r] == row) sum += dy[(size_t)r * a.columns + i % a.columns];
  dx[i] = sum;
}

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
