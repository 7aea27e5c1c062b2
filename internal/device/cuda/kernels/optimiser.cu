// Optimisers, and what decides whether they step. All state is float32.
#include "channels.h"

struct Parameters {
  uint32_t n;
};

// Parameters of a network are many tensors, most of them small: one launch is for up to 16. The
// blocks from first[i] on are of tensor i, which has n[i] elements. After the last one, first is
// the number of blocks.
CONSTANT int mostTensors = 16;
struct Tensors {
  int count;
  uint32_t n[mostTensors], first[mostTensors];
};
FN int tensorOf(const Tensors &a) {
  int i = 0;
#pragma unroll
  for (int j = 1; j < mostTensors; j++) i += j < a.count && blockIdx.x >= a.first[j];
  return i;
}

// sumSquares: the squares of a chunk of 8192 elements, in float64; sumDoubles adds them up.
//
//	addresses: parts (blocks); each tensor
CONSTANT uint32_t squaresChunk = 8192;
KERNEL(256, 4, sumSquares, (Addresses at, Tensors a)) {
  SHARED(double, shared);
  constexpr int U = 4; // times 16 bytes on their way at a time
  const int i = tensorOf(a);
  const uint32_t begin = (blockIdx.x - a.first[i]) * squaresChunk, left = a.n[i] - begin, end = left < squaresChunk ? left : squaresChunk;
  const float *x = (const float *)at.of[1 + i] + begin;
  double sum = 0;
  for (uint32_t k = 4 * threadIdx.x; k < end; k += U * 1024) {
    Raw<float, 4> q[U];
#pragma unroll
    for (int u = 0; u < U; u++) q[u].load(x + k + u * 1024, k + u * 1024 + 4 <= end);
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum += (double)q[u].at(j) * q[u].at(j);
  }
  // fewer than 4 at the end
  const uint32_t rest = end / 4 * 4 + threadIdx.x;
  if (rest < end) sum += (double)x[rest] * x[rest];
  shared[threadIdx.x] = sum;
  barrier();
  for (int half = 128; half; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    barrier();
  }
  if (threadIdx.x == 0) ((double *)at.of[0])[blockIdx.x] = shared[0];
}

// sumDoubles: a block for each tensor
//
//	addresses: parts; the sum of each tensor
KERNEL(256, 4, sumDoubles, (Addresses at, Tensors a)) {
  SHARED(double, shared);
  const int i = blockIdx.x;
  const double *from = (const double *)at.of[0] + a.first[i];
  const uint32_t n = (a.n[i] - 1) / squaresChunk + 1;
  double sum = 0;
  for (uint32_t k = threadIdx.x; k < n; k += 256) sum += from[k];
  shared[threadIdx.x] = sum;
  barrier();
  for (int half = 128; half; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    barrier();
  }
  if (threadIdx.x == 0) *(float *)at.of[1 + i] = (float)shared[0];
}

// What decides on a step: device.DecideSpec.
struct Decide {
  uint32_t squares, rates, width, pitch, factor;
  int one;
  float clip;
  uint32_t values;
};

// decideStep: the norm of the gradient and with it the hyperparameters of the step, or, where norm
// or loss are not finite, those of one that changes nothing. One block.
KERNEL(256, 4, decideStep, (float *verdict, float *hyper, const float *squares, const float *planned, const float *loss, const float *values, Decide a)) {
  SHARED(double, shared);
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < a.squares; i += 256) sum += squares[(size_t)i * a.pitch];
  shared[threadIdx.x] = sum;
  barrier();
  for (int half = 128; half; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    barrier();
  }
  const double norm = sqrt(shared[0]);
  const float l = loss ? *loss : 0;
  const bool taken = isFinite((float)norm) && isFinite(l);
  const double shrink = a.clip / (norm + 1e-6);
  const float factor = a.clip > 0 && shrink < 1 ? (float)shrink : 1;
  for (uint32_t i = threadIdx.x; i < a.rates * a.width; i += 256) {
    const uint32_t column = i % a.width, at = i / a.width * a.pitch + column;
    hyper[at] = !taken ? (int)column == a.one : column == a.factor ? factor * planned[at] : planned[at];
  }
  for (uint32_t i = threadIdx.x; i < a.values; i += 256) verdict[3 + i] = values[i];
  if (threadIdx.x == 0) verdict[0] = (float)norm, verdict[1] = taken, verdict[2] = l;
}

// sgd: g = factor gradient + decay p        v = momentum v + g        p -= rate v
// hyper: rate, momentum, decay, factor; 0, 1, 0, 0 change nothing, whatever the gradient
//
//	addresses: of each tensor p, v, gradient, hyper
CONSTANT uint32_t sgdChunk = 4096;
KERNEL(256, 4, sgd, (Addresses at, Tensors a)) {
  constexpr int U = 2; // times 16 bytes of each on their way at a time
  const int i = tensorOf(a);
  const uint32_t begin = (blockIdx.x - a.first[i]) * sgdChunk, left = a.n[i] - begin, end = left < sgdChunk ? left : sgdChunk;
  float *p = (float *)at.of[4 * i] + begin, *v = (float *)at.of[4 * i + 1] + begin;
  const float *gradient = (const float *)at.of[4 * i + 2] + begin, *hyper = (const float *)at.of[4 * i + 3];
  const float rate = hyper[0], momentum = hyper[1], decay = hyper[2], factor = hyper[3];
  if (rate == 0 && momentum == 1 && decay == 0 && factor == 0) return;
  auto step = [&](float &w, float &u, float g) {
    u = momentum * u + (factor * g + decay * w);
    w -= rate * u;
  };
  for (uint32_t k = 4 * threadIdx.x; k < end; k += U * 1024) {
    Raw<float, 4> w[U], s[U], g[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      const uint32_t m = k + u * 1024;
      const bool whole = m + 4 <= end;
      w[u].load(p + m, whole), s[u].load(v + m, whole), g[u].load(gradient + m, whole);
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
      const uint32_t m = k + u * 1024;
      float to[4], speed[4];
#pragma unroll
      for (int j = 0; j < 4; j++) to[j] = w[u].at(j), speed[j] = s[u].at(j), step(to[j], speed[j], g[u].at(j));
      if (m + 4 <= end) store(p + m, to), store(v + m, speed);
    }
  }
  // fewer than 4 at the end
  const uint32_t rest = end / 4 * 4 + threadIdx.x;
  if (rest < end) step(p[rest], v[rest], gradient[rest]);
}

// adamW, Loshchilov and Hutter 2019, as PyTorch has it: p -= rate decay p, then
//
//	g = factor gradient        m += n1 (g - m)        v += n2 (g^2 - v)
//	p -= rate / c1 m / (sqrt(v) / sqrt(c2) + epsilon)
//
// hyper: rate, n1 = 1 - beta1, n2 = 1 - beta2, epsilon, decay, factor, c1 = 1 - beta1^t, c2 = 1 -
// beta2^t; a rate of 0 changes nothing
KERNEL(256, 4, adamW, (float *p, float *m, float *v, const float *gradient, const float *hyper, Parameters a)) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  const float rate = hyper[0];
  if (i >= a.n || rate == 0) return;
  const float epsilon = hyper[3], decay = hyper[4], g = hyper[5] * gradient[i];
  const float first = m[i] + hyper[1] * (g - m[i]), second = v[i] + hyper[2] * (g * g - v[i]);
  m[i] = first, v[i] = second;
  p[i] = p[i] * (1 - rate * decay) - rate / hyper[6] * first / (sqrtf(second) / sqrtf(hyper[7]) + epsilon);
}

// average: a += weight (x - a), the exponential moving average of weights
KERNEL(256, 4, average, (float *p, const float *x, const float *weight, Parameters a)) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i < a.n) p[i] += *weight * (x[i] - p[i]);
}
