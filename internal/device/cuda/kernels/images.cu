// What networks on photographs need: local response normalisation, pooling of regions and the losses
// of detection, as device.LRNSpec, RoISpec and SmoothL1Spec have them.
#include "gpu.h"

// --- Local response normalisation over the channels, which lie together: a thread an element

struct Lrn {
  int channels, before, after; // channels of a window
  float share, k, beta;        // share: alpha / size
  uint32_t low, high;          // elements, 64 bits in two
};
FN size_t elementsOf(const Lrn &a) { return (size_t)a.high << 32 | a.low; }
// k + share * the sum of squares of the window of element i
template <class T> FN float scaleOf(const T *x, size_t i, const Lrn &a) {
  const int c = i % a.channels;
  const int first = max(0, c - a.before), last = min(a.channels - 1, c + a.after);
  float sum = 0;
  for (int j = first; j <= last; j++) {
    const float v = toFloat(x[i - c + j]);
    sum += v * v;
  }
  return a.k + a.share * sum;
}
FN float power(float x, float y) { return expf(y * logf(x)); } // of x > 0

template <class T> FN void lrn(T *y, const T *x, const Lrn &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i < elementsOf(a)) put(y + i, toFloat(x[i]) * power(scaleOf(x, i, a), -a.beta));
}
// lrnParts: what each element's scale passes on to the channels of its window, but for a factor
template <class T> FN void lrnParts(float *parts, const T *x, const T *dy, const Lrn &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i < elementsOf(a)) parts[i] = toFloat(dy[i]) * toFloat(x[i]) * power(scaleOf(x, i, a), -a.beta - 1);
}
// dx may be dy: a thread reads its own element of dy alone
template <class T> FN void lrnGrad(T *dx, const T *x, const T *dy, const float *parts, const Lrn &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= elementsOf(a)) return;
  const int c = i % a.channels;
  const int first = max(0, c - a.after), last = min(a.channels - 1, c + a.before); // whose windows hold c
  float sum = 0;
  for (int j = first; j <= last; j++) sum += parts[i - c + j];
  put(dx + i, toFloat(dy[i]) * power(scaleOf(x, i, a), -a.beta) - 2 * a.beta * a.share * toFloat(x[i]) * sum);
}

// --- Pooling of regions

struct Regions {
  int images, channels, height, width; // of the maps
  int regions, binsY, binsX;
  float scale;
};
// the number of the element at a coordinate, halves away from zero
FN int elementAt(float x) {
  const float size = fabsf(x), whole = floorf(size);
  const float rounded = min(size - whole >= 0.5f ? whole + 1 : whole, 1e9f);
  return x < 0 ? -(int)rounded : (int)rounded;
}
// elements [low, high) of a bin along an axis, as device.RoISpec's Bin; product() is never part of an fma,
// lest an edge move
FN void edgesOf(int &low, int &high, float from, float to, int bins, int bin, int size, float scale) {
  const int start = elementAt(product(from, scale)), end = elementAt(product(to, scale));
  const float width = (float)max(end - start + 1, 1) / (float)bins;
  low = min(max((int)floorf(product((float)bin, width)) + start, 0), size);
  high = min(max((int)ceilf(product((float)(bin + 1), width)) + start, 0), size);
}

// roiLargest: for each element of y (regions, bins, channels) the element of x that is the largest of its
// bin, -1 where the bin is empty, -2 where there is no such image
template <class T> FN void roiLargest(int *where, const T *x, const float *regions, const Regions &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.regions * a.binsY * a.binsX * a.channels) return;
  const size_t bin = i / a.channels;
  const int c = i % a.channels, w = bin % a.binsX, h = bin / a.binsX % a.binsY;
  const float *r = regions + bin / a.binsX / a.binsY * 5;
  if (!(r[0] >= 0 && r[0] < (float)a.images)) {
    where[i] = -2;
    return;
  }
  int y1, y2, x1, x2, best = -1;
  edgesOf(y1, y2, r[2], r[4], a.binsY, h, a.height, a.scale);
  edgesOf(x1, x2, r[1], r[3], a.binsX, w, a.width, a.scale);
  float most = 0;
  for (int y = y1; y < y2; y++)
    for (int z = x1; z < x2; z++) {
      const int at = (((int)r[0] * a.height + y) * a.width + z) * a.channels + c;
      const float v = toFloat(x[at]);
      if (best < 0 || v > most || v != v) most = v, best = at;
    }
  where[i] = best;
}
template <class T> FN void roiTake(T *y, const T *x, const int *where, const Regions &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.regions * a.binsY * a.binsX * a.channels) return;
  put(y + i, where[i] >= 0 ? toFloat(x[where[i]]) : where[i] == -1 ? 0 : asFloat(0x7fffffffu));
}
// every element of dx looks for the bins whose largest it is: few, and added in their order
template <class T> FN void roiGrad(T *dx, const float *regions, const int *where, const T *dy, const Regions &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.images * a.height * a.width * a.channels) return;
  const size_t voxel = i / a.channels;
  const int c = i % a.channels, x = voxel % a.width, y = voxel / a.width % a.height, image = voxel / a.width / a.height;
  float sum = 0;
  for (int n = 0; n < a.regions; n++) {
    const float *r = regions + 5 * n;
    if ((int)r[0] != image) continue;
    int y1, y2, x1, x2, other;
    edgesOf(y1, other, r[2], r[4], a.binsY, 0, a.height, a.scale);
    edgesOf(other, y2, r[2], r[4], a.binsY, a.binsY - 1, a.height, a.scale);
    edgesOf(x1, other, r[1], r[3], a.binsX, 0, a.width, a.scale);
    edgesOf(other, x2, r[1], r[3], a.binsX, a.binsX - 1, a.width, a.scale);
    if (y < y1 || y >= y2 || x < x1 || x >= x2) continue;
    const size_t first = (size_t)n * a.binsY * a.binsX * a.channels + c;
    for (int bin = 0; bin < a.binsY * a.binsX; bin++) {
      const size_t at = first + (size_t)bin * a.channels;
      if (where[at] == (int)i) sum += toFloat(dy[at]);
    }
  }
  put(dx + i, sum);
}

#define IMAGES(T, suffix)                                                                                                                   \
  KERNEL(256, 4, lrn##suffix, (T *y, const T *x, Lrn a)) { lrn<T>(y, x, a); }                                                               \
  KERNEL(256, 4, lrnParts##suffix, (float *parts, const T *x, const T *dy, Lrn a)) { lrnParts<T>(parts, x, dy, a); }                        \
  KERNEL(256, 4, lrnGrad##suffix, (T *dx, const T *x, const T *dy, const float *parts, Lrn a)) { lrnGrad<T>(dx, x, dy, parts, a); }         \
  KERNEL(256, 4, roiLargest##suffix, (int *where, const T *x, const float *regions, Regions a)) { roiLargest<T>(where, x, regions, a); }    \
  KERNEL(256, 4, roiTake##suffix, (T *y, const T *x, const int *where, Regions a)) { roiTake<T>(y, x, where, a); }                          \
  KERNEL(256, 4, roiGrad##suffix, (T *dx, const float *regions, const int *where, const T *dy, Regions a)) { roiGrad<T>(dx, regions, where, dy, a); }
IMAGES(float, _f32)
IMAGES(bf16, _bf16)

// --- Losses of detection

struct Labels {
  uint32_t elements;
  int rows;
  float beta;
};

// the mean binary cross-entropy over the labels that are not negative, and their number. One block.
KERNEL(256, 4, labelLoss, (float *loss, float *number, const float *x, const float *target, Labels a)) {
  SHARED(float, shared);
  float sum = 0, count = 0;
  for (uint32_t i = threadIdx.x; i < a.elements; i += 256) {
    const float t = target[i], v = x[i];
    if (!(t >= 0)) continue;
    sum += (v < 0 ? 0 : v) - v * t + log1pf(expf(-fabsf(v)));
    count++;
  }
  sum = sumOfBlock<256>(sum, shared);
  count = sumOfBlock<256>(count, shared);
  if (threadIdx.x == 0) *loss = sum / (count > 1 ? count : 1), *number = count;
}
KERNEL(256, 4, labelLossGrad, (float *dx, const float *x, const float *target, const float *number, const float *dloss, Labels a)) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i >= a.elements) return;
  // the sigmoid minus the label: of a sure answer little is left, which must not be lost
  const float e = expf(-fabsf(x[i])), small = e / (1 + e), t = target[i];
  dx[i] = t >= 0 ? *dloss * (x[i] < 0 ? small - t : 1 - t - small) / *number : 0;
}

// the sum of weighted smooth L1 losses, divided by the rows. One block.
KERNEL(256, 4, smoothL1, (float *loss, const float *x, const float *target, const float *weight, Labels a)) {
  SHARED(float, shared);
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < a.elements; i += 256) {
    const float d = fabsf(x[i] - target[i]);
    sum += weight[i] * (d < a.beta ? d * d / (2 * a.beta) : d - a.beta / 2);
  }
  sum = sumOfBlock<256>(sum, shared);
  if (threadIdx.x == 0) *loss = sum / a.rows;
}
KERNEL(256, 4, smoothL1Grad, (float *dx, const float *x, const float *target, const float *weight, const float *dloss, Labels a)) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i >= a.elements) return;
  const float d = (x[i] - target[i]) / a.beta;
  dx[i] = *dloss * weight[i] * (d > 1 ? 1 : d < -1 ? -1 : d) / a.rows;
}
