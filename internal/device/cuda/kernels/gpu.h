// What a kernel may use. One source, two machines: NVRTC or nvcc make it code for a GPU, a C++
// compiler with sim/intrinsics.h makes it code for the simulated one.
//
// The rules of all kernels here:
//   - A kernel's arguments are addresses, or many of them as one Addresses, then at most one struct
//     of 4-byte numbers.
//   - All threads of a block reach all barriers, all lanes of a warp everything that a warp executes
//     together; no thread ends before.
//   - Shared memory is what the launch gives: SHARED names its beginning.
//   - No sum depends on the order in which blocks run. There are no atomic additions.
#pragma once
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef decltype(sizeof(0)) size_t;
struct Addresses {
  void *of[64];
};
#define KERNEL(threads, perSM, name, parameters) extern "C" __global__ void __launch_bounds__(threads, perSM) name parameters
#define FN static __device__ __forceinline__
#define CONSTANT static constexpr
#define FN_MEMBER __device__ __forceinline__
#define SHARED(T, name)                                  \
  extern __shared__ __align__(1024) unsigned char dynamic[]; \
  T *name = reinterpret_cast<T *>(dynamic)

FN void barrier() { __syncthreads(); }
FN void warpBarrier() { __syncwarp(); }
FN float asFloat(uint32_t v) { return __uint_as_float(v); }
FN uint32_t asBits(float f) { return __float_as_uint(f); }
FN float shuffleXor(float v, uint32_t mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
FN uint32_t sharedAddress(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
// 16 bytes from global to shared memory, zeros where !there; done after waitAsync
FN void copyAsync16(void *to, const void *from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
FN void commitAsync() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// waits for all but the last N groups that this thread committed
template <int N> FN void waitAsync() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
// four 8x8 matrices of 16-bit elements; lane l gives the address of row l%8 of matrix l/8
FN void loadMatrix4(uint32_t (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(sharedAddress(row)) : "memory");
}
// the same, each matrix transposed
FN void loadMatrix4T(uint32_t (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(sharedAddress(row)) : "memory");
}
// two of them, each transposed; lanes 0 to 15 give the addresses
FN void loadMatrix2T(uint32_t (&r)[2], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(sharedAddress(row)) : "memory");
}
// d (16x8) += a (16x16) b (16x8)
FN void mmaBf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d (16x8) += a (16x8) b (8x8)
FN void mmaTf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FN uint32_t toTf32(float f) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(f));
  return r;
}
FN uint32_t packBf16(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// Products of four warps, of compute capability 9.0 alone. They read both matrices from shared memory
// while the warps go on: what was copied there counts once fenceProducts stands between waitAsync and
// the barrier, and accumulators and matrices are theirs until waitProducts.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WARPGROUPS
#define F4(v) "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
// A matrix of 16 k in shared memory: pieces of 8 rows of 8 k, 128 bytes each; leading and stride are the
// bytes from one piece to the next along k and along the rows. It begins 16 bytes later where one is added to start.
struct SharedMatrix {
  uint32_t start, stride;
};
FN SharedMatrix matrixOf(const void *p, int leading, int stride) { return {sharedAddress(p) >> 4 | (uint32_t)leading >> 4 << 16, (uint32_t)stride >> 4}; }
// a value that all lanes of a warp have, as the compiler cannot know
FN uint32_t uniform(uint32_t v) { return __shfl_sync(0xffffffffu, v, 0); }
FN void fenceProducts() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FN void beginProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FN void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// waits for all but the last N groups that were committed
template <int N> FN void waitProducts() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// nothing that uses these registers moves across
FN void keepInPlace(float (&d)[4]) { asm volatile("" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory"); }
// d (64 x 32) += a (64 x 16) b (32 x 16)^T: warp w of the four has rows 16 w to 16 w + 15, as mmaBf16 has them
FN void multiplyGroup(float (&d)[4][4], SharedMatrix a, SharedMatrix b) {
  asm volatile("{.reg .pred p;.reg .b64 a, b;setp.eq.u32 p, 0, 0;mov.b64 a, {%16, %17};mov.b64 b, {%18, %19};wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, a, b, p, 1, 1, 0, 0;}"
               : F4(d[0]), F4(d[1]), F4(d[2]), F4(d[3]) : "r"(a.start), "r"(a.stride), "r"(b.start), "r"(b.stride));
}
// low and high side by side (64 x 64) += a (64 x 16) b (64 x 16)^T
FN void multiplyGroup(float (&low)[4][4], float (&high)[4][4], SharedMatrix a, SharedMatrix b) {
  asm volatile("{.reg .pred p;.reg .b64 a, b;setp.eq.u32 p, 0, 0;mov.b64 a, {%32, %33};mov.b64 b, {%34, %35};wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
               "a, b, p, 1, 1, 0, 0;}"
               : F4(low[0]), F4(low[1]), F4(low[2]), F4(low[3]), F4(high[0]), F4(high[1]), F4(high[2]), F4(high[3])
               : "r"(a.start), "r"(a.stride), "r"(b.start), "r"(b.stride));
}
// d (64 x 32 K) += a^T b for matrices whose pieces are 8 k of 8 rows: each piece turned, and leading and stride as above
#define F16(v) F4(v[0]), F4(v[1]), F4(v[2]), F4(v[3])
FN void multiplyTurned(float (&d)[3][4][4], SharedMatrix a, SharedMatrix b) {
  asm volatile("{.reg .pred p;.reg .b64 a, b;setp.eq.u32 p, 0, 0;mov.b64 a, {%48, %49};mov.b64 b, {%50, %51};wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}, "
               "a, b, p, 1, 1, 1, 1;}"
               : F16(d[0]), F16(d[1]), F16(d[2])
               : "r"(a.start), "r"(a.stride), "r"(b.start), "r"(b.stride));
}
FN void multiplyTurned(float (&d)[5][4][4], SharedMatrix a, SharedMatrix b) {
  asm volatile("{.reg .pred p;.reg .b64 a, b;setp.eq.u32 p, 0, 0;mov.b64 a, {%80, %81};mov.b64 b, {%82, %83};wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
               "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79}, "
               "a, b, p, 1, 1, 1, 1;}"
               : F16(d[0]), F16(d[1]), F16(d[2]), F16(d[3]), F16(d[4])
               : "r"(a.start), "r"(a.stride), "r"(b.start), "r"(b.stride));
}
#endif
FN uint32_t highProduct(uint32_t a, uint32_t b) { return __umulhi(a, b); }
FN float reciprocalRoot(float x) { return rsqrtf(x); }
FN float product(float a, float b) { return __fmul_rn(a, b); } // rounded, never part of an fma
#else
#include "../sim/intrinsics.h"
#endif

// --- Numbers

struct bf16 {
  uint16_t bits;
};
FN float toFloat(float v) { return v; }
FN float toFloat(bf16 v) { return asFloat((uint32_t)v.bits << 16); }
FN void put(float *p, float v) { *p = v; }
FN void put(bf16 *p, float v) { p->bits = (uint16_t)packBf16(v, 0); }

// how many elements 16 bytes hold
template <class T> struct Vector {
  CONSTANT int size = 16 / sizeof(T);
};

// V elements from p on: one, or 16 bytes at a multiple of 16
template <int V> FN void load(float (&v)[V], const float *p) {
  if constexpr (V == 1) {
    v[0] = *p;
  } else {
    const float4 q = *reinterpret_cast<const float4 *>(p);
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
  }
}
template <int V> FN void load(float (&v)[V], const bf16 *p) {
  if constexpr (V == 1) {
    v[0] = toFloat(*p);
  } else {
    const uint4 q = *reinterpret_cast<const uint4 *>(p);
    const uint32_t pair[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = asFloat(i % 2 ? pair[i / 2] & 0xffff0000u : pair[i / 2] << 16);
  }
}
template <int V> FN void store(float *p, const float (&v)[V]) {
  if constexpr (V == 1)
    *p = v[0];
  else
    *reinterpret_cast<float4 *>(p) = {v[0], v[1], v[2], v[3]};
}
template <int V> FN void store(bf16 *p, const float (&v)[V]) {
  if constexpr (V == 1)
    put(p, v[0]);
  else
    *reinterpret_cast<uint4 *>(p) = {packBf16(v[0], v[1]), packBf16(v[2], v[3]), packBf16(v[4], v[5]), packBf16(v[6], v[7])};
}

// V elements as they lie in memory: 4 registers hold 16 bytes, for as long as they are on their way
// or not yet used
template <class T, int V> struct Raw {
  uint32_t word[V == 1 ? 1 : 4];

  // zeros where !there
  FN_MEMBER void load(const T *p, bool there) {
    if constexpr (V == 1) {
      word[0] = there ? asBits(toFloat(*p)) : 0;
    } else {
      const uint4 q = there ? *reinterpret_cast<const uint4 *>(p) : uint4{0, 0, 0, 0};
      word[0] = q.x, word[1] = q.y, word[2] = q.z, word[3] = q.w;
    }
  }
  FN_MEMBER float at(int i) const {
    if constexpr (V == 1 || sizeof(T) == 4) return asFloat(word[i]);
    return asFloat(i % 2 ? word[i / 2] & 0xffff0000u : word[i / 2] << 16);
  }
};

// not an infinity, not a NaN
FN bool isFinite(float v) { return (asBits(v) & 0x7f800000u) != 0x7f800000u; }

// --- Division by a number that the host knows: n / d for n < 2^31. The host gives m and s, see
// divisor in launch.go; Granlund and Montgomery 1994.
struct Divisor {
  uint32_t d, m, s;
};
FN uint32_t quotient(uint32_t n, Divisor d) { return (highProduct(n, d.m) + n) >> d.s; }

// --- Mean and sum of squared deviations of a number of values

struct Moments {
  float count, mean, m2;
};
// both together: Chan, Golub and LeVeque 1979
FN Moments merge(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (!(count > 0)) return a;
  const float d = b.mean - a.mean, part = b.count / count;
  return {count, a.mean + d * part, a.m2 + b.m2 + d * d * a.count * part};
}

// sumOfBlock adds a value of each of so many threads, in a fixed order; all get the sum. Shared memory:
// as many floats, which nobody reads or writes meanwhile.
template <int threads> FN float sumOfBlock(float v, float *shared) {
  barrier();
  shared[threadIdx.x] = v;
  barrier();
  for (int half = threads / 2; half; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    barrier();
  }
  const float sum = shared[0];
  barrier();
  return sum;
}
