// Cross-entropy and soft Dice over logits (images, voxels, classes) with targets (images, voxels), as
// device.LossSpec has them: sums of chunks, their sums, the loss; and the gradient by the logits.
#include "channels.h"

struct Loss {
  int images, classes, voxels, chunk;
  float ce, dice, smooth;
  int background, perImage;
  int summed; // lossFinish gets sums of all images, too
};

// what lossSums leaves for each chunk, and sumTiles for each image: (intersection, sum p, sum t) of each
// class, the sum of cross-entropies, the number of voxels that count
FN int lossSumsOf(const Loss &a) { return 3 * a.classes + 2; }

// The class that a target names: negative where its voxel does not count, `classes` where there is no
// such class, as for NaN. Converted, NaN is 0 on a GPU and the least integer on the simulator.
FN int classOf(float target, int classes) { return target < 0 ? -1 : target < (float)classes ? (int)target : classes; }

template <class T> FN void voxelStatistics(float &top, float &sum, const T *x, int classes) {
  top = toFloat(x[0]), sum = 0;
  for (int c = 1; c < classes; c++) {
    const float v = toFloat(x[c]);
    top = v > top || v != v ? v : top;
  }
  for (int c = 0; c < classes; c++) sum += expf(toFloat(x[c]) - top);
}

//	grid: x chunks, y images. 16 classes at a time: thread (class, part) adds up 16 of 256 voxels.
template <class T> FN void lossSums(float *to, const T *x, const float *target, const Loss &a) {
  SHARED(float, shared);
  float *p = shared; // (256, 17)
  int *truth = reinterpret_cast<int *>(shared + 256 * 17);
  const int begin = blockIdx.x * a.chunk, end = min(a.voxels, begin + a.chunk);
  const size_t image = (size_t)blockIdx.y * a.voxels;
  float *out = to + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * lossSumsOf(a);
  float entropy = 0, count = 0;
  for (int c0 = 0; c0 < a.classes; c0 += 16) {
    const int mine = threadIdx.x % 16, part = threadIdx.x / 16, live = min(16, a.classes - c0);
    float both = 0, sumP = 0, sumT = 0;
    for (int v0 = begin; v0 < end; v0 += 256) {
      const int v = v0 + threadIdx.x;
      const int t = v < end ? classOf(target[image + v], a.classes) : -1;
      const T *logits = x + (image + (v < end ? v : begin)) * a.classes;
      const bool counts = t >= 0 && t < a.classes;
      float top = 0, sum = 1;
      if (counts) voxelStatistics(top, sum, logits, a.classes);
      for (int c = 0; c < live; c++) p[threadIdx.x * 17 + c] = counts ? expf(toFloat(logits[c0 + c]) - top) / sum : 0;
      truth[threadIdx.x] = counts ? t : -1;
      if (c0 == 0 && counts) entropy += top + logf(sum) - toFloat(logits[t]), count++;
      if (c0 == 0 && t >= a.classes) entropy = asFloat(0x7fffffffu); // no such class
      barrier();
      if (mine < live)
        for (int i = part * 16; i < part * 16 + 16; i++) {
          const bool hit = truth[i] == c0 + mine;
          sumP += p[i * 17 + mine];
          both += hit ? p[i * 17 + mine] : 0;
          sumT += hit;
        }
      barrier();
    }
    const float sums[3] = {both, sumP, sumT};
#pragma unroll
    for (int k = 0; k < 3; k++) {
      shared[threadIdx.x] = sums[k];
      barrier();
      if ((int)threadIdx.x < live) {
        float sum = 0;
        for (int i = 0; i < 16; i++) sum += shared[i * 16 + threadIdx.x];
        out[3 * (c0 + threadIdx.x) + k] = sum;
      }
      barrier();
    }
  }
  entropy = sumOfBlock<256>(entropy, shared);
  count = sumOfBlock<256>(count, shared);
  if (threadIdx.x == 0) out[3 * a.classes] = entropy, out[3 * a.classes + 1] = count;
}
KERNEL(256, 4, lossSums_f32, (float *to, const float *x, const float *target, Loss a)) { lossSums(to, x, target, a); }
KERNEL(256, 4, lossSums_bf16, (float *to, const bf16 *x, const float *target, Loss a)) { lossSums(to, x, target, a); }

// --- Two classes: a thread has both logits of a voxel in its registers

FN void loadPair(float (&v)[2], const float *p) {
  const float2 q = *reinterpret_cast<const float2 *>(p);
  v[0] = q.x, v[1] = q.y;
}
FN void loadPair(float (&v)[2], const bf16 *p) {
  const uint32_t q = *reinterpret_cast<const uint32_t *>(p);
  v[0] = asFloat(q << 16), v[1] = asFloat(q & 0xffff0000u);
}
FN void storePair(float *p, float v0, float v1) { *reinterpret_cast<float2 *>(p) = {v0, v1}; }
FN void storePair(bf16 *p, float v0, float v1) { *reinterpret_cast<uint32_t *>(p) = packBf16(v0, v1); }

struct Pair {
  float top, sum, p[2];
};
FN Pair softmaxOf(const float (&x)[2]) {
  Pair r;
  r.top = x[1] > x[0] || x[1] != x[1] ? x[1] : x[0];
  r.p[0] = expf(x[0] - r.top), r.p[1] = expf(x[1] - r.top), r.sum = r.p[0] + r.p[1];
  r.p[0] /= r.sum, r.p[1] /= r.sum;
  return r;
}

// lossPair is lossSums of two classes.
template <class T> FN void lossPair(float *to, const T *x, const float *target, const Loss &a) {
  constexpr int together = 4, sums = 8;
  SHARED(float, shared); // (warps, sums)
  const int begin = blockIdx.x * a.chunk, end = min(a.voxels, begin + a.chunk);
  const size_t image = (size_t)blockIdx.y * a.voxels;
  float sum[sums] = {};
  for (int v0 = begin + threadIdx.x; v0 < end; v0 += 256 * together) {
    float logits[together][2], truth[together];
#pragma unroll
    for (int j = 0; j < together; j++) {
      const int v = v0 + 256 * j;
      logits[j][0] = logits[j][1] = 0, truth[j] = -1;
      if (v < end) loadPair(logits[j], x + 2 * (image + v)), truth[j] = target[image + v];
    }
#pragma unroll
    for (int j = 0; j < together; j++) {
      const int t = classOf(truth[j], 2);
      if (t > 1) sum[6] = asFloat(0x7fffffffu); // no such class
      if (t < 0 || t > 1) continue;
      const Pair s = softmaxOf(logits[j]);
#pragma unroll
      for (int c = 0; c < 2; c++) sum[3 * c] += t == c ? s.p[c] : 0, sum[3 * c + 1] += s.p[c], sum[3 * c + 2] += t == c;
      sum[6] += s.top + logf(s.sum) - (t ? logits[j][1] : logits[j][0]), sum[7]++;
    }
  }
#pragma unroll
  for (int k = 0; k < sums; k++) {
#pragma unroll
    for (int mask = 16; mask; mask /= 2) sum[k] += shuffleXor(sum[k], mask);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32 * sums + k] = sum[k];
  }
  barrier(); // the sums of the warps are there
  if (threadIdx.x >= sums) return;
  float all = 0;
  for (int w = 0; w < 8; w++) all += shared[w * sums + threadIdx.x];
  to[((size_t)blockIdx.y * gridDim.x + blockIdx.x) * sums + threadIdx.x] = all;
}
KERNEL(256, 4, lossPair_f32, (float *to, const float *x, const float *target, Loss a)) { lossPair(to, x, target, a); }
KERNEL(256, 4, lossPair_bf16, (float *to, const bf16 *x, const float *target, Loss a)) { lossPair(to, x, target, a); }

// What the soft Dice loss of a class averages over: images [first, first + members).
struct Dice {
  float numerator, denominator;
};
template <class F> FN Dice diceOf(const Loss &a, int first, int members, F sumsOf) {
  float both = 0, p = 0, t = 0;
  for (int n = first; n < first + members; n++) {
    const float *s = sumsOf(n);
    both += s[0], p += s[1], t += s[2];
  }
  return {2 * both + a.smooth, p + t + a.smooth};
}
FN int firstClass(const Loss &a) { return a.background ? 0 : 1; }
FN int diceUnits(const Loss &a) { return a.perImage ? a.images : 1; }

// lossFinish: loss, stats <- sums (images, 3 classes + 2), sums of all images. The first block makes the loss,
// the others copy the sums.
KERNEL(128, 8, lossFinish, (float *loss, float *stats, const float *sums, const float *total, Loss a)) {
  SHARED(float, shared);
  const int width = lossSumsOf(a), each = 3 * a.classes;
  if (blockIdx.x) {
    const int i = (blockIdx.x - 1) * 128 + threadIdx.x;
    if (i < a.images * each) stats[3 + i] = sums[i / each * width + i % each];
    return;
  }
  const float *from = a.summed ? total : sums;
  const int images = a.summed ? 1 : a.images, units = a.perImage ? images : 1, members = images / units, taking = a.classes - firstClass(a);
  float entropy = 0, count = 0, dice = 0;
  for (int n = threadIdx.x; n < images; n += 128) entropy += from[n * width + each], count += from[n * width + each + 1];
  for (int i = threadIdx.x; i < units * taking; i += 128) {
    const int c = firstClass(a) + i % taking;
    const Dice d = diceOf(a, i / taking * members, members, [&](int n) { return from + n * width + 3 * c; });
    if (d.denominator != 0) dice += (1 - d.numerator / d.denominator) / (taking * units);
  }
  entropy = sumOfBlock<128>(entropy, shared);
  count = sumOfBlock<128>(count, shared);
  dice = sumOfBlock<128>(dice, shared);
  if (threadIdx.x) return;
  stats[0] = entropy / (count > 1 ? count : 1), stats[1] = dice, stats[2] = count;
  // a term without weight must not make NaN of the other
  *loss = (a.ce != 0 ? a.ce * stats[0] : 0) + (a.dice != 0 ? a.dice * dice : 0);
}

// diceFactors: the derivatives of the soft Dice loss by intersection and by sum p, to (images, classes, 2)
KERNEL(128, 8, diceFactors, (float *to, const float *stats, Loss a)) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= a.images * a.classes) return;
  const int c = i % a.classes, members = a.images / diceUnits(a), first = i / a.classes / members * members;
  float byBoth = 0, byP = 0;
  if (c >= firstClass(a)) {
    const Dice d = diceOf(a, first, members, [&](int n) { return stats + 3 + 3 * (n * a.classes + c); });
    const float weight = 1.0f / ((a.classes - firstClass(a)) * diceUnits(a));
    if (d.denominator != 0) byBoth = -weight * 2 / d.denominator, byP = weight * d.numerator / (d.denominator * d.denominator);
  }
  to[2 * i] = byBoth, to[2 * i + 1] = byP;
}

template <class T> FN void lossGrad(T *dx, const T *x, const float *target, const float *stats, const float *dloss, const float *factors, const Loss &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.images * a.voxels) return;
  const int image = i / a.voxels, t = classOf(target[i], a.classes);
  const T *logits = x + i * a.classes;
  T *to = dx + i * a.classes;
  if (t < 0) {
    for (int c = 0; c < a.classes; c++) put(to + c, 0);
    return;
  }
  float top, sum, dot = 0;
  voxelStatistics(top, sum, logits, a.classes);
  const float *f = factors + 2 * image * a.classes, entropy = a.ce / stats[2];
  if (a.dice != 0) // else there are no factors
    for (int c = 0; c < a.classes; c++) dot += expf(toFloat(logits[c]) - top) / sum * (f[2 * c + 1] + (c == t ? f[2 * c] : 0));
  for (int c = 0; c < a.classes; c++) {
    const float p = expf(toFloat(logits[c]) - top) / sum;
    const float byDice = a.dice != 0 ? a.dice * p * (f[2 * c + 1] + (c == t ? f[2 * c] : 0) - dot) : 0;
    const float byEntropy = a.ce != 0 ? entropy * (p - (c == t)) : 0;
    put(to + c, *dloss * (byDice + byEntropy));
  }
}

// lossPairGrad is lossGrad of two classes.
template <class T> FN void lossPairGrad(T *dx, const T *x, const float *target, const float *stats, const float *dloss, const float *factors, const Loss &a) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)a.images * a.voxels) return;
  const int image = i / a.voxels, t = classOf(target[i], 2);
  float logits[2], d[2] = {0, 0};
  loadPair(logits, x + 2 * i);
  if (t >= 0) {
    const Pair s = softmaxOf(logits);
    const float entropy = a.ce / stats[2], *f = factors + 4 * image;
    float by[2] = {0, 0}, dot = 0;
    if (a.dice != 0) { // else there are no factors
#pragma unroll
      for (int c = 0; c < 2; c++) by[c] = f[2 * c + 1] + (c == t ? f[2 * c] : 0), dot += s.p[c] * by[c];
    }
#pragma unroll
    for (int c = 0; c < 2; c++) {
      const float byDice = a.dice != 0 ? a.dice * s.p[c] * (by[c] - dot) : 0, byEntropy = a.ce != 0 ? entropy * (s.p[c] - (c == t)) : 0;
      d[c] = *dloss * (byDice + byEntropy);
    }
  }
  storePair(dx + 2 * i, d[0], d[1]);
}
KERNEL(256, 4, lossPairGrad_f32, (float *dx, const float *x, const float *target, const float *stats, const float *dloss, const float *factors, Loss a)) {
  lossPairGrad(dx, x, target, stats, dloss, factors, a);
}
KERNEL(256, 4, lossPairGrad_bf16, (bf16 *dx, const bf16 *x, const float *target, const float *stats, const float *dloss, const float *factors, Loss a)) {
  lossPairGrad(dx, x, target, stats, dloss, factors, a);
}
KERNEL(256, 3, lossGrad_f32, (float *dx, const float *x, const float *target, const float *stats, const float *dloss, const float *factors, Loss a)) {
  lossGrad(dx, x, target, stats, dloss, factors, a);
}
KERNEL(256, 3, lossGrad_bf16, (bf16 *dx, const bf16 *x, const float *target, const float *stats, const float *dloss, const float *factors, Loss a)) {
  lossGrad(dx, x, target, stats, dloss, factors, a);
}
