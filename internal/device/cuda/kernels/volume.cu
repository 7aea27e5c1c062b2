// Windows of a prediction, added up on the device, and what the sums say to the voxels of a grid.
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

struct Restore {
  int classes, sums[3], lines[3], maps;
};

// restore: classes (planes, lines[1], lines[2]), and maps (classes, the same) where that is asked for, of the
// sums (classes, sums) between their voxels. taps (lines[0] + lines[1] + lines[2], 5): for each line along each
// axis the two voxels that it lies between, how much each of them counts, and the factor of the maps. place: the
// first of the planes that are made, and how many. A class is the one with the largest sum, the lowest of
// equals; -1 where none is above 0 or one is no number. One thread a voxel.
KERNEL(256, 3, restore, (float *classes, float *maps, const float *sums, const float *taps, const float *place, Restore a)) {
  const int H = a.lines[1], W = a.lines[2];
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, n = (size_t)(int)place[1] * H * W;
  if (i >= n) return;
  const float *p = taps + 5 * ((int)place[0] + (int)(i / ((size_t)H * W))), *r = taps + 5 * (a.lines[0] + (int)(i / W % H)), *c = taps + 5 * (a.lines[0] + H + (int)(i % W));
  const size_t volume = (size_t)a.sums[0] * a.sums[1] * a.sums[2];
  uint32_t from[8];
  float weight[8];
#pragma unroll
  for (int k = 0; k < 8; k++) {
    from[k] = ((int)p[k / 4] * a.sums[1] + (int)r[k / 2 % 2]) * a.sums[2] + (int)c[k % 2];
    weight[k] = p[2 + k / 4] * r[2 + k / 2 % 2] * c[2 + k % 2];
  }
  const float scale = p[4] * r[4] * c[4];
  float best = 0;
  int which = -1;
  bool number = true;
  for (int class_ = 0; class_ < a.classes; class_++) {
    const float *of = sums + class_ * volume;
    float x = 0;
#pragma unroll
    for (int k = 0; k < 8; k++)
      if (weight[k] != 0) x += weight[k] * of[from[k]];
    number = number && x == x;
    if (x > best) best = x, which = class_;
    if (a.maps) maps[class_ * n + i] = x * scale;
  }
  classes[i] = number ? (float)which : -1.0f;
}
