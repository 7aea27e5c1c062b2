// The simulated driver: as much of libcuda's interface as the device uses.
//
// A stream is a queue that runs as late as it may: when somebody waits for it. Before each of its
// steps, steps of other streams may run first, as the seed has it. A copy reads and writes when the
// stream comes to it, whatever the host has done with its memory since. A context belongs to the
// threads that made it current; calls from others are refused. A kernel that faults leaves the
// context broken: every later call answers with its error, as a GPU's driver does.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <chrono>

#include "block.h"
#include "memory.h"

using sim::Address;

namespace {

enum Result {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  noDevice = 100,
  invalidContext = 201,
  invalidHandle = 400,
  notFound = 500,
  notReady = 600,
  illegalAddress = 700,
  captureUnsupported = 900,
  captureInvalidated = 901,
};

std::recursive_mutex lock;
int broken; // the error of a kernel that faulted

typedef std::function<int()> Work;

struct Stream;

// A Step of a stream: work, or waiting until another stream has come so far.
struct Step {
  Work work;
  Stream *awaited = nullptr;
  uint64_t until = 0;
};

struct Stream {
  std::deque<Step> queue;
  uint64_t queued = 0, done = 0;
  bool waiting = false; // for another stream: its next step must not run
  bool capturing = false;
  std::vector<Step> captured;
};

struct Event {
  Stream *stream = nullptr;
  uint64_t until = 0;
  std::shared_ptr<double> time = std::make_shared<double>(0);
};

struct Graph {
  std::vector<Step> steps;
};

struct Function {
  const sim::Entry *entry;
  int sharedLimit = 48 << 10;
};

struct Context {
  int device;
  bool primary;
};

Stream legacy; // the stream of calls that name none
std::set<Stream *> streams{&legacy};
std::set<void *> contexts;
thread_local std::vector<void *> current;

bool has(Stream *s) { return streams.count(s) > 0; }

void runTo(Stream &s, uint64_t until);

void runNext(Stream &s) {
  Step step = std::move(s.queue.front());
  s.queue.pop_front();
  if (step.awaited) {
    s.waiting = true;
    if (has(step.awaited)) runTo(*step.awaited, step.until);
    s.waiting = false;
  } else if (!broken) {
    broken = step.work();
  }
  s.done++;
}

// another stream that has something to do, or null
Stream *another(Stream &than) {
  std::vector<Stream *> busy;
  for (Stream *s : streams)
    if (s != &than && !s->waiting && !s->queue.empty()) busy.push_back(s);
  return busy.empty() ? nullptr : busy[sim::random() % busy.size()];
}

bool interleaving; // another stream's step runs: it does not draw again

void runTo(Stream &s, uint64_t until) {
  while (s.done < until && !s.queue.empty()) {
    if (!interleaving && sim::random() % 4 == 0) {
      if (Stream *t = another(s)) {
        interleaving = true;
        runNext(*t);
        interleaving = false;
        continue;
      }
    }
    runNext(s);
  }
}

int drain(Stream &s) {
  runTo(s, s.queued);
  return broken;
}

Stream *streamOf(void *s) { return s ? static_cast<Stream *>(s) : &legacy; }

int put(void *handle, Step step) {
  Stream *s = streamOf(handle);
  if (!has(s)) return invalidHandle;
  if (s->capturing) {
    s->captured.push_back(std::move(step));
    return success;
  }
  s->queue.push_back(std::move(step));
  s->queued++;
  return success;
}

// copying is work that copies; where the device's memory is not there any more it is an error.
Work copying(Address device, void *host, size_t n, bool up) {
  return [=] {
    void *at = sim::reach(device, n);
    if (!at) {
      fprintf(stderr, "simulated GPU: a copy of %zu bytes %s the device: there is no such memory\n", n, up ? "to" : "from");
      return int(illegalAddress);
    }
    memcpy(up ? at : host, up ? host : at, n);
    return 0;
  };
}

double now() { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace

// What was called how often, for tests: they read it as attributes of the device that no GPU has.
enum Count { takesOrGives, downloads, launches, graphLaunches, waits, held, counts }; // held: pinned memory, events and graphs that are there
constexpr int firstCount = 1000000;
static int counted[counts];

// Every call holds the lock. Those that need a context refuse threads that have none.
#define API extern "C" __attribute__((visibility("default"))) int
#define LOCKED std::lock_guard<std::recursive_mutex> guard(lock)
#define ENTER                                  \
  LOCKED;                                      \
  if (current.empty()) return invalidContext;  \
  if (broken) return broken

API cuInit(unsigned) {
  const char *s = getenv("VOXSAW_SIM_SEED");
  sim::seed(s ? strtoull(s, nullptr, 10) : 1);
  return success;
}
API cuDriverGetVersion(int *v) { return *v = 12090, success; }
API cuGetErrorName(int e, const char **s) {
  *s = e == outOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : e == invalidContext ? "CUDA_ERROR_INVALID_CONTEXT" : e == illegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : e == notFound ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR";
  return success;
}
API cuGetErrorString(int e, const char **s) {
  *s = e == outOfMemory ? "out of memory" : e == invalidContext ? "invalid device context" : e == illegalAddress ? "an illegal memory access was encountered" : e == notFound ? "named symbol not found" : "error";
  return success;
}

// --- The device

// sharedMost is the bytes of shared memory that a block may ask for: a Hopper's, or another GPU's.
static int sharedMost() {
  static const int n = getenv("VOXSAW_SIM_SHARED") ? atoi(getenv("VOXSAW_SIM_SHARED")) : 227 << 10;
  return n;
}

// processors is the number of multiprocessors: an H200's, or another GPU's.
static int processors() {
  static const int n = getenv("VOXSAW_SIM_PROCESSORS") ? atoi(getenv("VOXSAW_SIM_PROCESSORS")) : 132;
  return n;
}

// gpus is how many there are. All are alike; a process has memory on the one that it opens.
static int gpus() {
  static const int n = getenv("VOXSAW_SIM_GPUS") ? atoi(getenv("VOXSAW_SIM_GPUS")) : 1;
  return n;
}

API cuDeviceGetCount(int *n) { return *n = gpus(), success; }
API cuDeviceGet(int *d, int i) { return *d = i, i >= 0 && i < gpus() ? success : 101; }
API cuDeviceGetUuid(void *uuid, int d) {
  memset(uuid, 0, 16);
  static_cast<char *>(uuid)[15] = char(d + 1);
  return success;
}
API cuDeviceGetName(char *s, int n, int) { return snprintf(s, n, "simulated GPU"), success; }
API cuDeviceTotalMem_v2(size_t *n, int) { return *n = sim::memoryTotal(), success; }
API cuDeviceGetAttribute(int *v, int attribute, int) {
  if (attribute >= firstCount && attribute < firstCount + counts) return *v = counted[attribute - firstCount], success;
  switch (attribute) {
  case 16: *v = processors(); break;
  case 75: *v = 9; break;          // compute capability, major
  case 76: *v = 0; break;          // and minor
  case 97: *v = sharedMost(); break;
  default: *v = 0;
  }
  return success;
}

// --- Contexts

API cuCtxCreate_v2(void **c, unsigned, int device) {
  LOCKED;
  *c = new Context{device, false};
  contexts.insert(*c);
  current.push_back(*c);
  return success;
}
// The context that a process has of a device without asking, and who holds it.
static Context *primary;
static int holders;
API cuDevicePrimaryCtxRetain(void **c, int device) {
  LOCKED;
  if (primary && primary->device != device) return invalidContext; // this process has the other device
  if (!primary) primary = new Context{device, true}, contexts.insert(primary);
  holders++;
  return *c = primary, success;
}
API cuDevicePrimaryCtxRelease_v2(int device) {
  LOCKED;
  if (!primary || primary->device != device) return invalidContext;
  if (--holders) return success;
  contexts.erase(primary);
  if (!current.empty() && current.back() == primary) current.pop_back();
  delete primary;
  primary = nullptr;
  broken = 0;
  return success;
}
API cuCtxGetDevice(int *device) {
  if (current.empty()) return invalidContext;
  return *device = static_cast<Context *>(current.back())->device, success;
}
API cuCtxSetCurrent(void *c) {
  LOCKED;
  if (c && !contexts.count(c)) return invalidContext;
  if (!current.empty()) current.pop_back();
  if (c) current.push_back(c);
  return success;
}
API cuCtxGetCurrent(void **c) { return *c = current.empty() ? nullptr : current.back(), success; }
API cuCtxPopCurrent_v2(void **c) {
  if (current.empty()) return invalidContext;
  *c = current.back();
  current.pop_back();
  return success;
}
API cuCtxPushCurrent_v2(void *c) { return current.push_back(c), success; }
API cuCtxDestroy_v2(void *c) {
  LOCKED;
  if (!contexts.erase(c)) return invalidContext;
  if (!current.empty() && current.back() == c) current.pop_back();
  delete static_cast<Context *>(c);
  broken = 0;
  return success;
}
API cuCtxSynchronize() {
  ENTER;
  for (Stream *s : std::set<Stream *>(streams)) {
    if (s->capturing) return captureUnsupported;
    drain(*s);
  }
  return broken;
}

// --- Memory

API cuMemAlloc_v2(Address *p, size_t n) {
  counted[takesOrGives]++;
  ENTER;
  if (!n) return invalidValue;
  *p = sim::allocate(n);
  return *p ? success : outOfMemory;
}
// The driver of a GPU waits for what is under way. This one does not: who relies on it is found out.
API cuMemFree_v2(Address p) {
  counted[takesOrGives]++;
  ENTER;
  return sim::release(p) ? success : invalidValue;
}
API cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER;
  *free = sim::memoryFree(), *total = sim::memoryTotal();
  return success;
}
API cuMemHostAlloc(void **p, size_t n, unsigned) {
  counted[takesOrGives]++;
  ENTER;
  counted[held]++;
  *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
  memset(*p, 0xff, n);
  return success;
}
API cuMemFreeHost(void *p) { return counted[takesOrGives]++, counted[held]--, free(p), success; }
// A copy that waits is ordered with the legacy stream alone, not with streams made non-blocking.
API cuMemcpyHtoD_v2(Address d, const void *s, size_t n) {
  ENTER;
  if (int e = drain(legacy)) return e;
  return copying(d, const_cast<void *>(s), n, true)() ? invalidValue : success;
}
API cuMemcpyDtoH_v2(void *d, Address s, size_t n) {
  counted[downloads]++;
  ENTER;
  if (int e = drain(legacy)) return e;
  return copying(s, d, n, false)() ? invalidValue : success;
}
API cuMemcpyHtoDAsync_v2(Address d, const void *s, size_t n, void *stream) {
  ENTER;
  return put(stream, {copying(d, const_cast<void *>(s), n, true)});
}
API cuMemcpyDtoHAsync_v2(void *d, Address s, size_t n, void *stream) {
  counted[downloads]++;
  ENTER;
  return put(stream, {copying(s, d, n, false)});
}
API cuMemcpyDtoDAsync_v2(Address d, Address s, size_t n, void *stream) {
  ENTER;
  return put(stream, {[=] {
               void *to = sim::reach(d, n), *from = sim::reach(s, n);
               if (!to || !from) return int(illegalAddress);
               memmove(to, from, n);
               return 0;
             }});
}
API cuMemsetD32Async(Address d, unsigned v, size_t n, void *stream) {
  ENTER;
  return put(stream, {[=] {
               auto at = static_cast<uint32_t *>(sim::reach(d, 4 * n));
               if (!at) return int(illegalAddress);
               for (size_t i = 0; i < n; i++) at[i] = v;
               return 0;
             }});
}
API cuMemsetD8Async(Address d, unsigned char v, size_t n, void *stream) {
  ENTER;
  return put(stream, {[=] {
               void *at = sim::reach(d, n);
               if (!at) return int(illegalAddress);
               memset(at, v, n);
               return 0;
             }});
}

// --- Streams and events

API cuStreamCreate(void **s, unsigned) {
  counted[takesOrGives]++;
  ENTER;
  auto t = new Stream;
  streams.insert(t);
  *s = t;
  return success;
}
API cuStreamDestroy_v2(void *s) {
  counted[takesOrGives]++;
  ENTER;
  if (!has(streamOf(s))) return invalidHandle;
  drain(*streamOf(s));
  streams.erase(streamOf(s));
  delete streamOf(s);
  return success;
}
API cuStreamSynchronize(void *s) {
  counted[waits]++;
  ENTER;
  if (!has(streamOf(s))) return invalidHandle;
  if (streamOf(s)->capturing) return captureUnsupported;
  return drain(*streamOf(s));
}
API cuStreamQuery(void *s) {
  ENTER;
  return streamOf(s)->queue.empty() ? success : notReady;
}
API cuEventCreate(void **e, unsigned) {
  counted[takesOrGives]++;
  ENTER;
  counted[held]++;
  *e = new Event;
  return success;
}
API cuEventDestroy_v2(void *e) { return counted[takesOrGives]++, counted[held]--, delete static_cast<Event *>(e), success; }
API cuEventRecord(void *e, void *s) {
  ENTER;
  auto event = static_cast<Event *>(e);
  auto time = event->time;
  if (int r = put(s, {[=] { return *time = now(), 0; }})) return r;
  if (!streamOf(s)->capturing) event->stream = streamOf(s), event->until = streamOf(s)->queued;
  return success;
}
API cuStreamWaitEvent(void *s, void *e, unsigned) {
  ENTER;
  auto event = static_cast<Event *>(e);
  if (!event->stream) return success; // never recorded
  return put(s, {nullptr, event->stream, event->until});
}
API cuEventSynchronize(void *e) {
  ENTER;
  auto event = static_cast<Event *>(e);
  if (event->stream && has(event->stream)) runTo(*event->stream, event->until);
  return broken;
}
API cuEventQuery(void *e) {
  ENTER;
  auto event = static_cast<Event *>(e);
  return !event->stream || !has(event->stream) || event->stream->done >= event->until ? success : notReady;
}
API cuEventElapsedTime(float *ms, void *from, void *to) {
  ENTER;
  *ms = float(*static_cast<Event *>(to)->time - *static_cast<Event *>(from)->time);
  return success;
}

// --- Graphs

API cuStreamBeginCapture_v2(void *s, int) {
  ENTER;
  if (!s || !has(streamOf(s)) || streamOf(s)->capturing) return invalidValue;
  streamOf(s)->capturing = true;
  streamOf(s)->captured.clear();
  return success;
}
API cuStreamEndCapture(void *s, void **g) {
  ENTER;
  if (!s || !has(streamOf(s)) || !streamOf(s)->capturing) return invalidValue;
  streamOf(s)->capturing = false;
  *g = new Graph{std::move(streamOf(s)->captured)};
  return success;
}
API cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long) {
  counted[takesOrGives]++;
  ENTER;
  counted[held]++;
  *e = new Graph(*static_cast<Graph *>(g));
  return success;
}
API cuGraphLaunch(void *e, void *s) {
  counted[graphLaunches]++;
  ENTER;
  for (const Step &step : static_cast<Graph *>(e)->steps)
    if (int r = put(s, step)) return r;
  return success;
}
API cuGraphDestroy(void *g) { return delete static_cast<Graph *>(g), success; }
API cuGraphExecDestroy(void *e) { return counted[takesOrGives]++, counted[held]--, delete static_cast<Graph *>(e), success; }

// --- What the simulated cuDNN needs (cudnn/cudnn.cc)

// The function runs when the stream comes to it, and again with every graph that has it. It returns
// an error of the driver.
API vsSimHostWork(void *stream, int (*work)(void *), void *data) {
  counted[launches]++;
  ENTER;
  return put(stream, {[=] { return work(data); }});
}
// What the simulated NCCL needs, too (nccl/nccl.cc): whether the current context is a primary one.
API vsSimPrimary() { return !current.empty() && static_cast<Context *>(current.back())->primary; }
API vsSimCapturing(void *stream) {
  LOCKED;
  return has(streamOf(stream)) && streamOf(stream)->capturing;
}
extern "C" __attribute__((visibility("default"))) void *vsSimReach(Address a, size_t bytes) {
  LOCKED;
  return sim::reach(a, bytes);
}

// --- Modules and kernels: whatever image is loaded, the kernels are those of this library

API cuModuleLoadData(void **m, const void *image) {
  counted[takesOrGives]++;
  ENTER;
  if (!image) return invalidValue;
  *m = new int;
  return success;
}
API cuModuleUnload(void *m) { return delete static_cast<int *>(m), success; }
API cuModuleGetFunction(void **f, void *, const char *name) {
  counted[takesOrGives]++;
  ENTER;
  auto e = sim::find(name);
  if (!e) return notFound;
  *f = new Function{e};
  return success;
}
API cuFuncSetAttribute(void *f, int attribute, int v) {
  counted[takesOrGives]++;
  ENTER;
  if (attribute != 8) return success; // MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (v > sharedMost()) return invalidValue;
  static_cast<Function *>(f)->sharedLimit = v;
  return success;
}
API cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **) {
  counted[launches]++;
  ENTER;
  auto fn = static_cast<Function *>(f);
  const sim::Entry *e = fn->entry;
  unsigned threads = bx * by * bz;
  if (int(shared) > fn->sharedLimit || !gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || !threads || threads % 32 || int(threads) > e->threads) {
    fprintf(stderr, "simulated GPU: %s refused: grid (%u,%u,%u), %u threads of at most %d, %u bytes of shared memory of at most %d\n", e->name, gx, gy, gz, threads, e->threads, shared, fn->sharedLimit);
    return invalidValue;
  }
  std::vector<std::vector<char>> kept(e->arguments);
  for (int i = 0; i < e->arguments; i++) {
    auto from = static_cast<const char *>(params[i]);
    kept[i].assign(from, from + e->sizes[i]);
    for (int p = 0; p < e->pointers[i]; p++) {
      Address a;
      memcpy(&a, from + p * sizeof a, sizeof a);
      void *at = a ? sim::inKernel(a) : nullptr;
      if (a && !at) {
        fprintf(stderr, "simulated GPU: %s: argument %d is no address on the device\n", e->name, i);
        return invalidValue;
      }
      memcpy(kept[i].data() + p * sizeof at, &at, sizeof at);
    }
  }
  return put(stream, {[=]() mutable {
               void *arguments[64];
               for (size_t i = 0; i < kept.size(); i++) arguments[i] = kept[i].data();
               return sim::launch(*e, {gx, gy, gz}, {bx, by, bz}, shared, arguments) ? 0 : int(illegalAddress);
             }});
}
