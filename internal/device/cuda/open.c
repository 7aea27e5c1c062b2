//go:build gpu

// The CUDA driver, opened when a device is. gorgonia.org/cu calls the driver's functions as if the
// program were linked with libcuda.so.1. Here each of them is a jump through a slot, which points
// into the driver once that is open and before that to a function that answers "no device". cuInit
// alone answers success before that: cu calls it when the program starts, and ends it where it fails.
#define _GNU_SOURCE
#include "open.h"
#include "cudnn.h"
#include "nccl.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int missing(void) { return CUDA_ERROR_NO_DEVICE; }
static int fine(void) { return CUDA_SUCCESS; }

// The attribute keeps a slot that only the assembly names.
#define X(name)                                                                                   \
  __attribute__((used)) void *vs_slot_##name = (void *)missing;                                   \
  __asm__(".pushsection .text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n\tendbr64\n" \
          "\tjmp *vs_slot_" #name "(%rip)\n.popsection\n");
#include "symbols.h"
#undef X

__attribute__((constructor)) static void before(void) { vs_slot_cuInit = (void *)fine; }

static void *library;

int vs_open(const char *path, char *message, int size) {
  if (!library) {
    library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      snprintf(message, size, "%s", dlerror());
      return vs_no_library;
    }
#define X(name)                                \
  {                                            \
    void *f = dlsym(library, #name);           \
    if (f) vs_slot_##name = f;                 \
  }
#include "symbols.h"
#undef X
  }
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
  return init ? init(0) : vs_no_init;
}

void vs_describe(int error, char *message, int size) {
  const char *name = NULL, *text = NULL;
  if (vs_nccl_explain(error, message, size) || vs_cudnn_explain(error, message, size)) return;
  if (cuGetErrorName(error, &name) || cuGetErrorString(error, &text) || !name || !text)
    snprintf(message, size, "CUDA error %d", error);
  else
    snprintf(message, size, "%s (%s)", text, name);
}

int vs_enter(CUcontext c) {
  CUcontext now = NULL;
  if (cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == c) return CUDA_SUCCESS;
  return cuCtxSetCurrent(c);
}

#define ENTER(c)          \
  int r = vs_enter(c);    \
  if (r) return r

int vs_run(CUcontext c, CUstream s, const vs_launch *l, int n, int *failed) {
  ENTER(c);
  for (int i = 0; i < n; i++, l++) {
    *failed = i;
    if (l->plan) {
      if ((r = vs_cudnn_run(l->plan, l->pointer))) return r;
      continue;
    }
    int arguments = l->together ? 1 : l->pointers;
    void *params[sizeof l->pointer / sizeof l->pointer[0] + 1];
    for (int p = 0; p < arguments; p++) params[p] = (void *)&l->pointer[p];
    params[arguments] = (void *)l->word;
    r = cuLaunchKernel((CUfunction)l->function, l->grid[0], l->grid[1], l->grid[2], l->threads, 1, 1, l->shared, s, params, NULL);
    if (r) return r;
  }
  return CUDA_SUCCESS;
}

int vs_shared_memory(CUcontext c, unsigned long long function, int bytes) {
  ENTER(c);
  return cuFuncSetAttribute((CUfunction)function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}
int vs_pin(CUcontext c, void **p, size_t bytes) {
  ENTER(c);
  return cuMemHostAlloc(p, bytes, 0);
}
int vs_unpin(CUcontext c, void *p) {
  ENTER(c);
  return cuMemFreeHost(p);
}
int vs_zero(CUcontext c, CUdeviceptr p, size_t bytes, CUstream s) {
  ENTER(c);
  return bytes % 4 ? cuMemsetD8Async(p, 0, bytes, s) : cuMemsetD32Async(p, 0, bytes / 4, s);
}
int vs_upload(CUcontext c, CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
  ENTER(c);
  return cuMemcpyHtoDAsync(to, from, bytes, s);
}
int vs_download(CUcontext c, void *to, CUdeviceptr from, size_t bytes, CUstream s) {
  ENTER(c);
  return cuMemcpyDtoHAsync(to, from, bytes, s);
}
int vs_sync(CUcontext c, CUstream s) {
  ENTER(c);
  return cuStreamSynchronize(s);
}
int vs_memory(CUcontext c, size_t *free, size_t *total) {
  ENTER(c);
  return cuMemGetInfo(free, total);
}
int vs_begin_capture(CUcontext c, CUstream s) {
  ENTER(c);
  return cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}
int vs_end_capture(CUcontext c, CUstream s, CUgraphExec *e) {
  ENTER(c);
  CUgraph g = NULL;
  if ((r = cuStreamEndCapture(s, &g))) return r;
  r = cuGraphInstantiate(e, g, 0);
  cuGraphDestroy(g);
  return r;
}
int vs_launch_graph(CUcontext c, CUgraphExec e, CUstream s) {
  ENTER(c);
  return cuGraphLaunch(e, s);
}
int vs_close_graph(CUcontext c, CUgraphExec e) {
  ENTER(c);
  return cuGraphExecDestroy(e);
}
int vs_elapsed(CUcontext c, CUevent from, CUevent to, float *ms) {
  ENTER(c);
  return cuEventElapsedTime(ms, from, to);
}
