// Element by element: additions, scalings, copies between layouts, pooling.
#include "channels.h"

// --- Flat

struct Flat {
  uint32_t low, high; // elements, 64 bits in two
  float factor;
};
FN size_t elementsOf(const Flat &a) { return (size_t)a.high << 32 | a.low; }

// y = a + b, or y = factor a where b is null. V elements a thread; the last one of all takes what
// remains.
template <class T> FN void addScaled(T *y, const T *a, const T *b, const Flat &f) {
  constexpr int V = Vector<T>::size;
  const size_t n = elementsOf(f), i = ((size_t)blockIdx.x * 256 + threadIdx.x) * V;
  if (i >= n) return;
  if (i + V <= n) {
    float p[V], q[V];
    load(p, a + i);
    if (b) load(q, b + i);
#pragma unroll
    for (int k = 0; k < V; k++) p[k] = b ? p[k] + q[k] : f.factor * p[k];
    store(y + i, p);
    return;
  }
  for (size_t k = i; k < n; k++) put(y + k, b ? toFloat(a[k]) + toFloat(b[k]) : f.factor * toFloat(a[k]));
}

// --- By channel

// y = x m, m (images, channels)
template <class T, int V> FN void scaleChannels(T *y, const T *x, const float *m, const Channels &a) {
  const Owner<V> o(a);
  float by[V];
#pragma unroll
  for (int i = 0; i < V; i++) by[i] = o.active ? m[blockIdx.y * a.channels + o.channel + i] : 0;
  for (int v = o.first; v < o.end; v += o.step) {
    float q[V];
    load(q, x + o.at(a, v));
#pragma unroll
    for (int i = 0; i < V; i++) q[i] *= by[i];
    store(y + o.at(a, v), q);
  }
}

// the sum over the voxels of each channel of each chunk: to (images, chunks, channels)
template <class T, int V> FN void sumChannels(float *to, const T *x, const Channels &a) {
  SHARED(float, shared);
  const Owner<V> o(a);
  float sums[1][V] = {};
  for (int v = o.first; v < o.end; v += o.step) {
    float q[V];
    load(q, x + o.at(a, v));
#pragma unroll
    for (int i = 0; i < V; i++) sums[0][i] += q[i];
  }
  addRows<V, 1>(to + ((size_t)o.image * gridDim.x + o.chunk) * a.channels, 0, o, sums, shared);
}

// channels of x (images, voxels, xChannels) become channels of y, as many as the shape has: what
// concatenation and its gradient do for each part
struct Part {
  Channels shape;
  int yChannels, yFirst, xChannels, xFirst;
};
template <class T, int V> FN void copyChannels(T *y, const T *x, const Part &p) {
  const Owner<V> o(p.shape);
  for (int v = o.first; v < o.end; v += o.step) {
    const size_t voxel = (size_t)blockIdx.y * p.shape.voxels + v;
    float q[V];
    load(q, x + voxel * p.xChannels + p.xFirst + o.channel);
    store(y + voxel * p.yChannels + p.yFirst + o.channel, q);
  }
}

// --- Between layouts: y (images, columns, rows) = x (images, rows, columns), by tiles of 32 x 32

struct Transpose {
  int rows, columns, firstColumn, firstImage; // of this launch: a grid is short in two directions
};
template <class To, class From> FN void transpose(To *y, const From *x, const Transpose &a) {
  SHARED(float, shared);
  const int column = threadIdx.x % 32, row = threadIdx.x / 32, r0 = blockIdx.x * 32, c0 = a.firstColumn + blockIdx.y * 32;
  const size_t image = (size_t)(a.firstImage + blockIdx.z) * a.rows * a.columns;
#pragma unroll
  for (int i = 0; i < 32; i += 8)
    if (r0 + row + i < a.rows && c0 + column < a.columns) shared[(row + i) * 33 + column] = toFloat(x[image + (size_t)(r0 + row + i) * a.columns + c0 + column]);
  barrier();
#pragma unroll
  for (int i = 0; i < 32; i += 8)
    if (c0 + row + i < a.columns && r0 + column < a.rows) put(y + image + (size_t)(c0 + row + i) * a.rows + r0 + column, shared[column * 33 + row + i]);
}

// y = x, in another type
template <class To, class From> FN void convert(To *y, const From *x, const Flat &f) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i < elementsOf(f)) put(y + i, toFloat(x[i]));
}

// --- Pooling: one thread an element

struct Pool {
  int channels, x[3], y[3], kernel[3], stride[3], pad[3], average;
  uint32_t low, high; // elements of the result
};
struct Place {
  int image, c, at[3];
};
FN Place placeOf(size_t i, int channels, const int (&size)[3]) {
  Place p;
  p.c = i % channels, i /= channels;
  p.at[2] = i % size[2], i /= size[2];
  p.at[1] = i % size[1], i /= size[1];
  p.at[0] = i % size[0], p.image = i / size[0];
  return p;
}
FN size_t indexOf(const Pool &a, int image, int d, int h, int w, int c) { return ((((size_t)image * a.x[0] + d) * a.x[1] + h) * a.x[2] + w) * a.channels + c; }

// the voxels of x under a window, from low to high
FN void windowOf(int (&low)[3], int (&high)[3], const Pool &a, const int (&at)[3]) {
#pragma unroll
  for (int i = 0; i < 3; i++) {
    const int first = at[i] * a.stride[i] - a.pad[i];
    low[i] = max(0, first), high[i] = min(a.x[i], first + a.kernel[i]);
  }
}

// The largest element under a window: the first where they tie, the last NaN where there is one.
template <class T> FN float largest(size_t &where, const T *x, const Pool &a, int image, int c, const int (&at)[3]) {
  int low[3], high[3];
  windowOf(low, high, a, at);
  float best = 0;
  bool first = true;
  for (int d = low[0]; d < high[0]; d++)
    for (int h = low[1]; h < high[1]; h++)
      for (int w = low[2]; w < high[2]; w++) {
        const size_t i = indexOf(a, image, d, h, w, c);
        const float v = toFloat(x[i]);
        if (first || v > best || v != v) best = v, where = i;
        first = false;
      }
  return best;
}

FN size_t elementsOf(const Pool &a) { return (size_t)a.high << 32 | a.low; }
// what an average divides by: the window with the padding, without what lies past it
FN float divisorOf(const Pool &a, const int (&at)[3]) {
  int size = 1;
#pragma unroll
  for (int k = 0; k < 3; k++) {
    const int first = at[k] * a.stride[k] - a.pad[k];
    size *= min(a.kernel[k], a.x[k] + a.pad[k] - first);
  }
  return (float)size;
}

template <class T> FN void pool(T *y, const T *x, const Pool &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= elementsOf(a)) return;
  const Place p = placeOf(i, a.channels, a.y);
  if (!a.average) {
    size_t where;
    put(y + i, largest(where, x, a, p.image, p.c, p.at));
    return;
  }
  int low[3], high[3];
  windowOf(low, high, a, p.at);
  float sum = 0;
  for (int d = low[0]; d < high[0]; d++)
    for (int h = low[1]; h < high[1]; h++)
      for (int w = low[2]; w < high[2]; w++) sum += toFloat(x[indexOf(a, p.image, d, h, w, p.c)]);
  put(y + i, sum / divisorOf(a, p.at));
}

// dx at an element: from each window that it lies under, in their order
template <class T> FN void poolGrad(T *dx, const T *x, const T *dy, const Pool &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= elementsOf(a)) return;
  const Place p = placeOf(i, a.channels, a.x);
  int low[3], high[3];
#pragma unroll
  for (int k = 0; k < 3; k++) {
    const int reach = p.at[k] + a.pad[k] - a.kernel[k]; // the last window that ends before
    low[k] = reach < 0 ? 0 : reach / a.stride[k] + 1;
    high[k] = min(a.y[k], (p.at[k] + a.pad[k]) / a.stride[k] + 1);
  }
  float sum = 0;
  for (int d = low[0]; d < high[0]; d++)
    for (int h = low[1]; h < high[1]; h++)
      for (int w = low[2]; w < high[2]; w++) {
        const int at[3] = {d, h, w};
        const float g = toFloat(dy[((((size_t)p.image * a.y[0] + d) * a.y[1] + h) * a.y[2] + w) * a.channels + p.c]);
        size_t where = i;
        if (!a.average) largest(where, x, a, p.image, p.c, at);
        if (where == i) sum += a.average ? g / divisorOf(a, at) : g;
      }
  put(dx + i, sum);
}

#define TENSOR(T, suffix)                                                                                    \
  KERNEL(256, 4, addScaled##suffix, (T *y, const T *a, const T *b, Flat f)) { addScaled<T>(y, a, b, f); }    \
  KERNEL(256, 4, pool##suffix, (T *y, const T *x, Pool a)) { pool<T>(y, x, a); }                             \
  KERNEL(256, 4, poolGrad##suffix, (T *dx, const T *x, const T *dy, Pool a)) { poolGrad<T>(dx, x, dy, a); }
TENSOR(float, _f32)
TENSOR(bf16, _bf16)

#define BY_CHANNEL(T, V, suffix)                                                                                                     \
  KERNEL(256, 4, scaleChannels##suffix, (T *y, const T *x, const float *m, Channels a)) { scaleChannels<T, V>(y, x, m, a); }         \
  KERNEL(256, 4, sumChannels##suffix, (float *to, const T *x, Channels a)) { sumChannels<T, V>(to, x, a); }                          \
  KERNEL(256, 4, copyChannels##suffix, (T *y, const T *x, Part p)) { copyChannels<T, V>(y, x, p); }
BY_CHANNEL(float, 1, _f32_1)
BY_CHANNEL(float, 4, _f32_4)
BY_CHANNEL(bf16, 1, _bf16_1)
BY_CHANNEL(bf16, 8, _bf16_8)

KERNEL(256, 4, transpose_f32_f32, (float *y, const float *x, Transpose a)) { transpose(y, x, a); }
KERNEL(256, 4, transpose_f32_bf16, (float *y, const bf16 *x, Transpose a)) { transpose(y, x, a); }
KERNEL(256, 4, transpose_bf16_f32, (bf16 *y, const float *x, Transpose a)) { transpose(y, x, a); }
KERNEL(256, 4, convert_f32_f32, (float *y, const float *x, Flat f)) { convert(y, x, f); }
KERNEL(256, 4, convert_f32_bf16, (float *y, const bf16 *x, Flat f)) { convert(y, x, f); }
KERNEL(256, 4, convert_bf16_f32, (bf16 *y, const float *x, Flat f)) { convert(y, x, f); }
