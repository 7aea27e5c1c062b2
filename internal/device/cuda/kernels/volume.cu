// Windows of a prediction, added up and decided on the device.
#include "gpu.h"

struct Blend {
  int classes, window[3], sums[3];
};

// blend: sums (classes, planes, rows, columns) += probabilities (D, H, W, classes) times the weights along
// the three axes (D + H + W). place: where the window starts in the sums along each axis, which may be
// before them, then where the sums end. One thread a voxel of the window.
template <class T> FN void blend(float *sums, const T *probabilities, const float *weights, const float *place, const Blend &a) {
  const int D = a.window[0], H = a.window[1], W = a.window[2], i = blockIdx.x * 256 + threadIdx.x;
  if (i >= D * H * W) return;
  const int from[3] = {i / (H * W), i / W % H, i % W};
  size_t to = 0;
#pragma unroll
  for (int k = 0; k < 3; k++) {
    const int at = (int)place[k] + from[k];
    if (at < 0 || at >= a.sums[k] || at >= (int)place[3 + k]) return;
    to = to * a.sums[k] + at;
  }
  const float weight = weights[from[0]] * weights[D + from[1]] * weights[D + H + from[2]];
  const size_t volume = (size_t)a.sums[0] * a.sums[1] * a.sums[2];
  for (int c = 0; c < a.classes; c++) sums[c * volume + to] += weight * toFloat(probabilities[(size_t)i * a.classes + c]);
}
KERNEL(256, 4, blend_f32, (float *sums, const float *probabilities, const float *weights, const float *place, Blend a)) { blend(sums, probabilities, weights, place, a); }
KERNEL(256, 4, blend_bf16, (float *sums, const bf16 *probabilities, const float *weights, const float *place, Blend a)) { blend(sums, probabilities, weights, place, a); }

// decide: the class with the largest sum, the lowest of equals; -1 where none is above 0
KERNEL(256, 4, decide, (float *classes, const float *sums, Blend a)) {
  const size_t volume = (size_t)a.sums[0] * a.sums[1] * a.sums[2], i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= volume) return;
  float best = 0;
  int which = -1;
  for (int c = 0; c < a.classes; c++)
    if (sums[c * volume + i] > best) best = sums[c * volume + i], which = c;
  classes[i] = (float)which;
}
