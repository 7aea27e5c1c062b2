// Convolution of any shape as an implicit matrix product, forward and as adjoint.
//
//	y[voxel, o] = b[o] + sum over k = (tap, i) of x[voxel + tap, i] w[o, tap, i]
//
// The rows of the left matrix are never in memory: cp.async gathers 16 bytes of a voxel at a time into
// shared memory, four stages ahead. The adjoint of a convolution with stride s is s^3 convolutions
// (phases), each of the voxels that the same taps reach.
#include "product.h"

struct Conv {
  int images, groups;
  int in, out;           // channels of a group that are read and written
  int from[3], to[3];    // sizes that are read and written
  int kernel[3], stride[3], pad[3];
  int transposed;
};

FN int tapsOf(const Conv &a) { return a.kernel[0] * a.kernel[1] * a.kernel[2]; }

// An Axis says which voxels a phase writes along an axis, and which it reads for them: voxel i of the
// phase is origin + step i, tap j of it reads base(i) + sign j and is tap first + step j of the kernel.
struct Axis {
  int count, origin, step, scale, shift, sign, taps, first, tapStep;
};

FN Axis axisOf(const Conv &a, int i, int phase) {
  const int s = a.stride[i];
  if (!a.transposed) return {a.to[i], 0, 1, s, -a.pad[i], 1, a.kernel[i], 0, 1};
  const int first = (phase + a.pad[i]) % s;
  const int count = phase < a.to[i] ? (a.to[i] - phase + s - 1) / s : 0, taps = first < a.kernel[i] ? (a.kernel[i] - first + s - 1) / s : 0;
  return {count, phase, s, 1, (phase + a.pad[i] - first) / s, -1, taps, first, s};
}

// A Cursor walks along k = (tap, channel).
struct Cursor {
  int channel, tap[3];
};
FN void advance(Cursor &c, int by, int channels, const Axis (&axis)[3]) {
  c.channel += by;
  while (c.channel >= channels) {
    c.channel -= channels;
    if (++c.tap[2] >= axis[2].taps) {
      c.tap[2] = 0;
      if (++c.tap[1] >= axis[1].taps) c.tap[1] = 0, ++c.tap[0];
    }
  }
}

// Row is what a row of the tile reads from: the voxel that tap 0 falls on.
struct Row {
  int image, at[3]; // image is -1 where there is no row
};

template <class T> struct Gather {
  const Conv &a;
  const Axis (&axis)[3];

  // the element of x that a tap of a row reads, null where that is outside
  FN_MEMBER const T *of(const T *x, const Row &r, const Cursor &c, int group) const {
    if (r.image < 0 || c.tap[0] >= axis[0].taps) return nullptr;
    const int z = r.at[0] + axis[0].sign * c.tap[0], y = r.at[1] + axis[1].sign * c.tap[1], w = r.at[2] + axis[2].sign * c.tap[2];
    if (z < 0 || z >= a.from[0] || y < 0 || y >= a.from[1] || w < 0 || w >= a.from[2]) return nullptr;
    return x + ((((size_t)r.image * a.from[0] + z) * a.from[1] + y) * a.from[2] + w) * (a.in * a.groups) + group * a.in + c.channel;
  }

  // where the weights of column o are for that tap, null where there is none
  FN_MEMBER const T *weight(const T *w, int o, const Cursor &c, int group) const {
    if (o >= a.out || c.tap[0] >= axis[0].taps) return nullptr;
    int tap = 0;
#pragma unroll
    for (int i = 0; i < 3; i++) tap = tap * a.kernel[i] + axis[i].first + axis[i].tapStep * c.tap[i];
    return w + ((size_t)(group * a.out + o) * tapsOf(a) + tap) * a.in + c.channel;
  }
};

//	grid: x tiles of 128 voxels of a phase, y groups x tiles of N channels, z phases
template <class K, int N> FN void conv(typename K::Type *y, Moments *moments, const typename K::Type *x, const typename K::Type *w, const float *bias, const Conv &a) {
  typedef typename K::Type T;
  typedef Tiling<N> Tile;
  constexpr int V = Vector<T>::size, chunk = convRowBytes / sizeof(T), stageBytes = (Tile::M + N) * convPitch;
  SHARED(unsigned char, shared);
  Row *rows = reinterpret_cast<Row *>(shared + convStages * stageBytes); // (M)
  int *voxels = reinterpret_cast<int *>(rows + Tile::M);                 // (M)
  const int tilesN = (a.out + N - 1) / N, group = blockIdx.y / tilesN, first = blockIdx.y % tilesN * N;
  const int phase = blockIdx.z;
  const Axis axis[3] = {axisOf(a, 0, phase / (a.stride[1] * a.stride[2])), axisOf(a, 1, phase / a.stride[2] % a.stride[1]), axisOf(a, 2, phase % a.stride[2])};
  const int perImage = axis[0].count * axis[1].count * axis[2].count;
  if ((int)(blockIdx.x * Tile::M) >= a.images * perImage) return; // phases differ in size; all threads
  if ((int)threadIdx.x < Tile::M) {
    int i = blockIdx.x * Tile::M + threadIdx.x;
    Row r = {-1, {0, 0, 0}};
    int voxel = -1;
    if (i < a.images * perImage) {
      int at[3];
      at[2] = i % axis[2].count, i /= axis[2].count;
      at[1] = i % axis[1].count, i /= axis[1].count;
      at[0] = i % axis[0].count, r.image = i / axis[0].count;
      voxel = r.image;
#pragma unroll
      for (int k = 0; k < 3; k++) {
        r.at[k] = at[k] * axis[k].scale + axis[k].shift;
        voxel = voxel * a.to[k] + axis[k].origin + axis[k].step * at[k];
      }
    }
    rows[threadIdx.x] = r, voxels[threadIdx.x] = voxel;
  }
  barrier();

  const Gather<T> gather = {a, axis};
  const int depth = axis[0].taps * axis[1].taps * axis[2].taps * a.in, chunks = (depth + chunk - 1) / chunk;
  const bool vectors = a.in % V == 0;
  // 16 bytes of four rows, or one column of all elements
  const int perRow = vectors ? 4 : chunk, column = threadIdx.x % perRow, row = threadIdx.x / perRow, step = Tile::threads / perRow;
  const Row mine[2] = {rows[row], rows[vectors ? row + step : row]};
  Cursor cursor = {0, {0, 0, 0}};
  advance(cursor, vectors ? column * V : column, a.in, axis);
  auto fetch = [&](int stage) {
    unsigned char *left = shared + stage * stageBytes, *right = left + Tile::M * convPitch;
    if (vectors) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const T *from = gather.of(x, mine[i], cursor, group);
        copyAsync16(left + (row + i * step) * convPitch + 16 * column, from ? from : x, from != nullptr);
      }
      if (row < N) {
        const T *from = gather.weight(w, first + row, cursor, group);
        copyAsync16(right + row * convPitch + 16 * column, from ? from : w, from != nullptr);
      }
    } else {
      for (int r = row; r < Tile::M; r += step) {
        const T *from = gather.of(x, rows[r], cursor, group);
        put(reinterpret_cast<T *>(left + r * convPitch) + column, from ? toFloat(*from) : 0);
      }
      for (int r = row; r < N; r += step) {
        const T *from = gather.weight(w, first + r, cursor, group);
        put(reinterpret_cast<T *>(right + r * convPitch) + column, from ? toFloat(*from) : 0);
      }
    }
    advance(cursor, chunk, a.in, axis);
  };

  for (int s = 0; s < convStages - 1; s++) {
    if (s < chunks) fetch(s);
    commitAsync();
  }
  Accumulator<K, N> sums;
  for (int c = 0; c < chunks; c++) {
    waitAsync<convStages - 2>();
    barrier(); // stage c is there, and nobody reads the one before it any more
    if (c + convStages - 1 < chunks) fetch((c + convStages - 1) % convStages);
    commitAsync();
    const unsigned char *left = shared + c % convStages * stageBytes;
    sums.add(left, left + Tile::M * convPitch);
  }
  waitAsync<0>();
  barrier();
  float *out = reinterpret_cast<float *>(shared);
  const int live = min(N, a.out - first);
  sums.put(out, bias ? bias + group * a.out + first : nullptr, live);
  barrier();
  const Result result = {out, Tile::M, Tile::pitch, live, a.out * a.groups, group * a.out + first, out + Tile::M * Tile::pitch, Tile::threads};
  // moments: (images, tiles, channels); a tile is of one image, the host sees to that
  Moments *to = moments ? moments + (size_t)blockIdx.x * a.out * a.groups : nullptr;
  writeResult<T, N>(y, to, result, [&](int r) { return voxels[r]; });
}

// A Pack is a convolution without the taps that reach no voxel, and where these are in the kernel that w has.
struct Pack {
  Conv conv;
  int whole[3], first[3];
};

// packWeights: w (Out, In, whole taps) in float32 as the convolution wants them, (groups, out, taps, in).
template <class K> FN void packWeights(typename K::Type *to, const float *w, const Pack &p) {
  const Conv &a = p.conv;
  const int taps = tapsOf(a), whole = p.whole[0] * p.whole[1] * p.whole[2], n = a.groups * a.out * taps * a.in;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    const int in = i % a.in, tap = i / a.in % taps, out = i / (a.in * taps) % a.out, group = i / (a.in * taps * a.out);
    const int z = tap / (a.kernel[1] * a.kernel[2]), y = tap / a.kernel[2] % a.kernel[1], x = tap % a.kernel[2];
    const size_t row = a.transposed ? (size_t)(group * a.in + in) * a.out + out : (size_t)(group * a.out + out) * a.in + in;
    put(to + i, w[row * whole + ((z + p.first[0]) * p.whole[1] + y + p.first[1]) * p.whole[2] + x + p.first[2]]);
  }
}

#define CONV(K, N, perSM, suffix)                                                                                                      \
  KERNEL(256, perSM, conv##suffix, (K::Type * y, Moments * moments, const K::Type *x, const K::Type *w, const float *bias, Conv a)) {      \
    conv<K, N>(y, moments, x, w, bias, a);                                                                                             \
  }
CONV(Fp32, 16, 2, _fp32_16)
CONV(Fp32, 32, 2, _fp32_32)
CONV(Fp32, 64, 2, _fp32_64)
CONV(Tf32, 16, 3, _tf32_16)
CONV(Tf32, 32, 2, _tf32_32)
CONV(Tf32, 64, 2, _tf32_64)
CONV(Bf16, 16, 3, _bf16_16)
CONV(Bf16, 32, 2, _bf16_32)
CONV(Bf16, 64, 2, _bf16_64)
KERNEL(256, 4, packWeights_f32, (float *to, const float *w, Pack a)) { packWeights<Fp32>(to, w, a); }
KERNEL(256, 4, packWeights_bf16, (bf16 *to, const float *w, Pack a)) { packWeights<Bf16>(to, w, a); }
