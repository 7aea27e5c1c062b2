//go:build gpu

// cuDNN, opened when it is wanted: convolutions through its graph interface. The functions are
// looked up by name, as those of libcuda are in open.c, and so the program needs no header of it to
// be built.
#define _GNU_SOURCE
#include "cudnn.h"
#include "open.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum {
#define C(name, value) name = value,
#include "cudnn_symbols.h"
#undef C
};

_Static_assert(vs_note_tensor_core == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && vs_note_down_convert == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS && vs_note_reduced == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION && vs_note_nondeterministic == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, "notes");

#define F(result, name, arguments) static result(*name) arguments;
#include "cudnn_symbols.h"
#undef F

int vs_cudnn_open(const char *path, char *message, int size) {
  static void *library;
  void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!found) {
    snprintf(message, size, "%s", dlerror());
    return vs_cudnn_no_library;
  }
  if (library) { // a process has one
    dlclose(found);
    if (found == library) return 0;
    snprintf(message, size, "another cuDNN is open already");
    return vs_cudnn_no_library;
  }
#define F(result, name, arguments)                                 \
  if (!(name = (result(*) arguments)dlsym(found, #name))) {        \
    snprintf(message, size, "it has no %s", #name);                \
    dlclose(found);                                                \
    return vs_cudnn_no_symbol;                                     \
  }
#include "cudnn_symbols.h"
#undef F
  library = found;
  return 0;
}

int vs_cudnn_version(void) { return (int)cudnnGetVersion(); }
int vs_cudnn_cuda(void) { return (int)cudnnGetCudartVersion(); }

const char *vs_cudnn_file(void) {
  Dl_info found;
  return dladdr((void *)cudnnGetVersion, &found) && found.dli_fname ? found.dli_fname : "";
}

int vs_cudnn_companion(const char *path) { return dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? 0 : vs_cudnn_no_library; }

int vs_cudnn_explain(int error, char *message, int size) {
  if (error < vs_cudnn_error) return 0;
  char last[512] = "";
  cudnnGetLastErrorString(last, sizeof last);
  snprintf(message, size, "cuDNN: %s%s%s", cudnnGetErrorString(error - vs_cudnn_error), *last ? ": " : "", last);
  return 1;
}

static int failed(int status) { return status ? vs_cudnn_error + status : 0; }

int vs_cudnn_create(CUcontext c, CUstream s, void **handle) {
  int r = vs_enter(c);
  if (r || (r = failed(cudnnCreate(handle)))) return r;
  return failed(cudnnSetStream(*handle, s));
}

int vs_cudnn_destroy(CUcontext c, void *handle) {
  int r = vs_enter(c);
  return r ? r : failed(cudnnDestroy(handle));
}

// --- Descriptors

// A Made is the descriptors of a plan, and the first error on the way.
typedef struct {
  void *all[1024];
  int count, status;
} Made;

static void *make(Made *m, int type) {
  if (m->status || m->count == (int)(sizeof m->all / sizeof *m->all)) return NULL;
  void *d = NULL;
  if ((m->status = cudnnBackendCreateDescriptor(type, &d))) return NULL;
  return m->all[m->count++] = d;
}

static void set(Made *m, void *d, int name, int type, int64_t count, const void *elements) {
  if (!m->status) m->status = cudnnBackendSetAttribute(d, name, type, count, elements);
}

static void setChild(Made *m, void *d, int name, void *child) { set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &child); }

static void get(Made *m, void *d, int name, int type, int64_t most, int64_t *count, void *elements) {
  if (!m->status) m->status = cudnnBackendGetAttribute(d, name, type, most, count, elements);
}

static void finish(Made *m, void *d) {
  if (!m->status) m->status = cudnnBackendFinalize(d);
}

// release destroys all descriptors from the nth on.
static void release(Made *m, int n) {
  while (m->count > n) cudnnBackendDestroyDescriptor(m->all[--m->count]);
}

enum { idX = 1, idY, idW };

static void *tensor(Made *m, const vs_tensor *t, int64_t id) {
  void *d = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t alignment = t->alignment;
  set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type);
  set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 5, t->size);
  set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 5, t->stride);
  set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  finish(m, d);
  return d;
}

static void *geometry(Made *m, const vs_convolution *v) {
  void *d = make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const int64_t dimensions = 3, ones[3] = {1, 1, 1};
  const int type = CUDNN_DATA_FLOAT, mode = v->flipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
  set(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions);
  set(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  set(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 3, ones);
  set(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 3, v->stride);
  set(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 3, v->pad);
  set(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 3, v->pad);
  finish(m, d);
  return d;
}

// How the three operations call their descriptors.
static const struct {
  int type, x, y, w, geometry, alpha, beta;
} operations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

// graph is the operation graph of a convolution.
static void *graph(Made *m, void *handle, const vs_convolution *v) {
  void *x = tensor(m, &v->x, idX), *y = tensor(m, &v->y, idY), *w = tensor(m, &v->w, idW), *g = geometry(m, v);
  const float one = 1, zero = 0;
  void *o = make(m, operations[v->operation].type);
  setChild(m, o, operations[v->operation].x, x);
  setChild(m, o, operations[v->operation].y, y);
  setChild(m, o, operations[v->operation].w, w);
  setChild(m, o, operations[v->operation].geometry, g);
  set(m, o, operations[v->operation].alpha, CUDNN_TYPE_FLOAT, 1, &one);
  set(m, o, operations[v->operation].beta, CUDNN_TYPE_FLOAT, 1, &zero);
  finish(m, o);
  void *all = make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  setChild(m, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, o);
  if (handle) set(m, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  finish(m, all);
  return all;
}

static void *properties(Made *m, const char *json) {
  void *d = make(m, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  set(m, d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, strlen(json) + 1, json);
  finish(m, d);
  return d;
}

// --- Plans

enum { mostConfigurations = 64, mostKnobs = 64, mostNotes = 32 };

// name writes engine and settings of a configuration, as cuDNN's frontend does: eng7_k2=3_k14=0.
// It returns the engine's notes.
static unsigned name(Made *m, void *configuration, vs_plan *p) {
  unsigned all = 0;
  const int before = m->count;
  void *engine = make(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR), *knobs[mostKnobs];
  int64_t n = 0, number = 0;
  get(m, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
  get(m, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &number);
  int notes[mostNotes];
  n = 0;
  get(m, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, mostNotes, &n, notes);
  for (int i = 0; i < n && i < mostNotes; i++) all |= 1u << notes[i];
  p->engine = (int)number;
  int at = snprintf(p->name, sizeof p->name, "eng%lld", (long long)number);
  for (int i = 0; i < mostKnobs; i++) knobs[i] = make(m, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  n = 0;
  get(m, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, mostKnobs, &n, knobs);
  for (int i = 0; i < n && i < mostKnobs && !m->status; i++) {
    int64_t one, value = 0;
    int type = 0;
    get(m, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one, &type);
    get(m, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &one, &value);
    if (at < (int)sizeof p->name) at += snprintf(p->name + at, sizeof p->name - at, "_k%d=%lld", type, (long long)value);
  }
  release(m, before);
  return all;
}

// plan makes the plan of a configuration; its descriptor is the plan's, not that of Made.
static void plan(Made *m, void *handle, void *device, void *configuration, vs_plan *p) {
  int status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan);
  if (m->status || (m->status = status)) return;
  setChild(m, p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (handle)
    set(m, p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  else
    setChild(m, p->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
  finish(m, p->plan);
  int64_t n = 0;
  get(m, p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &p->workspace);
}

// explain writes why, and forgets it.
static void explain(Made *m, const char *what, char *message, int size) {
  char text[768];
  vs_cudnn_explain(vs_cudnn_error + m->status, text, sizeof text);
  snprintf(message, size, "%s: %s", what, text);
  m->status = 0;
}

// proposals asks cuDNN's heuristics for configurations.
static int proposals(Made *m, void *graph, void *device, int mode, void **configurations) {
  void *h = make(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  setChild(m, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(m, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device) setChild(m, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  finish(m, h);
  for (int i = 0; i < mostConfigurations; i++) configurations[i] = make(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  int64_t n = 0;
  get(m, h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, mostConfigurations, &n, configurations);
  return n < mostConfigurations ? (int)n : mostConfigurations;
}

// known says whether there is a plan with that name already.
static int known(const vs_plan *plans, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(plans[i].name, name)) return 1;
  return 0;
}

int vs_cudnn_plans(CUcontext c, void *handle, const char *json, const vs_convolution *v, const char *wanted, unsigned refused, vs_plan *plans, int most, int *count, char *message, int size) {
  int r = handle ? vs_enter(c) : 0;
  if (r) return r;
  Made m = {.count = 0};
  void *device = handle ? NULL : properties(&m, json), *g = graph(&m, handle, v);
  const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
  *count = 0;
  for (int mode = 0; mode < 2 && *count < most && !m.status; mode++) {
    void *configurations[mostConfigurations];
    const int before = m.count, n = proposals(&m, g, device, modes[mode], configurations);
    if (m.status) explain(&m, "asking for engines", message, size);
    for (int i = 0; i < n && *count < most; i++) {
      vs_plan p = {.handle = handle};
      const unsigned notes = name(&m, configurations[i], &p);
      if (!m.status && ((wanted && strcmp(wanted, p.name)) || known(plans, *count, p.name))) continue;
      if (notes & refused) {
        snprintf(message, size, "%s: its notes %#x are refused: see refusedNotes", p.name, notes);
        continue;
      }
      plan(&m, handle, device, configurations[i], &p);
      if (m.status) {
        explain(&m, p.name, message, size);
        vs_cudnn_free(&p);
        continue;
      }
      plans[(*count)++] = p;
    }
    release(&m, before);
  }
  r = m.status;
  if (r) explain(&m, "describing the convolution", message, size);
  release(&m, 0);
  return failed(r);
}

void vs_cudnn_free(vs_plan *p) {
  if (p->plan) cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
}

int vs_cudnn_run(const vs_plan *p, const unsigned long long *addresses) {
  Made m = {.count = 0};
  void *pack = make(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const int64_t ids[] = {idX, idY, idW};
  const void *data[] = {(void *)addresses[0], (void *)addresses[1], (void *)addresses[2]}, *workspace = (void *)addresses[3];
  set(&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
  set(&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data);
  set(&m, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finish(&m, pack);
  if (!m.status) m.status = cudnnBackendExecute(p->handle, p->plan, pack);
  release(&m, 0);
  return failed(m.status);
}
