// Attention over the tokens of a group, as device.AttentionSpec has it, and the cross-entropy of rows
// with several right answers, device.ChoiceSpec. Both are small: a puzzle has some dozen tokens, and
// all of them stay in the cache. The softmax between scores and values is matrix.cu's.
#include "gpu.h"

struct Tokens {
  int groups, rows, columns, heads;
  float scale;
  int transposed;
};

// p (groups, heads, rows, rows) = scale a b^T, head by head: a thread a product
KERNEL(256, 4, attentionScores, (float *p, const float *a, const float *b, Tokens t)) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)t.groups * t.heads * t.rows * t.rows) return;
  const size_t to = i % t.rows, from = i / t.rows % t.rows, head = i / t.rows / t.rows % t.heads, group = i / t.rows / t.rows / t.heads;
  const int width = t.columns / t.heads;
  const float *left = a + (group * t.rows + from) * t.columns + head * width, *right = b + (group * t.rows + to) * t.columns + head * width;
  float sum = 0;
  for (int c = 0; c < width; c++) sum += left[c] * right[c];
  p[i] = t.scale * sum;
}

// y (groups, rows, columns) = scale p v, or scale p^T v, head by head
KERNEL(256, 4, attentionValues, (float *y, const float *p, const float *v, Tokens t)) {
  const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i >= (size_t)t.groups * t.rows * t.columns) return;
  const size_t column = i % t.columns, row = i / t.columns % t.rows, group = i / t.columns / t.rows;
  const size_t head = column / (t.columns / t.heads), step = t.transposed ? t.rows : 1;
  const float *weight = p + (group * t.heads + head) * t.rows * t.rows + row * (t.transposed ? 1 : t.rows);
  float sum = 0;
  for (int r = 0; r < t.rows; r++) sum += weight[r * step] * v[(group * t.rows + r) * t.columns + column];
  y[i] = t.scale * sum;
}

struct Choice {
  int rows, columns, stats;
};

// An Answer is ln sum of exp over some answers, in two parts: top + ln sum; sum is 0 where there are none.
struct Answer {
  float top, sum;
};
template <class F> FN Answer answerOf(const float *x, int columns, F counts) {
  Answer a = {0, 0};
  bool first = true;
  for (int c = 0; c < columns; c++)
    if (counts(c)) {
      if (first || x[c] > a.top || x[c] != x[c]) a.top = x[c];
      first = false;
    }
  for (int c = 0; c < columns; c++)
    if (counts(c)) a.sum += expf(x[c] - a.top);
  return a;
}

// choiceOf is -ln of the share of the right answers. Where they have more than half, it comes from the
// share of the others, so that little is not lost in the difference of two large numbers.
FN float choiceOf(const float *x, const float *right, int columns, const Answer &all, const Answer &among) {
  float others = 0;
  for (int c = 0; c < columns; c++) others += right[c] == 0 ? expf(x[c] - all.top) : 0;
  if (others < 0.5f * all.sum) return -log1pf(-others / all.sum);
  return all.top - among.top + logf(all.sum / among.sum);
}

// choiceLoss: loss, stats <- logits, right. One block.
KERNEL(256, 4, choiceLoss, (float *loss, float *stats, const float *x, const float *right, Choice a)) {
  SHARED(float, shared);
  float sum = 0, count = 0;
  for (int row = threadIdx.x; row < a.rows; row += 256) {
    const float *logits = x + (size_t)row * a.columns, *truth = right + (size_t)row * a.columns;
    const Answer among = answerOf(logits, a.columns, [&](int c) { return truth[c] != 0; });
    if (among.sum == 0) continue;
    sum += choiceOf(logits, truth, a.columns, answerOf(logits, a.columns, [](int) { return true; }), among);
    count++;
  }
  sum = sumOfBlock<256>(sum, shared);
  count = sumOfBlock<256>(count, shared);
  if (threadIdx.x) return;
  for (int i = 0; i < a.stats; i++) stats[i] = 0;
  stats[0] = *loss = sum / (count > 1 ? count : 1), stats[2] = count;
}

// dlogits <- logits, right, stats, dloss: a thread a row
KERNEL(256, 4, choiceLossGrad, (float *dx, const float *x, const float *right, const float *stats, const float *dloss, Choice a)) {
  const int row = blockIdx.x * 256 + threadIdx.x;
  if (row >= a.rows) return;
  const float *logits = x + (size_t)row * a.columns, *truth = right + (size_t)row * a.columns;
  const Answer all = answerOf(logits, a.columns, [](int) { return true; }), among = answerOf(logits, a.columns, [&](int c) { return truth[c] != 0; });
  const float factor = *dloss / (stats[2] > 1 ? stats[2] : 1);
  for (int c = 0; c < a.columns; c++) {
    float d = expf(logits[c] - all.top) / all.sum;
    if (truth[c] != 0) d -= expf(logits[c] - among.top) / among.sum;
    dx[(size_t)row * a.columns + c] = among.sum == 0 ? 0 : factor * d;
  }
}
