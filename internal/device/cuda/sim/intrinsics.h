// What kernels/gpu.h offers to kernels, on the simulated GPU. What all lanes of a warp execute
// together leaves its operands with the lane and meets the others; the last one computes for all.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "block.h"

struct uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };

struct Addresses { void *of[64]; };

#define FN static inline __attribute__((always_inline))
#define CONSTANT static constexpr
#define FN_MEMBER __attribute__((always_inline))

namespace sim {

// Call reads the arguments of a kernel from where the driver left them.
template <class F> struct Call;
template <class... A> struct Call<void(A...)> {
  static constexpr int count = sizeof...(A);
  static constexpr size_t sizes[] = {sizeof(A)...};
  static constexpr int pointers[] = {std::is_same_v<A, Addresses> ? 64 : int(std::is_pointer_v<A>)...};
  template <void (*kernel)(A...)> static void run(void **arguments) { unpack<kernel>(arguments, std::index_sequence_for<A...>{}); }
  template <void (*kernel)(A...), size_t... I> static void unpack(void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<A> *>(arguments[I])...);
  }
};

template <auto kernel> bool registered(const char *name, int threads) {
  using C = Call<std::remove_pointer_t<decltype(kernel)>>;
  add({name, C::template run<kernel>, threads, C::count, C::sizes, C::pointers});
  return true;
}

inline uint32_t bits(float f) { uint32_t v; memcpy(&v, &f, 4); return v; }
inline float value(uint32_t v) { float f; memcpy(&f, &v, 4); return f; }

inline void checkShared(const void *p, size_t align, const char *what) {
  auto b = static_cast<const unsigned char *>(p);
  if (b < block.shared || b + align > block.shared + block.sharedBytes) fail("%s: byte %td of %zu bytes of shared memory", what, b - block.shared, block.sharedBytes);
  if (reinterpret_cast<uintptr_t>(p) % align) fail("%s: the address is no multiple of %zu", what, align);
}

inline void arriveCopy(const Copy &c) {
  if (c.there)
    memcpy(c.to, c.from, 16);
  else
    memset(c.to, 0, 16);
}

// --- What the last lane of a warp executes. The layouts of fragments are those of the PTX manual.

inline void executeShuffle(Warp &w) {
  uint32_t v[32];
  for (int l = 0; l < 32; l++) v[l] = w.lanes[l].value;
  for (int l = 0; l < 32; l++) *static_cast<uint32_t *>(w.lanes[l].result) = v[reinterpret_cast<uintptr_t>(w.lanes[l].operand[0]) % 32];
}

inline const char *matrixRow(Warp &w, int matrix, int row) { return static_cast<const char *>(w.lanes[8 * matrix + row].operand[0]); }

inline void executeLoadMatrix(Warp &w) {
  for (int l = 0; l < 32; l++)
    for (int m = 0; m < 4; m++) memcpy(static_cast<uint32_t *>(w.lanes[l].result) + m, matrixRow(w, m, l / 4) + 4 * (l % 4), 4);
}

inline void executeLoadMatrixT(Warp &w) {
  for (int l = 0; l < 32; l++)
    for (int m = 0; m < 4; m++)
      for (int half = 0; half < 2; half++)
        memcpy(static_cast<char *>(w.lanes[l].result) + 4 * m + 2 * half, matrixRow(w, m, 2 * (l % 4) + half) + 2 * (l / 4), 2);
}

// multiply adds a (16 x K) b (K x 8) to the accumulators of the warp.
template <int K> inline void multiply(Warp &w, const float (&a)[16][K], const float (&b)[K][8]) {
  for (int row = 0; row < 16; row++) {
    float sum[8] = {};
    for (int k = 0; k < K; k++)
      for (int col = 0; col < 8; col++) sum[col] += a[row][k] * b[k][col];
    for (int col = 0; col < 8; col++) static_cast<float *>(w.lanes[4 * (row % 8) + col / 2].result)[2 * (row / 8) + col % 2] += sum[col];
  }
}

inline void executeMmaBf16(Warp &w) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; l++) {
    auto ra = static_cast<const uint32_t *>(w.lanes[l].operand[0]), rb = static_cast<const uint32_t *>(w.lanes[l].operand[1]);
    for (int i = 0; i < 4; i++) {
      float *to = &a[l / 4 + i % 2 * 8][2 * (l % 4) + i / 2 * 8];
      to[0] = value(ra[i] << 16), to[1] = value(ra[i] & 0xffff0000u);
    }
    for (int i = 0; i < 2; i++) {
      int k = 2 * (l % 4) + i * 8;
      b[k][l / 4] = value(rb[i] << 16), b[k + 1][l / 4] = value(rb[i] & 0xffff0000u);
    }
  }
  multiply<16>(w, a, b);
}

inline void executeMmaTf32(Warp &w) {
  float a[16][8], b[8][8];
  constexpr uint32_t kept = 0xffffe000u; // the ten bits of the fraction that the multiplier looks at
  for (int l = 0; l < 32; l++) {
    auto ra = static_cast<const uint32_t *>(w.lanes[l].operand[0]), rb = static_cast<const uint32_t *>(w.lanes[l].operand[1]);
    for (int i = 0; i < 4; i++) a[l / 4 + i % 2 * 8][l % 4 + i / 2 * 4] = value(ra[i] & kept);
    for (int i = 0; i < 2; i++) b[l % 4 + i * 4][l / 4] = value(rb[i] & kept);
  }
  multiply<8>(w, a, b);
}

// A wgmma's matrix: where its piece of 8 rows and 8 k lies, in bytes of shared memory.
inline const uint16_t *pieceAt(uint64_t matrix, int row, int k) {
  size_t at = (matrix & 0x3fff) * 16 + (matrix >> 16 & 0x3fff) * 16 * (k / 8) + (matrix >> 32 & 0x3fff) * 16 * (row / 8);
  if (at + 128 > block.sharedBytes) fail("wgmma: byte %zu of %zu bytes of shared memory", at + 128, block.sharedBytes);
  return reinterpret_cast<const uint16_t *>(block.shared + at);
}
// the 8 elements of a row from k on: neighbours, or, of a matrix that is turned, 8 elements apart
inline void load8(float *to, uint64_t matrix, int row, int k, bool turned) {
  const uint16_t *piece = pieceAt(matrix, row, k);
  for (int i = 0; i < 8; i++) to[i] = value(uint32_t(turned ? piece[8 * i + row % 8] : piece[row % 8 * 8 + i]) << 16);
}

inline void compute(Warp &w, const Product &p) {
  if (lanesPassed) fail("wgmma: %d threads copied to shared memory without fenceProducts before the barrier", lanesPassed);
  const int first = (w.lanes[0].thread.x / 32) % 4 * 16;
  for (int row = 0; row < 16; row++) {
    float a[16], b[8], sum[160] = {};
    for (int k = 0; k < 16; k += 8) load8(a + k, p.a, first + row, k, p.turned);
    for (int column = 0; column < p.columns; column++)
      for (int k = 0; k < 16; k += 8) {
        load8(b, p.b, column, k, p.turned);
        for (int i = 0; i < 8; i++) sum[column] += a[k + i] * b[i];
      }
    for (int column = 0; column < p.columns; column++)
      p.results[column / 32][4 * (row % 8) + column % 8 / 2][4 * (column % 32 / 8) + 2 * (row / 8) + column % 2] += sum[column];
  }
}

// finish computes the oldest products of a warp until so many are left
inline void finishProducts(Warp &w, int left) {
  int done = w.productCount - left;
  for (int i = 0; i < done; i++) compute(w, w.products[i]);
  for (int i = 0; i < left; i++) w.products[i] = w.products[done + i];
  w.productCount = left;
}

template <int columns, bool turned = false> inline void executeProduct(Warp &w) {
  if (w.productCount == productMost) fail("wgmma: more than %d products are under way", productMost);
  Product &p = w.products[w.productCount++];
  p.a = w.lanes[0].matrices[0], p.b = w.lanes[0].matrices[1], p.columns = columns, p.turned = turned;
  p.group = w.group;
  for (int l = 0; l < 32; l++) {
    if (w.lanes[l].matrices[0] != p.a || w.lanes[l].matrices[1] != p.b) fail("wgmma: lanes have different matrices");
    p.results[0][l] = static_cast<float *>(w.lanes[l].result);
    p.results[1][l] = static_cast<float *>(const_cast<void *>(w.lanes[l].operand[0]));
    for (int i = 1; turned && i < columns / 32; i++) p.results[i][l] = p.results[0][l] + 16 * i; // in one piece
  }
  if (random() % 4 == 0) finishProducts(w, 0); // most are computed as late as they may
}

inline void executeUniform(Warp &w) {
  for (int l = 1; l < 32; l++)
    if (w.lanes[l].value != w.lanes[0].value) fail("lanes have different values where all should have the same");
}

inline void executeCommit(Warp &w) { w.group++; }

template <int N> inline void executeWait(Warp &w) {
  int left = 0;
  while (left < w.productCount && w.products[w.productCount - 1 - left].group + N >= w.group) left++;
  finishProducts(w, left);
}

} // namespace sim

#define threadIdx (sim::self->thread)
#define blockIdx (sim::block.index)
#define blockDim (sim::block.threads)
#define gridDim (sim::block.grid)
#define KERNEL(threads, perSM, name, parameters)                                         \
  static void name parameters;                                                           \
  static const bool registered_##name = sim::registered<&name>(#name, threads);          \
  static void name parameters
#define SHARED(T, name) T *name = reinterpret_cast<T *>(sim::block.shared)
#define LINE int line = __builtin_LINE()

FN void barrier(LINE) { sim::meet(sim::Meeting::Block, "barrier", line, nullptr); }
FN void warpBarrier(LINE) { sim::meet(sim::Meeting::Warp, "warpBarrier", line, nullptr); }

FN float asFloat(uint32_t v) { return sim::value(v); }
FN uint32_t asBits(float f) { return sim::bits(f); }

FN float shuffleXor(float v, uint32_t mask, LINE) {
  uint32_t r;
  sim::self->value = sim::bits(v);
  sim::self->operand[0] = reinterpret_cast<void *>(uintptr_t(sim::self->number ^ mask));
  sim::self->result = &r;
  sim::meet(sim::Meeting::Warp, "shuffleXor", line, sim::executeShuffle);
  asm volatile("" ::: "memory"); // another lane wrote r
  return sim::value(r);
}

FN void copyAsync16(void *to, const void *from, bool there) {
  sim::checkShared(to, 16, "cp.async");
  if (there && reinterpret_cast<uintptr_t>(from) % 16) sim::fail("cp.async: the source is no multiple of 16");
  sim::Lane &l = *sim::self;
  sim::Copy c{to, from, there, l.group};
  if (l.copyCount == sim::copyMost) sim::fail("cp.async: more than %d copies of a thread are under way", sim::copyMost);
  // most copies arrive as late as they may; some at once, for whoever still reads what lay there
  if (sim::random() % 4 == 0)
    sim::arriveCopy(c);
  else
    l.copies[l.copyCount++] = c;
}

FN void commitAsync() { sim::self->group++; }

template <int N> FN void waitAsync() {
  sim::Lane &l = *sim::self;
  int left = 0;
  for (int i = 0; i < l.copyCount; i++) {
    if (l.copies[i].group + N < l.group)
      sim::arriveCopy(l.copies[i]);
    else
      l.copies[left++] = l.copies[i];
  }
  l.copyCount = left;
  l.unfenced = true;
}

FN void together(void *result, const void *a, const void *b, const char *what, int line, void (*execute)(sim::Warp &)) {
  sim::Lane &l = *sim::self;
  l.result = result, l.operand[0] = a, l.operand[1] = b;
  asm volatile("" ::: "memory");
  sim::meet(sim::Meeting::Warp, what, line, execute);
  asm volatile("" ::: "memory");
}

FN void loadMatrix4(uint32_t (&r)[4], const void *row, LINE) {
  sim::checkShared(row, 16, "ldmatrix");
  together(r, row, nullptr, "ldmatrix", line, sim::executeLoadMatrix);
}
FN void loadMatrix4T(uint32_t (&r)[4], const void *row, LINE) {
  sim::checkShared(row, 16, "ldmatrix.trans");
  together(r, row, nullptr, "ldmatrix.trans", line, sim::executeLoadMatrixT);
}
// the last two of four are not given out
FN void loadMatrix2T(uint32_t (&r)[2], const void *row, LINE) {
  uint32_t all[4];
  loadMatrix4T(all, row, line);
  r[0] = all[0], r[1] = all[1];
}
FN void mmaBf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, LINE) {
  uint32_t b[2] = {b0, b1};
  together(d, a, b, "mma.bf16", line, sim::executeMmaBf16);
}
FN void mmaTf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, LINE) {
  uint32_t b[2] = {b0, b1};
  together(d, a, b, "mma.tf32", line, sim::executeMmaTf32);
}

#define WARPGROUPS
FN uint32_t sharedAddress(const void *p) { return static_cast<const unsigned char *>(p) - sim::block.shared; }
struct SharedMatrix {
  uint32_t start, stride;
};
FN SharedMatrix matrixOf(const void *p, int leading, int stride) {
  sim::checkShared(p, 16, "wgmma");
  if (leading % 16 || stride % 16 || leading >> 18 || stride >> 18) sim::fail("wgmma: pieces %d and %d bytes apart", leading, stride);
  return {sharedAddress(p) >> 4 | uint32_t(leading) >> 4 << 16, uint32_t(stride) >> 4};
}
FN uint32_t uniform(uint32_t v, LINE) {
  sim::self->value = v;
  sim::meet(sim::Meeting::Warp, "shfl.idx", line, sim::executeUniform);
  return v;
}
FN void fenceProducts() {
  sim::Lane &l = *sim::self;
  if (l.passed) sim::lanesPassed--;
  l.unfenced = l.passed = false;
}
FN void beginProducts(LINE) { sim::meet(sim::Meeting::Warp, "wgmma.fence", line, nullptr); }
FN void commitProducts(LINE) { sim::meet(sim::Meeting::Warp, "wgmma.commit_group", line, sim::executeCommit); }
template <int N> FN void waitProducts(LINE) {
  asm volatile("" ::: "memory");
  sim::meet(sim::Meeting::Warp, "wgmma.wait_group", line, sim::executeWait<N>);
  asm volatile("" ::: "memory");
}
FN void keepInPlace(float (&d)[4]) { asm volatile("" : : "r"(d) : "memory"); }
FN void multiplyGroup(float (&d)[4][4], SharedMatrix a, SharedMatrix b, LINE) {
  sim::self->matrices[0] = uint64_t(a.stride) << 32 | a.start, sim::self->matrices[1] = uint64_t(b.stride) << 32 | b.start;
  together(d, d, nullptr, "wgmma", line, sim::executeProduct<32>);
}
FN void multiplyGroup(float (&low)[4][4], float (&high)[4][4], SharedMatrix a, SharedMatrix b, LINE) {
  sim::self->matrices[0] = uint64_t(a.stride) << 32 | a.start, sim::self->matrices[1] = uint64_t(b.stride) << 32 | b.start;
  together(low, high, nullptr, "wgmma", line, sim::executeProduct<64>);
}
template <int K> FN void multiplyTurned(float (&d)[K][4][4], SharedMatrix a, SharedMatrix b, LINE) {
  sim::self->matrices[0] = uint64_t(a.stride) << 32 | a.start, sim::self->matrices[1] = uint64_t(b.stride) << 32 | b.start;
  together(d, d, nullptr, "wgmma", line, sim::executeProduct<32 * K, true>);
}

// rounded to nearest, ties away from zero
FN uint32_t toTf32(float f) { return f != f ? 0x7fffffffu : (sim::bits(f) + 0x1000) & 0xffffe000u; }

FN uint32_t roundBf16(float f) {
  uint32_t v = sim::bits(f);
  return f != f ? 0x7fff : (v + 0x7fff + (v >> 16 & 1)) >> 16;
}
FN uint32_t packBf16(float low, float high) { return roundBf16(low) | roundBf16(high) << 16; }

FN uint32_t highProduct(uint32_t a, uint32_t b) { return uint64_t(a) * b >> 32; }
FN float reciprocalRoot(float x) { return 1 / sqrtf(x); }
FN float product(float a, float b) { return a * b; }
FN int min(int a, int b) { return a < b ? a : b; }
FN int max(int a, int b) { return a > b ? a : b; }
