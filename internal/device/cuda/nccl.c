//go:build gpu

// NCCL, opened when ranks are to sum between their GPUs. The functions are looked up by name, as
// those of cuDNN are in cudnn.c, and so the program needs no header of it to be built.
#define _GNU_SOURCE
#include "nccl.h"
#include "open.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef CUstream cudaStream_t;
enum {
#define C(name, value) name = value,
#include "nccl_symbols.h"
#undef C
};
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
_Static_assert(vs_nccl_id_bytes == sizeof(ncclUniqueId), "id");

#define F(result, name, arguments) static result(*name) arguments;
#include "nccl_symbols.h"
#undef F

int vs_nccl_open(const char *path, char *message, int size) {
  static void *library;
  if (library) return 0; // a process has one
  void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!found) {
    snprintf(message, size, "%s", dlerror());
    return vs_nccl_no_library;
  }
#define F(result, name, arguments)                                 \
  if (!(name = (result(*) arguments)dlsym(found, #name))) {        \
    snprintf(message, size, "it has no %s", #name);                \
    dlclose(found);                                                \
    return vs_nccl_no_symbol;                                      \
  }
#include "nccl_symbols.h"
#undef F
  library = found;
  return 0;
}

int vs_nccl_version(void) {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

const char *vs_nccl_file(void) {
  Dl_info found;
  return dladdr((void *)ncclGetVersion, &found) && found.dli_fname ? found.dli_fname : "";
}

int vs_nccl_explain(int error, char *message, int size) {
  if (error < vs_nccl_error) return 0;
  const char *text = ncclGetErrorString(error - vs_nccl_error), *last = ncclGetLastError(NULL);
  snprintf(message, size, last && *last ? "NCCL: %s (%s)" : "NCCL: %s", text ? text : "unknown error", last);
  return 1;
}

// result is an error of NCCL as Go is told it.
static int result(ncclResult_t r) { return r == ncclSuccess ? 0 : vs_nccl_error + r; }

int vs_nccl_id(char *id) {
  ncclUniqueId made;
  int r = result(ncclGetUniqueId(&made));
  memcpy(id, made.internal, sizeof made.internal);
  return r;
}

#define ENTER(c)          \
  int r = vs_enter(c);    \
  if (r) return r

int vs_nccl_join(CUcontext c, void **comm, int ranks, int rank, const char *id) {
  ENTER(c);
  ncclUniqueId same;
  memcpy(same.internal, id, sizeof same.internal);
  return result(ncclCommInitRank((ncclComm_t *)comm, ranks, same, rank));
}

int vs_nccl_leave(CUcontext c, void *comm) {
  ENTER(c);
  return result(ncclCommDestroy(comm));
}

int vs_nccl_sum(CUcontext c, CUstream s, void *comm, const unsigned long long *addresses, const long long *counts, int n) {
  ENTER(c);
  if ((r = result(ncclGroupStart()))) return r;
  for (int i = 0; i < n && !r; i++) r = result(ncclAllReduce((void *)addresses[i], (void *)addresses[i], counts[i], ncclFloat32, ncclSum, comm, s));
  int end = result(ncclGroupEnd());
  return r ? r : end;
}

int vs_nccl_failed(void *comm) {
  ncclResult_t error = ncclSuccess;
  int r = result(ncclCommGetAsyncError(comm, &error));
  if (r) return r;
  return error == ncclInProgress ? 0 : result(error);
}

int vs_nccl_abort(void *comm) { return result(ncclCommAbort(comm)); }
