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

// mergeRows merges the moments of the rows of a block and gives those of each channel to write:
// mean and m2 of n voxels, of which this thread has seen every so many from its row on. Shared
// memory: 2 (256 V + 256) floats.
template <int V, class Write> FN void mergeRows(const Write &write, const Owner<V> &o, const float (&mean)[V], const float (&m2)[V], int n, float *shared) {
  constexpr int all = ownerThreads * V;
  const Columns c(o.slots * V);
  keep(shared + threadIdx.x * V, mean), keep(shared + all + threadIdx.x * V, m2);
  barrier();
  // what the rows from first on, every so many, have seen of a column
  auto rowsFrom = [&](int column, int first, int step) {
    Moments some = {0, 0, 0};
    for (int r = first; r < o.rows && r < n; r += step) some = merge(some, {(float)((n - r + o.rows - 1) / o.rows), shared[r * c.width + column], shared[all + r * c.width + column]});
    return some;
  };
  if (c.parts == 1) {
    for (int i = threadIdx.x; i < c.width; i += ownerThreads) write(o.base() + i, rowsFrom(i, 0, 1));
    return;
  }
  Moments some = {0, 0, 0};
  if (c.part < c.parts) some = rowsFrom(c.column, c.part, c.parts);
  barrier();
  float *const count = shared, *const means = shared + ownerThreads, *const m2s = shared + 2 * ownerThreads;
  count[threadIdx.x] = some.count, means[threadIdx.x] = some.mean, m2s[threadIdx.x] = some.m2;
  barrier();
  if ((int)threadIdx.x >= c.width) return;
  for (int p = 1; p < c.parts; p++) {
    const int i = p * c.width + threadIdx.x;
    some = merge(some, {count[i], means[i], m2s[i]});
  }
  write(o.base() + threadIdx.x, some);
}

// momentsOf gives the moments of each channel of the block's chunk to write.
template <class T, int V, class Write> FN void momentsOf(const Write &write, const T *x, const Owner<V> &o, const Channels &a, float *shared) {
  constexpr int U = 4; // voxels on their way at a time
  // Sums of differences from the first value: they do not cancel where the mean is large.
  float origin[V] = {}, sum[V] = {}, squares[V] = {}, count = 0;
  if (o.first < o.end) {
    Raw<T, V> q;
    q.load(x + o.at(a, o.first), true);
#pragma unroll
    for (int i = 0; i < V; i++) origin[i] = q.at(i);
  }
  for (int v = o.first; v < o.end; v += U * o.step) {
    Raw<T, V> q[U];
#pragma unroll
    for (int u = 0; u < U; u++) q[u].load(x + o.at(a, v + u * o.step), v + u * o.step < o.end);
#pragma unroll
    for (int u = 0; u < U; u++) {
      if (v + u * o.step >= o.end) break;
#pragma unroll
      for (int i = 0; i < V; i++) {
        const float d = q[u].at(i) - origin[i];
        sum[i] += d;
        squares[i] += d * d;
      }
      count++;
    }
  }
  float mean[V], m2[V];
#pragma unroll
  for (int i = 0; i < V; i++) {
    const float d = count > 0 ? sum[i] / count : 0;
    mean[i] = origin[i] + d;
    m2[i] = squares[i] - d * sum[i];
  }
  const int n = min(a.voxels, (o.chunk + 1) * a.chunk) - o.chunk * a.chunk;
  mergeRows(write, o, mean, m2, n, shared);
}

// moments of each channel of each chunk: to (images, chunks, channels)
template <class T, int V> FN void moments(Moments *to, const T *x, const Channels &a) {
  SHARED(float, shared);
  const Owner<V> o(a);
  to += ((size_t)o.image * gridDim.x + o.chunk) * a.channels;
  momentsOf([&](int channel, Moments m) { to[channel] = m; }, x, o, a, shared);
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

FN float activated(const Activate &a, float z, float slope) {
  if (z > 0) return z;
  return a.act == 3 ? expm1f(z) : slope * z;
}

FN float derivative(const Activate &a, float z, float slope) {
  if (z > 0) return 1;
  return a.act == 3 ? expf(z) : slope;
}

FN float slopeOf(const Activate &a, const float *slope, int c) { return a.act == 2 ? slope[c] : a.act == 0 ? 1 : a.act == 1 ? 0 : a.leak; }

// V floats, 16 bytes at a time where V > 1: the first is at a multiple of V
template <int V> FN void loadSome(float (&v)[V], const float *p) {
  if constexpr (V == 1) {
    v[0] = *p;
  } else {
#pragma unroll
    for (int i = 0; i < V; i += 4) {
      const float4 q = *reinterpret_cast<const float4 *>(p + i);
      v[i] = q.x, v[i + 1] = q.y, v[i + 2] = q.z, v[i + 3] = q.w;
    }
  }
}
template <int V> FN void fill(float (&v)[V], float x) {
#pragma unroll
  for (int i = 0; i < V; i++) v[i] = x;
}

// What a thread knows of its channels: z = scale u + shift + r, u = x - centre. Where x is a
// bfloat16 the centre is 0: rounding it has moved x further than a shift in float32 can be wrong.
// All activations but ELU are slopes: that of z where z is not positive. groups: there may be a
// group norm.
template <class T, int V, bool groups = false> struct Affine {
  CONSTANT bool centred = sizeof(T) == 4;
  float scale[V], shift[V], slope[V], centre[centred ? V : 1];

  FN_MEMBER Affine(const Activate &a, const Owner<V> &o, const float *statistics, const float *g, const float *b, const float *s) {
    float mean[V] = {}, rstd[V];
    fill(scale, 1), fill(shift, 0), fill(slope, a.act == 0 ? 1 : a.act == 1 ? 0 : a.leak);
    if (a.norm && o.active) {
      const int count = statisticsOf(a);
      loadSome(scale, g + o.channel), loadSome(shift, b + o.channel);
      if (groups && a.norm == 3) {
#pragma unroll
        for (int i = 0; i < V; i++) {
          const int k = statisticOf(a, o.image, o.channel + i);
          mean[i] = statistics[k], rstd[i] = statistics[count + k];
        }
      } else {
        const float *from = statistics + (a.norm == 1 ? o.image * a.shape.channels : 0) + o.channel;
        loadSome(mean, from), loadSome(rstd, from + count);
      }
#pragma unroll
      for (int i = 0; i < V; i++) scale[i] *= rstd[i];
    }
    if (a.act == 2 && o.active) loadSome(slope, s + o.channel);
#pragma unroll
    for (int i = 0; i < V; i++) {
      if constexpr (centred)
        centre[i] = mean[i];
      else
        shift[i] -= scale[i] * mean[i];
    }
  }

  FN_MEMBER float difference(int i, float x) const {
    if constexpr (centred) return x - centre[i];
    return x;
  }
};

// Residuals: none, full, tiled, as Activate has them; tiled, whose gradient is made; and whatever
// it is, in the kernels that also know ELU and group norm, and take more registers.
CONSTANT int tiledResidual = 2, tiledGradient = 3, anyResidual = 4;

// the residual of V channels of a voxel
template <class T, int V, int kind> struct Residual {
  CONSTANT bool whole = kind == 1 || kind == anyResidual, tiled = kind >= tiledResidual;
  Raw<T, whole ? V : 1> full;
  float one;

  FN_MEMBER void load(const Activate &a, const Owner<V> &o, const T *r, int voxel, bool there) {
    one = 0;
    if (whole && (kind == 1 || a.residual == 1)) full.load(r + o.at(a.shape, voxel), there);
    if (tiled && (kind != anyResidual || a.residual == 2) && there) one = toFloat(r[(size_t)o.image * a.shape.voxels + voxel]);
  }
  FN_MEMBER float added(const Activate &a, int i, float z) const {
    if constexpr (kind == 0) return z;
    if constexpr (kind == 1) return z + full.at(i);
    if constexpr (!whole) return z + one;
    return a.residual == 1 ? z + full.at(whole ? i : 0) : z + one;
  }
};

template <int kind, class T, int V, bool groups> FN void activateVoxels(T *y, const T *x, const T *r, const Affine<T, V, groups> &c, const Owner<V> &o, const Activate &a) {
  constexpr int U = kind == anyResidual ? 1 : kind == 0 ? 4 : 2; // voxels on their way at a time
  for (int v = o.first; v < o.end; v += U * o.step) {
    Raw<T, V> q[U];
    Residual<T, V, kind> add[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int w = v + u * o.step;
      q[u].load(x + o.at(a.shape, w), w < o.end);
      add[u].load(a, o, r, w, w < o.end);
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int w = v + u * o.step;
      float to[V];
#pragma unroll
      for (int i = 0; i < V; i++) {
        const float z = add[u].added(a, i, c.difference(i, q[u].at(i)) * c.scale[i] + c.shift[i]);
        to[i] = kind == anyResidual ? activated(a, z, c.slope[i]) : z > 0 ? z : c.slope[i] * z;
      }
      if (w < o.end) store(y + o.at(a.shape, w), to);
    }
  }
}

template <bool any, class T, int V> FN void activate(T *y, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  const Owner<V> o(a.shape, true);
  const Affine<T, V, any> c(a, o, statistics, gamma, beta, slope);
  if (any) return activateVoxels<anyResidual>(y, x, r, c, o, a);
  switch (a.residual) {
  case 0: return activateVoxels<0>(y, x, r, c, o, a);
  case 1: return activateVoxels<1>(y, x, r, c, o, a);
  default: return activateVoxels<2>(y, x, r, c, o, a);
  }
}

// imageActivate: statistics, too, for instance norm of small images. A block has some channels of a
// whole image; what it reads the second time is still in a cache.
template <class T, int V> FN void imageActivate(T *y, float *statistics, const T *x, const T *r, const float *gamma, const float *beta, const float *slope, const Finish &f) {
  SHARED(float, shared);
  const Activate &a = f.activate;
  const Owner<V> o(a.shape);
  momentsOf([&](int channel, Moments m) { writeStatistics(statistics, m, f, o.image * a.shape.channels + channel); }, x, o, a.shape, shared);
  barrier(); // the block's statistics are there
  const Affine<T, V> c(a, o, statistics, gamma, beta, slope);
  switch (a.residual) {
  case 0: return activateVoxels<0>(y, x, r, c, o, a);
  case 1: return activateVoxels<1>(y, x, r, c, o, a);
  default: return activateVoxels<2>(y, x, r, c, o, a);
  }
}

// --- The gradient

// What is summed over the voxels of a channel: dz, dz u, dy z where z <= 0, and for group norm u.
CONSTANT int gradSums = 4;

template <int kind, int K, class T, int V, bool groups> FN void sumVoxels(float (&sums)[K][V], const T *dy, const T *x, const T *r, const Affine<T, V, groups> &c, const Owner<V> &o, const Activate &a) {
  constexpr int U = kind == anyResidual || kind == 1 ? 1 : 2; // voxels on their way at a time
  for (int v = o.first; v < o.end; v += U * o.step) {
    Raw<T, V> q[U], d[U];
    Residual<T, V, kind> add[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int w = v + u * o.step;
      q[u].load(x + o.at(a.shape, w), w < o.end);
      d[u].load(dy + o.at(a.shape, w), w < o.end); // dy = 0 adds nothing
      add[u].load(a, o, r, w, w < o.end);
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int w = v + u * o.step;
#pragma unroll
      for (int i = 0; i < V; i++) {
        const float n = c.difference(i, q[u].at(i)), z = add[u].added(a, i, n * c.scale[i] + c.shift[i]), g = d[u].at(i);
        const float dz = kind == anyResidual ? g * derivative(a, z, c.slope[i]) : z > 0 ? g : g * c.slope[i];
        sums[0][i] += dz;
        sums[1][i] += dz * n;
        sums[2][i] += g * (z > 0 ? 0 : z);
        if constexpr (K > 3) sums[3][i] += w < o.end ? n : 0;
      }
    }
  }
}

template <bool any, int K, class T, int V, bool groups> FN void sumsOf(float (&sums)[K][V], const T *dy, const T *x, const T *r, const Affine<T, V, groups> &c, const Owner<V> &o, const Activate &a) {
  if (any) return sumVoxels<anyResidual>(sums, dy, x, r, c, o, a);
  switch (a.residual) {
  case 0: return sumVoxels<0>(sums, dy, x, r, c, o, a);
  case 1: return sumVoxels<1>(sums, dy, x, r, c, o, a);
  default: return sumVoxels<2>(sums, dy, x, r, c, o, a);
  }
}

// the sums of each channel of each chunk, to (images, chunks, 4, channels)
template <bool any, class T, int V> FN void activateSums(float *to, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  SHARED(float, shared);
  const Owner<V> o(a.shape, true);
  constexpr int K = any ? gradSums : 3;
  float sums[K][V] = {};
  sumsOf<any>(sums, dy, x, r, Affine<T, V, any>(a, o, statistics, gamma, beta, slope), o, a);
  addRows(to + ((size_t)o.image * gridDim.x + o.chunk) * a.shape.channels * gradSums, a.shape.channels, o, sums, shared);
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

// How the sums of a channel become what is wanted.
struct GradSums {
  Activate activate;
  int tiles;   // that are summed: of an image, or of all
  int last;    // the sums are those of the parameters
  int centred; // u is x - mean, or x
};

// Of the sums of a channel, dx = scale dz + factor u + offset, and the sums of dz, dz n, dy z where
// z <= 0, dx, n = (x - mean) rstd. The sum of n is 0: statistics are those of x, or constants.
struct Gradient {
  float factor, offset, sums[gradSums];

  FN_MEMBER Gradient(const Activate &a, bool centred, int image, int c, const float *s, const float *statistics, const float *gamma) {
    float mean = 0, rstd = 1, g = 1;
    if (a.norm) {
      const int k = statisticOf(a, image, c);
      mean = statistics[k], rstd = statistics[statisticsOf(a) + k], g = gamma[c];
    }
    const float from = centred ? 0 : mean, count = (float)a.shape.voxels * (a.norm == 2 ? a.shape.images : 1);
    const float dzn = rstd * (s[1] - from * s[0]);
    const bool moves = a.norm && a.norm != 3 && a.trained;
    const float k0 = moves ? rstd * g * s[0] / count : 0, k1 = moves ? rstd * g * dzn / count : 0;
    factor = -k1 * rstd, offset = -k0 - factor * from;
    sums[0] = s[0], sums[1] = dzn, sums[2] = s[2];
    sums[3] = moves ? 0 : rstd * g * s[0];
    if (a.norm == 3) sums[3] = rstd * (s[3] - from * a.shape.voxels); // of n: groupGrad wants it
  }
};

// normGrad sums up parts (outer, tiles, 4, channels). It leaves the two coefficients of dx (outer,
// 2, channels), and where it is the last to sum, the gradients of the parameters, or else sums
// (outer, 4, channels).
//
//	grid: x blocks of 8 channels, y outer; a block has 32 threads for each channel, which take
//	every 32nd tile
KERNEL(256, 4, normGrad, (float *coefficients, float *each, float *dbeta, float *dgamma, float *dslope, float *sum, const float *parts, const float *statistics, const float *gamma, GradSums f)) {
  SHARED(float, shared);
  const Activate &a = f.activate;
  const int C = a.shape.channels, column = threadIdx.x % 8, c = blockIdx.x * 8 + column, image = blockIdx.y;
  float s[gradSums] = {};
  if (c < C) {
    const float *from = parts + (size_t)image * f.tiles * gradSums * C + c;
#pragma unroll 4
    for (int t = threadIdx.x / 8; t < f.tiles; t += 32) {
#pragma unroll
      for (int k = 0; k < 3; k++) s[k] += from[((size_t)t * gradSums + k) * C];
      if (a.norm == 3) s[3] += from[((size_t)t * gradSums + 3) * C];
    }
  }
#pragma unroll
  for (int k = 0; k < gradSums; k++) shared[256 * k + threadIdx.x] = s[k];
  barrier();
  float total = 0;
  if (threadIdx.x < 8 * gradSums)
    for (int row = 0; row < 32; row++) total += shared[threadIdx.x / 8 * 256 + row * 8 + column];
  barrier();
  shared[threadIdx.x] = total; // of sum threadIdx.x / 8
  barrier();
  if (threadIdx.x >= 8 || c >= C) return;
#pragma unroll
  for (int k = 0; k < gradSums; k++) s[k] = shared[8 * k + column];
  const Gradient g(a, f.centred, image, c, s, statistics, gamma);
  if (a.norm) coefficients[(size_t)2 * image * C + c] = g.factor, coefficients[(size_t)(2 * image + 1) * C + c] = g.offset;
  if (!f.last) {
#pragma unroll
    for (int k = 0; k < gradSums; k++) each[((size_t)image * gradSums + k) * C + c] = g.sums[k];
    return;
  }
  if (dbeta) dbeta[c] = g.sums[0];
  if (dgamma) dgamma[c] = g.sums[1];
  if (dslope) dslope[c] = g.sums[2];
  sum[c] = g.sums[3];
}

// groupGrad: the same coefficients for group norm, whose statistics are of several channels. Of the
// sums of n it makes those of dx.
KERNEL(128, 8, groupGrad, (float *coefficients, float *each, const float *statistics, const float *gamma, GradSums f)) {
  const Activate &a = f.activate;
  const int i = blockIdx.x * 128 + threadIdx.x, C = a.shape.channels;
  if (i >= a.shape.images * C) return;
  const int image = i / C, c = i % C, width = C / a.groups, first = c / width * width, k = statisticOf(a, image, c);
  float *const s = each + (size_t)image * gradSums * C;
  const float mean = statistics[k], rstd = statistics[statisticsOf(a) + k], voxels = (float)a.shape.voxels;
  float k0 = 0, k1 = 0;
  for (int j = first; j < first + width; j++) k0 += gamma[j] * s[j], k1 += gamma[j] * s[C + j];
  k0 *= rstd / (width * voxels), k1 *= rstd / (width * voxels);
  const float factor = -k1 * rstd;
  coefficients[(size_t)2 * image * C + c] = factor, coefficients[(size_t)(2 * image + 1) * C + c] = -k0 - (f.centred ? 0 : factor * mean);
  s[3 * C + c] = rstd * gamma[c] * s[c] - voxels * k0 - k1 * s[3 * C + c];
}

// sumImages: the gradients of the parameters are the sums over the images of each (images, 4,
// channels). Blocks as those of normGrad.
KERNEL(256, 4, sumImages, (float *dbeta, float *dgamma, float *dslope, float *sum, const float *each, Channels a)) {
  SHARED(float, shared);
  const int C = a.channels, column = threadIdx.x % 8, c = blockIdx.x * 8 + column;
  float s[gradSums] = {};
  if (c < C)
#pragma unroll 4
    for (int t = threadIdx.x / 8; t < a.images; t += 32)
#pragma unroll
      for (int k = 0; k < gradSums; k++) s[k] += each[((size_t)t * gradSums + k) * C + c];
#pragma unroll
  for (int k = 0; k < gradSums; k++) shared[256 * k + threadIdx.x] = s[k];
  barrier();
  if (threadIdx.x >= 8 * gradSums || c >= C) return;
  const int k = threadIdx.x / 8;
  float total = 0;
  for (int row = 0; row < 32; row++) total += shared[k * 256 + row * 8 + column];
  float *const to = k == 0 ? dbeta : k == 1 ? dgamma : k == 2 ? dslope : sum;
  if (to) to[c] = total;
}

// What a thread knows besides of dx = scale dz + factor u + offset.
template <int V> struct Coefficients {
  float factor[V], offset[V];
};

// dx and the gradient of a residual: of a full one where dr is not null; of a tiled one, which is
// the sum of dz over the channels of a voxel, where these are of one block and their owners are a
// power of 2, at most a warp. U voxels are on their way at a time.
template <int kind, int U, class T, int V, bool groups> FN void gradVoxels(T *dx, T *dr, const T *dy, const T *x, const T *r, const Affine<T, V, groups> &c, const Coefficients<V> &k, const Owner<V> &o, const Activate &a) {
  constexpr bool tiled = kind == tiledGradient;
  // all lanes of a warp that add up a voxel go on together
  for (int v = o.first; v < (tiled ? o.end + o.row : o.end); v += U * o.step) {
    Raw<T, V> q[U], d[U];
    Residual<T, V, kind> add[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int w = v + u * o.step;
      q[u].load(x + o.at(a.shape, w), w < o.end);
      d[u].load(dy + o.at(a.shape, w), w < o.end);
      add[u].load(a, o, r, w, w < o.end);
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
      const int w = v + u * o.step;
      float to[V], dz[V], sum = 0;
#pragma unroll
      for (int i = 0; i < V; i++) {
        const float n = c.difference(i, q[u].at(i)), z = add[u].added(a, i, n * c.scale[i] + c.shift[i]), g = d[u].at(i);
        dz[i] = kind == anyResidual ? g * derivative(a, z, c.slope[i]) : z > 0 ? g : g * c.slope[i];
        to[i] = c.scale[i] * dz[i] + (k.factor[i] * n + k.offset[i]);
        if (tiled) sum += dz[i];
      }
      if constexpr (tiled) {
        for (int lanes = 1; lanes < o.slots; lanes *= 2) sum += shuffleXor(sum, lanes);
        if (o.slot == 0 && w < o.end) put(dr + (size_t)o.image * a.shape.voxels + w, sum);
      }
      if (w < o.end) {
        if ((kind == 1 || kind == anyResidual && a.residual == 1) && dr) store(dr + o.at(a.shape, w), dz);
        store(dx + o.at(a.shape, w), to);
      }
    }
  }
}

// the kind of a loop, or, where it is less than 0, that of the residual
CONSTANT int byResidual = -1;

template <int kind, class T, int V, bool groups> FN void gradOf(T *dx, T *dr, const T *dy, const T *x, const T *r, const Affine<T, V, groups> &c, const Coefficients<V> &k, const Owner<V> &o, const Activate &a) {
  if constexpr (kind != byResidual) return gradVoxels<kind, kind == tiledGradient ? 4 : 1>(dx, dr, dy, x, r, c, k, o, a);
  switch (a.residual) {
  case 0: return gradVoxels<0, 2>(dx, dr, dy, x, r, c, k, o, a);
  case 1: return gradVoxels<1, 1>(dx, dr, dy, x, r, c, k, o, a);
  default: return gradVoxels<2, 2>(dx, dr, dy, x, r, c, k, o, a);
  }
}

template <int kind, class T, int V> FN void activateGrad(T *dx, T *dr, const T *dy, const T *x, const T *r, const float *coefficients, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  const Owner<V> o(a.shape);
  const Affine<T, V, kind == anyResidual> c(a, o, statistics, gamma, beta, slope);
  Coefficients<V> k;
  fill(k.factor, 0), fill(k.offset, 0);
  if (a.norm && o.active) {
    const float *from = coefficients + (size_t)(a.norm == 2 ? 0 : 2 * o.image) * a.shape.channels + o.channel;
    loadSome(k.factor, from), loadSome(k.offset, from + a.shape.channels);
  }
  gradOf<kind>(dx, dr, dy, x, r, c, k, o, a);
}

// imageGrad: everything at once for instance norm of small images, without a tiled residual. A
// block has some channels of a whole image; what it reads the second time is still in a cache. It
// leaves sums (images, 4, channels).
template <class T, int V> FN void imageGrad(T *dx, T *dr, float *each, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, const Activate &a) {
  SHARED(float, shared);
  const Owner<V> o(a.shape);
  const int C = a.shape.channels, width = o.slots * V;
  each += (size_t)o.image * gradSums * C;
  {
    float sums[3][V] = {};
    const Affine<T, V> c(a, o, statistics, gamma, beta, slope);
    if (a.residual)
      sumVoxels<1>(sums, dy, x, r, c, o, a);
    else
      sumVoxels<0>(sums, dy, x, r, c, o, a);
    addRows(each, C, o, sums, shared);
  }
  barrier(); // the block's sums are there
  for (int i = threadIdx.x; i < width; i += ownerThreads) {
    const int channel = o.base() + i;
    const float s[gradSums] = {each[channel], each[C + channel], each[2 * C + channel], 0};
    const Gradient g(a, Affine<T, V>::centred, o.image, channel, s, statistics, gamma);
#pragma unroll
    for (int k = 0; k < gradSums; k++) each[k * C + channel] = g.sums[k];
    shared[i] = g.factor, shared[width + i] = g.offset;
  }
  barrier(); // its coefficients, too
  const Affine<T, V> c(a, o, statistics, gamma, beta, slope);
  Coefficients<V> k;
#pragma unroll
  for (int i = 0; i < V; i++) k.factor[i] = shared[o.slot * V + i], k.offset[i] = shared[width + o.slot * V + i];
  if (a.residual)
    gradVoxels<1, 1>(dx, dr, dy, x, r, c, k, o, a);
  else
    gradVoxels<0, 2>(dx, dr, dy, x, r, c, k, o, a);
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
      sum += d[j] * derivative(a, z + add, slopeOf(a, slope, c));
    }
  }
  put(dr + i, sum);
}

// --- For each type of activations, with 16 bytes at a time (V > 1) and with any number of channels

#define ACTIVATE_LIKE(T, V, any, name, suffix, perSM)                                                                                                               \
  KERNEL(256, perSM + 1, activate##name##suffix,                                                                                                                      \
         (T *y, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, Activate a)) {                            \
    activate<any, T, V>(y, x, r, statistics, gamma, beta, slope, a);                                                                                                  \
  }                                                                                                                                                                   \
  KERNEL(256, perSM, activateSums##name##suffix,                                                                                                                      \
         (float *to, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, Activate a)) {          \
    activateSums<any, T, V>(to, dy, x, r, statistics, gamma, beta, slope, a);                                                                                         \
  }                                                                                                                                                                   \
  KERNEL(256, perSM, activateGrad##name##suffix,                                                                                                                      \
         (T *dx, T *dr, const T *dy, const T *x, const T *r, const float *coefficients, const float *statistics, const float *gamma, const float *beta,              \
          const float *slope, Activate a)) {                                                                                                                          \
    activateGrad<any ? anyResidual : byResidual, T, V>(dx, dr, dy, x, r, coefficients, statistics, gamma, beta, slope, a);                                                                       \
  }
#define ACTIVATE(T, V, suffix)                                                                                                                                        \
  KERNEL(256, 4, moments##suffix, (Moments *to, const T *x, Channels a)) { moments<T, V>(to, x, a); }                                                                 \
  ACTIVATE_LIKE(T, V, false, , suffix, 3)                                                                                                                             \
  ACTIVATE_LIKE(T, V, true, Any, suffix, 2)                                                                                                                           \
  KERNEL(256, 2, activateGradTiled##suffix,                                                                                                                           \
         (T *dx, T *dr, const T *dy, const T *x, const T *r, const float *coefficients, const float *statistics, const float *gamma, const float *beta,              \
          const float *slope, Activate a)) {                                                                                                                          \
    activateGrad<tiledGradient, T, V>(dx, dr, dy, x, r, coefficients, statistics, gamma, beta, slope, a);                                                             \
  }                                                                                                                                                                   \
  KERNEL(256, 3, imageActivate##suffix,                                                                                                                               \
         (T *y, float *statistics, const T *x, const T *r, const float *gamma, const float *beta, const float *slope, Finish f)) {                                    \
    imageActivate<T, V>(y, statistics, x, r, gamma, beta, slope, f);                                                                                                  \
  }                                                                                                                                                                   \
  KERNEL(256, 2, imageGrad##suffix,                                                                                                                                   \
         (T *dx, T *dr, float *each, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope,         \
          Activate a)) {                                                                                                                                              \
    imageGrad<T, V>(dx, dr, each, dy, x, r, statistics, gamma, beta, slope, a);                                                                                       \
  }                                                                                                                                                                   \
  KERNEL(256, 4, tiledGrad##suffix,                                                                                                                                   \
         (T *dr, const T *dy, const T *x, const T *r, const float *statistics, const float *gamma, const float *beta, const float *slope, Activate a)) {              \
    tiledGrad<T, V>(dr, dy, x, r, statistics, gamma, beta, slope, a);                                                                                                 \
  }
ACTIVATE(float, 1, _f32_1)
ACTIVATE(float, 4, _f32_4)
ACTIVATE(bf16, 1, _bf16_1)
ACTIVATE(bf16, 8, _bf16_8)
