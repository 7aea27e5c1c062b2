// The simulated cuDNN: as much of its graph interface as cudnn.c calls, over the simulated GPU.
//
// It is as strict as the real one is known to be: descriptors are set before they are finalized and
// read after, every attribute must be there with its type, tensors must fit the convolution, and
// weights must lie without gaps. What it computes is the definition, in float64, element by element.
// It has an engine for everything that needs no workspace (eng0), one that fills its workspace first
// (eng1_k2=5), and, among the fallbacks, one that says that it is not deterministic (eng2).
//
// VOXSAW_SIM_CUDNN plants faults, separated by commas, in eng1:
//
//   version=90900   the library says that it is that version
//   companions      it asks for libraries that are not there
//   handle          no handle can be made
//   unplanned       it cannot be planned
//   fails           it does not start
//   wrong           the last element of a result is wrong
//   partial         the last element of a result is not written
//   unsteady        every other result differs in the last bit
//   uncapturable    it does not start while a stream is captured
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

typedef void *CUstream;
enum {
#define C(name, value) name = value,
#include "../../cudnn_symbols.h"
#undef C
};
#define API extern "C" __attribute__((visibility("default")))
#define F(result, name, arguments) API result name arguments;
#include "../../cudnn_symbols.h"
#undef F

namespace {

enum { badParam = 2000, notFinalized = 2004, notSupported = CUDNN_STATUS_NOT_SUPPORTED, executionFailed = 5000 };

std::string lastError;

int refuse(int status, const std::string &why) {
  lastError = why;
  return status;
}

// fault is what is planted under a name, or null.
const char *fault(const char *name) {
  static thread_local std::string kept;
  const char *all = getenv("VOXSAW_SIM_CUDNN");
  std::string text = all ? all : "";
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    kept = text.substr(at, end - at);
    if (kept.compare(0, strlen(name), name) == 0 && (kept.size() == strlen(name) || kept[strlen(name)] == '=')) return kept.c_str();
    at = end + 1;
  }
  return nullptr;
}

struct Handle {
  CUstream stream = nullptr;
};

struct Descriptor {
  int type;
  bool finalized = false;
  std::map<int, std::vector<char>> values;                          // of attributes
  std::map<int, std::vector<std::shared_ptr<Descriptor>>> children; // copies, as they were when set
  int engine = -1;                                                  // of an engine or a configuration
};

template <class T> const T *all(const Descriptor &d, int name, size_t count) {
  auto i = d.values.find(name);
  return i != d.values.end() && i->second.size() == count * sizeof(T) ? reinterpret_cast<const T *>(i->second.data()) : nullptr;
}

const Descriptor *child(const Descriptor &d, int name) {
  auto i = d.children.find(name);
  return i != d.children.end() && i->second.size() == 1 ? i->second[0].get() : nullptr;
}

// --- Convolutions

struct Tensor {
  int type;
  int64_t size[5], stride[5], id, alignment;
  size_t bytes() const { return type == CUDNN_DATA_BFLOAT16 ? 2 : 4; }
  int64_t elements() const { return size[0] * size[1] * size[2] * size[3] * size[4]; }
  // the last element that it has, counted in memory
  int64_t extent() const {
    int64_t n = 1;
    for (int i = 0; i < 5; i++) n += (size[i] - 1) * stride[i];
    return n;
  }
};

bool read(const Descriptor *d, Tensor &t) {
  if (!d || d->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return false;
  auto type = all<int>(*d, CUDNN_ATTR_TENSOR_DATA_TYPE, 1);
  auto size = all<int64_t>(*d, CUDNN_ATTR_TENSOR_DIMENSIONS, 5), stride = all<int64_t>(*d, CUDNN_ATTR_TENSOR_STRIDES, 5);
  auto id = all<int64_t>(*d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1), alignment = all<int64_t>(*d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  if (!type || !size || !stride || !id || !alignment || (*type != CUDNN_DATA_FLOAT && *type != CUDNN_DATA_BFLOAT16)) return false;
  t.type = *type, t.id = *id, t.alignment = *alignment;
  for (int i = 0; i < 5; i++) {
    t.size[i] = size[i], t.stride[i] = stride[i];
    if (t.size[i] < 1 || t.stride[i] < 1) return false;
  }
  return true;
}

struct Convolution {
  int operation; // the descriptor's type
  Tensor x, y, w;
  int64_t stride[3], pad[3];
  bool flipped;
};

// The names of an operation's attributes are those of the forward one and so much more.
bool read(const Descriptor *o, Convolution &c) {
  if (!o) return false;
  int x, y, w, geometry, alpha, beta;
  switch (c.operation = o->type) {
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    x = 704, y = 705, w = 703, geometry = 702, alpha = 700, beta = 701;
    break;
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    x = 710, y = 711, w = 709, geometry = 708, alpha = 706, beta = 707;
    break;
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    x = 716, y = 717, w = 715, geometry = 714, alpha = 712, beta = 713;
    break;
  default: return false;
  }
  const Descriptor *g = child(*o, geometry);
  auto one = all<float>(*o, alpha, 1), zero = all<float>(*o, beta, 1);
  if (!read(child(*o, x), c.x) || !read(child(*o, y), c.y) || !read(child(*o, w), c.w) || !g || !one || *one != 1 || !zero || *zero != 0) return false;
  auto stride = all<int64_t>(*g, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 3), pre = all<int64_t>(*g, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 3), post = all<int64_t>(*g, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 3);
  auto dilation = all<int64_t>(*g, CUDNN_ATTR_CONVOLUTION_DILATIONS, 3), dimensions = all<int64_t>(*g, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1);
  auto mode = all<int>(*g, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 1), type = all<int>(*g, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 1);
  if (!stride || !pre || !post || !dilation || !dimensions || *dimensions != 3 || !mode || !type || *type != CUDNN_DATA_FLOAT) return false;
  c.flipped = *mode == CUDNN_CONVOLUTION;
  for (int i = 0; i < 3; i++) {
    c.stride[i] = stride[i], c.pad[i] = pre[i];
    if (dilation[i] != 1 || (c.x.size[2 + i] + pre[i] + post[i] - c.w.size[2 + i]) / stride[i] + 1 != c.y.size[2 + i]) return false;
  }
  return c.x.size[0] == c.y.size[0] && c.x.size[1] == c.w.size[1] && c.y.size[1] == c.w.size[0] && c.w.extent() == c.w.elements();
}

float load(const Tensor &t, const void *p, int64_t at) {
  if (t.type == CUDNN_DATA_FLOAT) return static_cast<const float *>(p)[at];
  uint32_t bits = uint32_t(static_cast<const uint16_t *>(p)[at]) << 16;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

void store(const Tensor &t, void *p, int64_t at, float v) {
  if (t.type == CUDNN_DATA_FLOAT) {
    static_cast<float *>(p)[at] = v;
    return;
  }
  uint32_t bits;
  memcpy(&bits, &v, 4);
  static_cast<uint16_t *>(p)[at] = v != v ? 0x7fff : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A Job is one run of a plan.
struct Job {
  Convolution c;
  int engine;
  unsigned long long x, y, w, workspace;
  size_t workspaceBytes;
  bool wrong, partial, unsteady;
};

int runs; // of any plan

// sum is one element of the result: over images and voxels, or over channels and taps.
double sum(const Convolution &c, const int64_t (&at)[5], const void *x, const void *y, const void *w) {
  double s = 0;
  auto tapOf = [&](int i, int64_t t) { return c.flipped ? c.w.size[2 + i] - 1 - t : t; };
  auto offset = [](const Tensor &t, int64_t n, int64_t ch, const int64_t *v) { return n * t.stride[0] + ch * t.stride[1] + v[0] * t.stride[2] + v[1] * t.stride[3] + v[2] * t.stride[4]; };
  if (c.operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) { // at is (K, C, taps)
    int64_t o[3], i[3];
    for (int64_t n = 0; n < c.x.size[0]; n++)
      for (o[0] = 0; o[0] < c.y.size[2]; o[0]++)
        for (o[1] = 0; o[1] < c.y.size[3]; o[1]++)
          for (o[2] = 0; o[2] < c.y.size[4]; o[2]++) {
            bool inside = true;
            for (int k = 0; k < 3; k++) i[k] = o[k] * c.stride[k] + tapOf(k, at[2 + k]) - c.pad[k], inside = inside && i[k] >= 0 && i[k] < c.x.size[2 + k];
            if (inside) s += double(load(c.x, x, offset(c.x, n, at[1], i))) * load(c.y, y, offset(c.y, n, at[0], o));
          }
    return s;
  }
  const bool forward = c.operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  int64_t t[3], v[3];
  for (t[0] = 0; t[0] < c.w.size[2]; t[0]++)
    for (t[1] = 0; t[1] < c.w.size[3]; t[1]++)
      for (t[2] = 0; t[2] < c.w.size[4]; t[2]++) {
        bool inside = true;
        for (int k = 0; k < 3 && inside; k++) {
          const int64_t tap = tapOf(k, t[k]);
          if (forward) {
            v[k] = at[2 + k] * c.stride[k] + tap - c.pad[k];
            inside = v[k] >= 0 && v[k] < c.x.size[2 + k];
          } else {
            const int64_t reached = at[2 + k] + c.pad[k] - tap;
            v[k] = reached / c.stride[k];
            inside = reached >= 0 && reached % c.stride[k] == 0 && v[k] < c.y.size[2 + k];
          }
        }
        if (!inside) continue;
        for (int64_t ch = 0; ch < c.w.size[forward ? 1 : 0]; ch++)
          s += forward ? double(load(c.x, x, offset(c.x, at[0], ch, v))) * load(c.w, w, offset(c.w, at[1], ch, t)) : double(load(c.y, y, offset(c.y, at[0], ch, v))) * load(c.w, w, offset(c.w, ch, at[1], t));
      }
  return s;
}

void *(*reach)(unsigned long long, size_t);
int (*hostWork)(void *, int (*)(void *), void *);
int (*capturing)(void *);

int compute(void *data) {
  auto j = static_cast<Job *>(data);
  const Convolution &c = j->c;
  void *x = reach(j->x, c.x.extent() * c.x.bytes()), *y = reach(j->y, c.y.extent() * c.y.bytes()), *w = reach(j->w, c.w.extent() * c.w.bytes());
  void *workspace = j->workspaceBytes ? reach(j->workspace, j->workspaceBytes) : x;
  if (!x || !y || !w || !workspace) {
    fprintf(stderr, "simulated cuDNN: an operand or the workspace lies outside an allocation\n");
    return 700;
  }
  if (j->workspaceBytes) memset(workspace, 0xff, j->workspaceBytes);
  const bool forward = c.operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, weights = c.operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  const Tensor &t = forward ? c.y : weights ? c.w : c.x;
  void *to = forward ? y : weights ? w : x;
  int64_t left = t.elements();
  runs++;
  for (int64_t a = 0; a < t.size[0]; a++)
    for (int64_t b = 0; b < t.size[1]; b++)
      for (int64_t d = 0; d < t.size[2]; d++)
        for (int64_t h = 0; h < t.size[3]; h++)
          for (int64_t v = 0; v < t.size[4]; v++) {
            const bool last = --left == 0;
            if (last && j->partial) continue;
            float s = float(sum(c, {a, b, d, h, v}, x, y, w));
            if (last && j->wrong) s += 3;
            if (last && j->unsteady && runs % 2) s *= 1.01f;
            store(t, to, a * t.stride[0] + b * t.stride[1] + d * t.stride[2] + h * t.stride[3] + v * t.stride[4], s);
          }
  return 0;
}

const Descriptor *operationOf(const Descriptor *graph) { return graph ? child(*graph, CUDNN_ATTR_OPERATIONGRAPH_OPS) : nullptr; }

constexpr int engines = 3;
int64_t workspaceOf(int engine) { return engine == 1 ? 1000 : 0; }

size_t sizeOf(int type) {
  switch (type) {
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
  case CUDNN_TYPE_CHAR: return 1;
  }
  return 4;
}

} // namespace

size_t cudnnGetVersion(void) {
  const char *f = fault("version");
  return f ? strtoul(f + strlen("version="), nullptr, 10) : 92800;
}
// 0: nothing of CUDA's other libraries is wanted
size_t cudnnGetCudartVersion(void) { return fault("companions") ? 99000 : 0; }
const char *cudnnGetErrorString(int status) {
  return status == badParam ? "CUDNN_STATUS_BAD_PARAM" : status == notSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : status == executionFailed ? "CUDNN_STATUS_EXECUTION_FAILED" : status == notFinalized ? "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED" : "CUDNN_STATUS";
}
void cudnnGetLastErrorString(char *message, size_t size) {
  snprintf(message, size, "%s", lastError.c_str());
  lastError.clear();
}
int cudnnCreate(void **handle) {
  if (fault("handle")) return refuse(notSupported, "planted");
  // the simulated driver is loaded already, with its symbols for all
  reach = reinterpret_cast<void *(*)(unsigned long long, size_t)>(dlsym(RTLD_DEFAULT, "vsSimReach"));
  hostWork = reinterpret_cast<int (*)(void *, int (*)(void *), void *)>(dlsym(RTLD_DEFAULT, "vsSimHostWork"));
  capturing = reinterpret_cast<int (*)(void *)>(dlsym(RTLD_DEFAULT, "vsSimCapturing"));
  if (!reach || !hostWork || !capturing) return refuse(notSupported, "the driver is no simulated one");
  *handle = new Handle;
  return CUDNN_STATUS_SUCCESS;
}
int cudnnDestroy(void *handle) { return delete static_cast<Handle *>(handle), CUDNN_STATUS_SUCCESS; }
int cudnnSetStream(void *handle, CUstream stream) { return static_cast<Handle *>(handle)->stream = stream, CUDNN_STATUS_SUCCESS; }

int cudnnBackendCreateDescriptor(int type, void **descriptor) {
  auto d = new Descriptor;
  d->type = type;
  *descriptor = d;
  return CUDNN_STATUS_SUCCESS;
}
int cudnnBackendDestroyDescriptor(void *descriptor) { return delete static_cast<Descriptor *>(descriptor), CUDNN_STATUS_SUCCESS; }

int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *elements) {
  auto d = static_cast<Descriptor *>(descriptor);
  if (!d || d->finalized || !elements || count < 1) return refuse(badParam, "an attribute of nothing, or of what is final");
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    d->children[name].clear();
    for (int64_t i = 0; i < count; i++) {
      auto c = static_cast<Descriptor *const *>(elements)[i];
      if (!c || !c->finalized) return refuse(notFinalized, "a descriptor that is not final");
      d->children[name].push_back(std::make_shared<Descriptor>(*c));
    }
    return CUDNN_STATUS_SUCCESS;
  }
  auto bytes = static_cast<const char *>(elements);
  d->values[name].assign(bytes, bytes + count * sizeOf(type));
  return CUDNN_STATUS_SUCCESS;
}

int cudnnBackendFinalize(void *descriptor) {
  auto d = static_cast<Descriptor *>(descriptor);
  if (!d || d->finalized) return refuse(badParam, "finalized twice");
  Convolution c;
  Tensor t;
  switch (d->type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    if (!read(d, t)) return refuse(badParam, "a tensor that is not described");
    break;
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    if (!read(d, c)) return refuse(badParam, "tensors that do not fit the convolution");
    break;
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    if (!operationOf(d) || !all<void *>(*d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 1)) return refuse(badParam, "a graph without its operation or its handle");
    break;
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    if (!child(*d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) || !all<int>(*d, CUDNN_ATTR_ENGINEHEUR_MODE, 1)) return refuse(badParam, "heuristics of nothing");
    break;
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
    const Descriptor *e = child(*d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!e || !all<void *>(*d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 1)) return refuse(badParam, "a plan of nothing");
    if (e->engine == 1 && fault("unplanned")) return refuse(notSupported, "planted");
    break;
  }
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    if (!all<int64_t>(*d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3) || !all<void *>(*d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 3)) return refuse(badParam, "a pack without addresses");
  }
  d->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

int cudnnBackendGetAttribute(void *descriptor, int name, int, int64_t most, int64_t *count, void *elements) {
  auto d = static_cast<Descriptor *>(descriptor);
  if (!d || !d->finalized) return refuse(notFinalized, "asking what is not final");
  *count = 1;
  switch (name) {
  case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
    const bool fallback = *all<int>(*d, CUDNN_ATTR_ENGINEHEUR_MODE, 1) == CUDNN_HEUR_MODE_FALLBACK;
    *count = 0;
    for (int e = fallback ? 2 : 0; e < (fallback ? engines : 2) && *count < most; e++) {
      auto to = static_cast<Descriptor **>(elements)[(*count)++];
      to->engine = e, to->finalized = true;
      to->children[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = d->children[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH];
    }
    return CUDNN_STATUS_SUCCESS;
  }
  case CUDNN_ATTR_ENGINECFG_ENGINE: {
    auto to = *static_cast<Descriptor **>(elements);
    to->engine = d->engine, to->finalized = true;
    return CUDNN_STATUS_SUCCESS;
  }
  case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: return *static_cast<int64_t *>(elements) = d->engine, CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
    *count = d->engine == 2;
    if (*count && most) *static_cast<int *>(elements) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
    if ((*count = d->engine == 1) && most) (*static_cast<Descriptor **>(elements))->finalized = true;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE: return *static_cast<int *>(elements) = 2, CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE: return *static_cast<int64_t *>(elements) = 5, CUDNN_STATUS_SUCCESS;
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: return *static_cast<int64_t *>(elements) = workspaceOf(child(*d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->engine), CUDNN_STATUS_SUCCESS;
  }
  return refuse(notSupported, "an attribute that the simulated library does not have");
}

int cudnnBackendExecute(void *handle, void *plan, void *pack) {
  auto p = static_cast<Descriptor *>(plan), v = static_cast<Descriptor *>(pack);
  if (!handle || !p || !p->finalized || !v || !v->finalized) return refuse(notFinalized, "what is run is not final");
  const Descriptor *configuration = child(*p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const CUstream stream = static_cast<Handle *>(handle)->stream;
  const bool planted = configuration->engine == 1;
  if (planted && fault("fails")) return refuse(executionFailed, "planted");
  if (planted && fault("uncapturable") && capturing(stream)) return refuse(notSupported, "planted: not while a stream is captured");
  auto j = new Job; // it stays: a graph may run it for as long as there is a process
  if (!read(operationOf(child(*configuration, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)), j->c)) return refuse(badParam, "the plan has lost its convolution");
  j->engine = configuration->engine;
  auto ids = all<int64_t>(*v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3);
  auto data = all<unsigned long long>(*v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 3), workspace = all<unsigned long long>(*v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1);
  for (int i = 0; i < 3; i++)
    for (auto [tensor, to] : {std::pair{&j->c.x, &j->x}, {&j->c.y, &j->y}, {&j->c.w, &j->w}}) {
      if (ids[i] != tensor->id) continue;
      if (data[i] % tensor->alignment) return refuse(2003, "an address is not aligned as its tensor says");
      *to = data[i];
    }
  j->workspace = workspace ? *workspace : 0, j->workspaceBytes = workspaceOf(j->engine);
  j->wrong = planted && fault("wrong"), j->partial = planted && fault("partial"), j->unsteady = planted && fault("unsteady");
  return hostWork(stream, compute, j) ? refuse(executionFailed, "the driver refuses") : CUDNN_STATUS_SUCCESS;
}
