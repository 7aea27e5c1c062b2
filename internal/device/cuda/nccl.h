// What nccl.c offers to Go: sums over the GPUs of several processes, by NCCL 2.
#pragma once
#include <cuda.h>

enum { vs_nccl_no_library = -1, vs_nccl_no_symbol = -2 };
// Errors of NCCL are this and its result, so that they differ from the driver's and cuDNN's.
enum { vs_nccl_error = 200000 };
enum { vs_nccl_id_bytes = 128 };

// vs_nccl_open loads the library at a path. It returns 0, or vs_nccl_no_library or
// vs_nccl_no_symbol with the loader's message.
int vs_nccl_open(const char *path, char *message, int size);
int vs_nccl_version(void);

// vs_nccl_file is the path of the library that is open.
const char *vs_nccl_file(void);

// vs_nccl_explain writes NCCL's text for an error that is one of its own; else it returns 0.
int vs_nccl_explain(int error, char *message, int size);

// vs_nccl_id makes what all ranks join by.
int vs_nccl_id(char *id);

// vs_nccl_join makes the GPU of a context one of several; it returns when all have joined.
int vs_nccl_join(CUcontext c, void **comm, int ranks, int rank, const char *id);
int vs_nccl_leave(CUcontext c, void *comm);

// vs_nccl_sum replaces float32 values at n addresses, so many at each, by their sums over the ranks,
// when the stream comes to it.
int vs_nccl_sum(CUcontext c, CUstream s, void *comm, const unsigned long long *addresses, const long long *counts, int n);

// vs_nccl_failed is the error of a sum that is under way; 0: there is none. vs_nccl_abort ends such a
// sum: the stream goes on.
int vs_nccl_failed(void *comm);
int vs_nccl_abort(void *comm);
