// What follows a convolution: normalise, add, activate; and its gradient. The formulas are those of
// device.ActivateSpec.
//
//	z = gamma (x - mean) rstd + beta + r        y = act(z)
//
// Forward: moments of chunks (or of a convolution's tiles, which its epilogue leaves), their merger
// into statistics, one pass that applies. Gradient: one pass that sums, small kernels that turn the
// sums into two coefficients a channel, one pass that applies.
#include "channels.h"

struct Activate {
  Channels shape;
  int norm;     // 0 none, 1 instance, 2 batch, 3 group
  int groups;   // of group norm
  int act;      // 0 identity, 1 ReLU, 2 PReLU, 3 ELU, 4 leaky ReLU
  int residual; // 0 none, 1 full, 2 tiled
  float leak;   // slope of leaky ReLU
  int trained;  // 0: the statistics are constants
};

// statistic is the index of the mean of a channel of this block's image.
FN int statisticOf(const Activate &a, int image, int channel) {
  if (a.norm == 1) return image * a.shape.channels + channel;
  if (a.norm == 3) return image * a.groups + channel / (a.shape.channels / a.groups);
  return channel;
}

FN int statisticsOf(const Activate &a) { return a.norm == 1 ? a.shape.images * a.shape.channels : a.norm == 3 ? a.shape.images * a.groups : a.shape.channels; }

// --- Statistics

// moments of each channel of each chunk: to (images, chunks, channels)
template <class T, int V> FN void moments(Moments *to, const T *x, const Channels &a) {
  SHARED(float, shared);
  const Owner<V> o(a);
  // Sums of differences from the first value: they do not cancel where the mean is large.
  float origin[V] = {}, sum[V] = {}, squares[V] = {}, count = 0;
  for (int v = o.first; v < o.end; v += o.step) {
    float q[V];
    load(q, x + o.at(a, v));
#pragma unroll
    for (int i = 0; i < V; i++) {
      if (v == o.first) origin[i] = q[i];
      const float d = q[i] - origin[i];
      sum[i] += d;
      squares[i] += d * d;
    }
    count++;
  }
  // (count, mean, m2) of this thread, one of the three after the other through shared memory
  float mean[V], m2[V];
#pragma unroll
  for (int i = 0; i < V; i++) {
    const float d = count > 0 ? sum[i] / count : 0;
    mean[i] = origin[i] + d;
    m2[i] = squares[i] - d * sum[i];
  }
#pragma unroll
  for (int i = 0; i < V; i++) {
    shared[threadIdx.x * V + i] = mean[i];
    shared[(ownerThreads + threadIdx.x) * V + i] = m2[i];
  }
  barrier();
  const int n = min(a.voxels, (int)(blockIdx.x + 1) * a.chunk) - blockIdx.x * a.chunk;
  for (int i = threadIdx.x; i < o.slots * V; i += ownerThreads) {
    Moments all = {0, 0, 0};
    for (int r = 0; r < o.rows; r++) {
      const int voxels = (n - r + o.rows - 1) / o.rows; // that row r has seen
      if (n > r) all = merge(all, {(float)voxels, shared[r * o.slots * V + i], shared[(ownerThreads + r * o.slots) * V + i]});
    }
    to[((size_t)blockIdx.y * gridDim.x + blockIdx.x) * a.channels + o.channel - V * o.slot + i] = all;
  }
}

struct Finish {
  Activate activate;
  int tiles; // that an image's moments are of
  float epsilon, momentum;
};

// The moments (images, tiles, channels) that a statistic is merged from.
struct Items {
  int width, first, base, channels, count;

  FN_MEMBER Items(const Finish &f, int s) {
    const Activate &a = f.activate;
    channels = a.shape.channels, width = a.norm == 3 ? channels / a.groups : 1;
    first = a.norm == 1 ? s % channels : a.norm == 3 ? s % a.groups * width : s;
    base = a.norm == 1 ? s / channels * f.tiles : a.norm == 3 ? s / a.groups * f.tiles : 0;
    count = (a.norm == 2 ? a.shape.images : 1) * f.tiles * width;
  }
  FN_MEMBER Moments of(const Moments *from, int i) const { return from[(size_t)(base + i / width) * channels + first + i % width]; }
};

FN void writeStatistics(float *statistics, Moments m, const Finish &f, int s) {
  statistics[s] = m.mean;
  statistics[statisticsOf(f.activate) + s] = 1 / sqrtf(m.m2 / m.count + f.epsilon);
}

// normFinish: the statistics from moments (images, tiles, channels), merged in a fixed order. One
// block a statistic. Batch norm updates the running ones, or takes them where it does not train.
KERNEL(128, 8, normFinish, (float *statistics, float *runningMean, float *runningVariance, const Moments *from, Finish f)) {
  SHARED(float, shared);
  const Activate &a = f.activate;
  const int s = blockIdx.x, count = statisticsOf(a);
  if (a.norm == 2 && !a.trained) {
    if (threadIdx.x == 0) {
      statistics[s] = runningMean[s];
      statistics[count + s] = reciprocalRoot(runningVariance[s] + f.epsilon);
    }
    return;
  }
  Moments all = {0, 0, 0};
  const Items items(f, s);
  for (int i = threadIdx.x; i < items.count; i += 128) all = merge(all, items.of(from, i));
  float *n = shared, *mean = shared + 128, *m2 = shared + 256;
  n[threadIdx.x] = all.count, mean[threadIdx.x] = all.mean, m2[threadIdx.x] = all.m2;
  barrier();
  for (int half = 64; half; half /= 2) {
    if ((int)threadIdx.x < half) {
      const int i = threadIdx.x, j = i + half;
      all = merge({n[i], mean[i], m2[i]}, {n[j], mean[j], m2[j]});
      n[i] = all.count, mean[i] = all.mean, m2[i] = all.m2;
    }
    barrier();
  }
  if (threadIdx.x) return;
  writeStatistics(statistics, {n[0], mean[0], m2[0]}, f, s);
  if (a.norm != 2) return;
  runningMean[s] = (1 - f.momentum) * runningMean[s] + f.momentum * mean[0];
  runningVariance[s] = (1 - f.momentum) * runningVariance[s] + f.momentum * (m2[0] / (n[0] - 1));
}

// normFinishFew: the same for norms of one image with few moments each, a thread a statistic.
KERNEL(128, 8, normFinishFew, (float *statistics, const Moments *from, Finish f)) {
  const int s = blockIdx.x * 128 + threadIdx.x;
  if (s >= statisticsOf(f.activate)) return;
  Moments all = {0, 0, 0};
  const Items items(f, s);
  for (int i = 0; i < items.count; i++) all = merge(all, items.of(from, i));
  writeStatistics(statistics, all, f, s);
}

// --- One pass over memory

// What a thread knows of its channels.
template <int V> struct Affine {
  float mean[V], rstd[V], gamma[V], beta[V], slope[V];

  FN_MEMBER Affine(const Activate &a, const Owner<V> &o, const float *statistics, const float *g, const float *b, const float *s) {
    const int count = statisticsOf(a);
#pragma unroll
    for (int i = 0; i < V; i++) {
      const int c = o.channel + i, k = statisticOf(a, blockIdx.y, c);
      const bool there = o.active;
      mean[i] = there && a.norm ? statistics[k] : 0;
      rstd[i] = there && a.norm ? statistics[count + k] : 1;
      gamma[i] = there && a.norm ? g[c] : 1;
      beta[i] = there && a.norm ? b[c] : 0;
      slope[i] = there && a.act == 2 ? s[c] : a.leak;
    }
  }

  FN_MEMBER float normalised(int i, float x) const { return (x - mean[i]) * rstd[i]; }
};

FN float activated(const Activate &a, float z, float slope) {
  if (a.act == 0 || z > 0) return z;
  return a.act == 1 ? 0 * z : a.act == 3 ? expm1f(z) : slope * z;
}

FN float derivative(const Activate &a, float z, float slope) {
  if (a.act == 0 || z > 0) return 1;
  return a.act == 1 ? 0 : a.act == 3 ? expf(z) : slope;
}

// the residual of V channels of a voxel
template <class T, int V> FN void loadResidual(float (&q)[V], const Activate &a, const Owner<V> &o, const T *r, int voxel) {
  if (a.residual == 1) {
    load(q, r + o.at(a.shape, voxel));
  } else {
    const float one = a.residual == 2 ? toFloat(r[(size_t)blockIdx.y * a.shape.voxels + voxel]) : 0;
#pragma unroll
    for (int i = 0; i < V; i++) q[i] = one;
  }
}

template <class T, int V> FN void activate(T *y, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  const Owner<V> o(a.shape);
  const Affine<V> c(a, o, statistics, gamma, beta, slope);
  for (int v = o.first; v < o.end; v += o.step) {
    float q[V], add[V];
    load(q, x + o.at(a.shape, v));
    loadResidual(add, a, o, r, v);
#pragma unroll
    for (int i = 0; i < V; i++) q[i] = activated(a, c.normalised(i, q[i]) * c.gamma[i] + c.beta[i] + add[i], c.slope[i]);
    store(y + o.at(a.shape, v), q);
  }
}

// --- The gradient

// Sums over the voxels of each channel of each chunk, to (images, chunks, channels, 4): of dz, of
// dz n, of dy z where z <= 0, of n; n is the normalised x.
template <class T, int V> FN void activateSums(float *to, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  SHARED(float, shared);
  const Owner<V> o(a.shape);
  const Affine<V> c(a, o, statistics, gamma, beta, slope);
  float sums[4][V] = {};
  for (int v = o.first; v < o.end; v += o.step) {
    float q[V], d[V], add[V];
    load(q, x + o.at(a.shape, v));
    load(d, dy + o.at(a.shape, v));
    loadResidual(add, a, o, r, v);
#pragma unroll
    for (int i = 0; i < V; i++) {
      const float n = c.normalised(i, q[i]), z = n * c.gamma[i] + c.beta[i] + add[i], dz = d[i] * derivative(a, z, c.slope[i]);
      sums[0][i] += dz;
      sums[1][i] += dz * n;
      sums[2][i] += z > 0 ? 0 : d[i] * z;
      sums[3][i] += n;
    }
  }
  addRows<V, 4>(to + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * a.shape.channels * 4, o, sums, shared);
}

// sumTiles: to (outer, inner) = the sum over the middle axis of from (outer, tiles, inner, stride),
// element offset of each stride. A block has 8 neighbouring elements, and 32 threads for each, which
// take every 32nd tile; their sums are added in order.
struct SumTiles {
  int tiles, inner, stride, offset;
};
CONSTANT int sumTilesWidth = 8, sumTilesRows = 32;

//	grid: x blocks of inner elements, y outer
KERNEL(256, 8, sumTiles, (float *to, const float *from, SumTiles a)) {
  SHARED(float, shared);
  const int inner = blockIdx.x * sumTilesWidth + threadIdx.x % sumTilesWidth;
  float sum = 0;
  if (inner < a.inner)
    for (int t = threadIdx.x / sumTilesWidth; t < a.tiles; t += sumTilesRows) sum += from[(((size_t)blockIdx.y * a.tiles + t) * a.inner + inner) * a.stride + a.offset];
  shared[threadIdx.x] = sum;
  barrier();
  if ((int)threadIdx.x >= sumTilesWidth || inner >= a.inner) return;
  for (int r = 1; r < sumTilesRows; r++) sum += shared[r * sumTilesWidth + threadIdx.x];
  to[(size_t)blockIdx.y * a.inner + inner] = sum;
}

// normGrad: from the sums (images, channels, 4) the two coefficients of dx and the sum of dx, to
// (images, channels, 3).
//
//	dx = rstd gamma dz - k0 - n k1
KERNEL(128, 8, normGrad, (float *to, const float *sums, const float *dgamma, const float *dbeta, const float *statistics, const float *gamma, Activate a)) {
  const int i = blockIdx.x * 128 + threadIdx.x, C = a.shape.channels;
  if (i >= a.shape.images * C) return;
  const int image = i / C, c = i % C;
  float k0 = 0, k1 = 0, rstd = 1, g = 1;
  if (a.norm) {
    rstd = statistics[statisticsOf(a) + statisticOf(a, image, c)], g = gamma[c];
    const float voxels = (float)a.shape.voxels;
    if (a.norm == 1) {
      k0 = g * sums[4 * i] / voxels, k1 = g * sums[4 * i + 1] / voxels;
    } else if (a.norm == 3) {
      const int width = C / a.groups, first = image * C + c / width * width;
      for (int j = first; j < first + width; j++) k0 += gamma[j - image * C] * sums[4 * j], k1 += gamma[j - image * C] * sums[4 * j + 1];
      k0 /= width * voxels, k1 /= width * voxels;
    } else if (a.trained) {
      k0 = g * dbeta[c] / (a.shape.images * voxels), k1 = g * dgamma[c] / (a.shape.images * voxels);
    }
    k0 *= rstd, k1 *= rstd;
  }
  to[3 * i] = k0, to[3 * i + 1] = k1;
  to[3 * i + 2] = rstd * g * sums[4 * i] - a.shape.voxels * k0 - k1 * sums[4 * i + 3];
}

// dx and, where dr is not null, the gradient of a full residual
template <class T, int V> FN void activateGrad(T *dx, T *dr, const T *dy, const T *x, const T *r, const float *coefficients, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  const Owner<V> o(a.shape);
  const Affine<V> c(a, o, statistics, gamma, beta, slope);
  float k0[V], k1[V];
#pragma unroll
  for (int i = 0; i < V; i++) {
    const float *k = coefficients + 3 * (blockIdx.y * a.shape.channels + o.channel + i);
    k0[i] = o.active && a.norm ? k[0] : 0, k1[i] = o.active && a.norm ? k[1] : 0;
  }
  for (int v = o.first; v < o.end; v += o.step) {
    float q[V], d[V], add[V];
    load(q, x + o.at(a.shape, v));
    load(d, dy + o.at(a.shape, v));
    loadResidual(add, a, o, r, v);
#pragma unroll
    for (int i = 0; i < V; i++) {
      const float n = c.normalised(i, q[i]), z = n * c.gamma[i] + c.beta[i] + add[i];
      d[i] *= derivative(a, z, c.slope[i]);
      q[i] = a.norm ? c.rstd[i] * c.gamma[i] * d[i] - k0[i] - n * k1[i] : d[i];
    }
    if (dr) store(dr + o.at(a.shape, v), d);
    store(dx + o.at(a.shape, v), q);
  }
}

// the gradient of a tiled residual: dr (images, voxels) = the sum of dz over the channels
template <class T, int V> FN void tiledGrad(T *dr, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.shape.images * a.shape.voxels) return;
  const int image = i / a.shape.voxels, C = a.shape.channels, count = statisticsOf(a);
  const float add = toFloat(r[i]);
  float sum = 0;
  for (int first = 0; first < C; first += V) {
    float q[V], d[V];
    load(q, x + i * C + first);
    load(d, dy + i * C + first);
#pragma unroll
    for (int j = 0; j < V; j++) {
      const int c = first + j;
      float z = q[j];
      if (a.norm) {
        const int k = statisticOf(a, image, c);
        z = (z - statistics[k]) * statistics[count + k] * gamma[c] + beta[c];
      }
      sum += d[j] * derivative(a, z + add, a.act == 2 ? slope[c] : a.leak);
    }
  }
  put(dr + i, sum);
}

// --- For each type of activations, with 16 bytes at a time (V > 1) and with any number of channels

#define ACTIVATE(T, V, suffix)                                                                                                                                        \
  KERNEL(256, 4, moments##suffix, (Moments *to, const T *x, Channels a)) { moments<T, V>(to, x, a); }                                                                 \
  KERNEL(256, 3, activate##suffix, (T *y, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, Activate a)) {  \
    activate<T, V>(y, x, r, statistics, gamma, beta, slope, a);                                                                                                       \
  }                                                                                                                                                                   \
  KERNEL(256, 2, activateSums##suffix,                                                                                                                                \
         (float *to, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, Activate a)) {          \
    activateSums<T, V>(to, dy, x, r, statistics, gamma, beta, slope, a);                                                                                              \
  }                                                                                                                                                                   \
  KERNEL(256, 2, activateGrad##suffix,                                                                                                                                \
         (T *dx, T *dr, const T *dy, const T *x, const T *r, const float *coefficients, const float *statistics, const float *gamma, const float *beta,              \
          const float *slope, Activate a)) {                                                                                                                          \
    activateGrad<T, V>(dx, dr, dy, x, r, coefficients, statistics, gamma, beta, slope, a);                                                                            \
  }                                                                                                                                                                   \
  KERNEL(256, 4, tiledGrad##suffix,                                                                                                                                   \
         (T *dr, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, Activate a)) {              \
    tiledGrad<T, V>(dr, dy, x, r, statistics, gamma, beta, slope, a);                                                                                                 \
  }
ACTIVATE(float, 1, _f32_1)
ACTIVATE(float, 4, _f32_4)
ACTIVATE(bf16, 1, _bf16_1)
ACTIVATE(bf16, 8, _bf16_8)

