// What cudnn.c offers to Go: convolutions of cuDNN 9, planned and run.
#pragma once
#include <cuda.h>
#include <stdint.h>

enum { vs_cudnn_no_library = -1, vs_cudnn_no_symbol = -2 };
// Errors of cuDNN are this and its status, so that they differ from the driver's.
enum { vs_cudnn_error = 100000 };
enum { vs_cudnn_forward, vs_cudnn_data, vs_cudnn_weights };

// vs_cudnn_open loads the library at a path. It returns 0, or vs_cudnn_no_library or
// vs_cudnn_no_symbol with the loader's message.
int vs_cudnn_open(const char *path, char *message, int size);
int vs_cudnn_version(void);

// vs_cudnn_cuda is the version of CUDA that the library was made for, as the driver writes it: 12090.
int vs_cudnn_cuda(void);

// vs_cudnn_file is the path of the library that is open.
const char *vs_cudnn_file(void);

// vs_cudnn_companion loads a library that cuDNN looks for by its name; 0 where that went well.
int vs_cudnn_companion(const char *path);

// vs_cudnn_explain writes cuDNN's text for an error that is one of its own; else it returns 0.
int vs_cudnn_explain(int error, char *message, int size);

// vs_cudnn_create makes a handle whose work goes to a stream of a context.
int vs_cudnn_create(CUcontext c, CUstream s, void **handle);
int vs_cudnn_destroy(CUcontext c, void *handle);

// Notes of engines, CUDNN_NUMERICAL_NOTE_...
enum { vs_note_tensor_core = 0, vs_note_down_convert = 1, vs_note_reduced = 2, vs_note_nondeterministic = 4 };

// A vs_tensor is (N, C, D, H, W), or (K, C, D, H, W) of weights, with strides in elements.
typedef struct {
  int type, alignment; // CUDNN_DATA_..., bytes
  int64_t size[5], stride[5];
} vs_tensor;

// A vs_convolution is the graph of one operation: the geometry is that of the forward convolution
// y = x * w, of which the operation computes y, x or w.
typedef struct {
  int operation; // vs_cudnn_...
  int flipped;   // the taps of w run backwards
  vs_tensor x, y, w;
  int64_t stride[3], pad[3];
} vs_convolution;

// A vs_plan is a convolution planned for an engine. The name says which engine, and its settings.
typedef struct {
  void *handle, *plan;
  char name[160];
  int64_t workspace; // bytes
  int engine;        // its number among those of the operation
} vs_plan;

// vs_cudnn_plans plans a convolution with the engines that cuDNN proposes, the fastest first by its
// own guess: at most so many, or the one with a name where that is not null. The device is the
// handle's or, where that is null, the one that JSON describes; plans for such a one cannot run.
// Engines that cannot plan it are left out, as are those with a note that is refused (a bit for each
// CUDNN_NUMERICAL_NOTE_...); *count says how many plans there are, the message why the last one was
// left out.
int vs_cudnn_plans(CUcontext c, void *handle, const char *json, const vs_convolution *v, const char *name, unsigned refused, vs_plan *plans, int most, int *count, char *message, int size);
void vs_cudnn_free(vs_plan *p);

// vs_cudnn_run starts a plan: addresses of x, y, w and the workspace. Nothing of the GPU is
// allocated.
int vs_cudnn_run(const vs_plan *p, const unsigned long long *addresses);
