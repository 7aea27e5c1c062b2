// What open.c offers to Go.
#pragma once
#include <cuda.h>

// vs_open opens the driver at a path, or where the loader looks where that is empty, and initialises
// it. It returns 0, or vs_no_library with the loader's message, or the error of cuInit.
enum { vs_no_library = -1, vs_no_init = -2 };
int vs_open(const char *path, char *message, int size);

// vs_describe writes the driver's name and explanation of an error.
void vs_describe(int error, char *message, int size);

// A vs_launch is a kernel with its arguments: addresses, then one struct of 4-byte words; or, where
// there is a plan, a convolution of cuDNN (see cudnn.h) with its four addresses. Where together is
// not 0, the addresses are one argument: gpu.h's Addresses.
typedef struct {
  const void *plan;
  unsigned long long function;
  unsigned grid[3], threads, shared;
  int pointers, words, together;
  unsigned long long pointer[64];
  unsigned word[64];
} vs_launch;

// vs_enter makes a context current on this thread.
int vs_enter(CUcontext c);

// vs_run launches kernels one after the other on a stream; it returns the first error, and in *failed
// which launch it was.
int vs_run(CUcontext c, CUstream s, const vs_launch *l, int n, int *failed);

int vs_shared_memory(CUcontext c, unsigned long long function, int bytes);
int vs_pin(CUcontext c, void **p, size_t bytes);
int vs_unpin(CUcontext c, void *p);
int vs_zero(CUcontext c, CUdeviceptr p, size_t bytes, CUstream s);
int vs_upload(CUcontext c, CUdeviceptr to, const void *from, size_t bytes, CUstream s);
int vs_download(CUcontext c, void *to, CUdeviceptr from, size_t bytes, CUstream s);
int vs_sync(CUcontext c, CUstream s);
int vs_memory(CUcontext c, size_t *free, size_t *total);
int vs_begin_capture(CUcontext c, CUstream s);
int vs_end_capture(CUcontext c, CUstream s, CUgraphExec *e);
int vs_launch_graph(CUcontext c, CUgraphExec e, CUstream s);
int vs_close_graph(CUcontext c, CUgraphExec e);
int vs_elapsed(CUcontext c, CUevent from, CUevent to, float *ms);
