// Optimisers, and what decides whether they step. All state is float32.
#include "channels.h"

struct Parameters {
  uint32_t n;
};

// sumSquares: the squares of a chunk of 8192 elements, in float64, to (chunks); sumDoubles adds them up.
KERNEL(256, 4, sumSquares, (double *to, const float *x, Parameters a)) {
  SHARED(double, shared);
  const uint32_t begin = blockIdx.x * 8192u, end = a.n - begin < 8192u ? a.n : begin + 8192u;
  double sum = 0;
  for (uint32_t i = begin + threadIdx.x; i < end; i += 256) sum += (double)x[i] * x[i];
  shared[threadIdx.x] = sum;
  barrier();
  for (int half = 128; half; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    barrier();
  }
  if (threadIdx.x == 0) to[blockIdx.x] = shared[0];
}
KERNEL(256, 4, sumDoubles, (float *to, const double *from, Parameters a)) {
  SHARED(double, shared);
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < a.n; i += 256) sum += from[i];
  shared[threadIdx.x] = sum;
  barrier();
  for (int half = 128; half; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    barrier();
  }
  if (threadIdx.x == 0) *to = (float)shared[0];
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
KERNEL(256, 4, sgd, (float *p, float *v, const float *gradient, const float *hyper, Parameters a)) {
  const float rate = hyper[0], momentum = hyper[1], decay = hyper[2], factor = hyper[3];
  if (rate == 0 && momentum == 1 && decay == 0 && factor == 0) return;
  const uint32_t i = (blockIdx.x * 256 + threadIdx.x) * 4;
  if (i >= a.n) return;
  float w[4], u[4], g[4];
  const bool whole = i + 4 <= a.n;
  if (whole) {
    load(w, p + i), load(u, v + i), load(g, gradient + i);
  } else {
#pragma unroll
    for (int k = 0; k < 4; k++) w[k] = i + k < a.n ? p[i + k] : 0, u[k] = i + k < a.n ? v[i + k] : 0, g[k] = i + k < a.n ? gradient[i + k] : 0;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) {
    u[k] = momentum * u[k] + (factor * g[k] + decay * w[k]);
    w[k] -= rate * u[k];
  }
  if (whole) {
    store(p + i, w), store(v + i, u);
  } else {
#pragma unroll
    for (int k = 0; k < 4; k++)
      if (i + k < a.n) p[i + k] = w[k], v[i + k] = u[k];
  }
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
