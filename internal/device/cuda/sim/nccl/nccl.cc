// The simulated NCCL: as much of its interface as nccl.c calls, over the simulated GPU.
//
// Ranks are processes on one machine. The id of a group is the name of an abstract socket on which
// rank 0 listens. Rank 0 adds up what all ranks send it, in their order, and sends the sums back.
// As with the real one, a rank must have a GPU of its own and the context that its process has of
// that GPU without asking; sums between ncclGroupStart and ncclGroupEnd begin at the end; a sum is
// done when the stream comes to it, and one that has failed waits there until it is aborted. A
// process that joins a second group has left the first.
//
// VOXSAW_SIM_NCCL plants faults, in the rank that VOXSAW_SIM_NCCL_RANK names, or in all:
//
//   old        the library says that it is version 2.12.0
//   join       the rank cannot join the others
//   sum        a sum does not begin
//   lost       the network is gone before the second sum of the process
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct ncclComm;
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t;
typedef ncclComm *ncclComm_t;
typedef void *cudaStream_t;
enum {
#define C(name, value) name = value,
#include "../../nccl_symbols.h"
#undef C
};
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
#define API extern "C" __attribute__((visibility("default")))
#define F(result, name, arguments) API result name arguments;
#include "../../nccl_symbols.h"
#undef F

struct ncclComm {
  int rank, ranks;
  std::vector<int> others; // rank 0: sockets of ranks 1, 2, ...; the others: that of rank 0
  std::atomic<int> error{0};
  std::atomic<bool> aborted{false};
  std::atomic<int> sums{0};
};

namespace {

// driver is a function of the simulated driver.
template <class T> T driver(const char *name) {
  void *f = dlsym(RTLD_DEFAULT, name);
  if (!f) fprintf(stderr, "simulated NCCL: no %s: it wants the simulated GPU\n", name), abort();
  return reinterpret_cast<T>(f);
}

std::string lastError;
int listener = -1; // of an id that was made here
int joined = 0;    // groups that this process has not left

int refuse(int result, const std::string &why) {
  lastError = why;
  return result;
}

int hello(ncclComm_t c, int mine) { // what a rank begins with is its GPU
  int gpus[1024] = {mine};
  if (c->rank) {
    if (write(c->others[0], &c->rank, sizeof c->rank) < 0 || write(c->others[0], &mine, sizeof mine) < 0) return ncclSystemError;
    if (read(c->others[0], gpus, sizeof(int) * c->ranks) != ssize_t(sizeof(int) * c->ranks)) return refuse(ncclSystemError, "rank 0 is gone");
  } else {
    std::vector<int> byRank(c->ranks - 1, -1);
    for (int s : c->others) {
      int rank = 0, gpu = 0;
      if (read(s, &rank, sizeof rank) != sizeof rank || read(s, &gpu, sizeof gpu) != sizeof gpu || rank < 1 || rank >= c->ranks) return refuse(ncclSystemError, "a rank is gone");
      byRank[rank - 1] = s, gpus[rank] = gpu;
    }
    c->others = byRank;
    for (int s : c->others)
      if (write(s, gpus, sizeof(int) * c->ranks) < 0) return ncclSystemError;
  }
  for (int i = 0; i < c->ranks; i++)
    for (int j = 0; j < i; j++)
      if (gpus[i] == gpus[j]) return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(j) + " and rank " + std::to_string(i));
  return ncclSuccess;
}

bool planted(const char *fault, int rank) {
  const char *all = getenv("VOXSAW_SIM_NCCL"), *which = getenv("VOXSAW_SIM_NCCL_RANK");
  return all && !strcmp(all, fault) && (!which || atoi(which) == rank);
}

sockaddr_un address(const char *name, socklen_t *length) {
  sockaddr_un a = {};
  a.sun_family = AF_UNIX;
  snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%.100s", name);
  *length = offsetof(sockaddr_un, sun_path) + 1 + strlen(name);
  return a;
}

bool all(int socket, char *data, size_t n, bool reads) {
  while (n) {
    ssize_t done = reads ? recv(socket, data, n, 0) : send(socket, data, n, MSG_NOSIGNAL);
    if (done <= 0) return false;
    data += done, n -= done;
  }
  return true;
}

// exchange replaces values by their sums; false: a rank is gone.
bool exchange(ncclComm *c, float *values, size_t n) {
  char *bytes = reinterpret_cast<char *>(values);
  if (c->rank) return all(c->others[0], bytes, 4 * n, false) && all(c->others[0], bytes, 4 * n, true);
  std::vector<float> theirs(n);
  for (int s : c->others) {
    if (!all(s, reinterpret_cast<char *>(theirs.data()), 4 * n, true)) return false;
    for (size_t i = 0; i < n; i++) values[i] += theirs[i];
  }
  for (int s : c->others)
    if (!all(s, bytes, 4 * n, false)) return false;
  return true;
}

struct Sum {
  ncclComm *comm;
  const void *from;
  void *to;
  size_t count;
  void *stream;
};

int work(void *data) {
  std::unique_ptr<Sum> s(static_cast<Sum *>(data));
  ncclComm *c = s->comm;
  static auto reach = driver<void *(*)(unsigned long long, size_t)>("vsSimReach");
  auto from = static_cast<float *>(reach((unsigned long long)s->from, 4 * s->count));
  auto to = static_cast<float *>(reach((unsigned long long)s->to, 4 * s->count));
  if (!from || !to) return 700;
  if (to != from) memmove(to, from, 4 * s->count);
  if (c->aborted) return 0;
  if (planted("lost", c->rank) && c->sums++ > 0)
    for (int socket : c->others) shutdown(socket, SHUT_RDWR);
  if (exchange(c, to, s->count)) return 0;
  c->error = ncclRemoteError;
  while (!c->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(10)); // a GPU's kernel would wait, too
  return 0;
}

int depth;
std::vector<Sum> waiting; // for the end of the group

int begin(const Sum &s) {
  auto host = driver<int (*)(void *, int (*)(void *), void *)>("vsSimHostWork");
  if (int r = host(s.stream, work, new Sum(s))) return refuse(1, "the driver answers " + std::to_string(r));
  return ncclSuccess;
}

} // namespace

ncclResult_t ncclGetVersion(int *version) { return *version = planted("old", 0) ? 21200 : 22703, ncclSuccess; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  memset(id->internal, 0, sizeof id->internal);
  auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  snprintf(id->internal, 64, "voxsaw-nccl-%d-%lld", getpid(), (long long)now);
  socklen_t length;
  sockaddr_un a = address(id->internal, &length);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr *>(&a), length) || listen(listener, 1024)) return refuse(ncclSystemError, "no socket");
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
  int gpu = -1;
  if (driver<int (*)(int *)>("cuCtxGetDevice")(&gpu)) return refuse(ncclInvalidUsage, "no context is current");
  if (!driver<int (*)()>("vsSimPrimary")()) return refuse(ncclInvalidUsage, "the context is not the device's primary one");
  if (ranks < 1 || ranks > 1024 || rank < 0 || rank >= ranks) return refuse(4, "invalid rank");
  if (planted("join", rank)) return refuse(ncclSystemError, "planted: no network");
  auto c = std::make_unique<ncclComm>();
  c->rank = rank, c->ranks = ranks;
  socklen_t length;
  sockaddr_un a = address(id.internal, &length);
  if (rank) {
    c->others.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(c->others[0], reinterpret_cast<sockaddr *>(&a), length)) return refuse(ncclSystemError, "nobody listens to the id");
  } else {
    if (listener < 0) return refuse(4, "rank 0 did not make the id");
    for (int i = 1; i < ranks; i++) c->others.push_back(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  }
  // The real one allows it, and keeps the buffers of both on the GPU.
  if (joined) return refuse(ncclInvalidUsage, "the group before was not left");
  if (int r = hello(c.get(), gpu)) return r;
  joined++;
  return *comm = c.release(), ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  joined--;
  for (int s : c->others) close(s);
  delete c;
  return ncclSuccess;
}

// The real one frees the communicator. This one keeps it, for sums that still wait on a stream.
ncclResult_t ncclCommAbort(ncclComm_t c) { return c->aborted = true, ncclSuccess; }

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error) { return *error = c->error, ncclSuccess; }

ncclResult_t ncclGroupStart() { return depth++, ncclSuccess; }

ncclResult_t ncclGroupEnd() {
  if (!depth) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth) return ncclSuccess;
  std::vector<Sum> now;
  now.swap(waiting);
  for (const Sum &s : now)
    if (int r = begin(s)) return r;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
  if (type != ncclFloat32 || op != ncclSum || !c) return refuse(4, "only sums of float32 are simulated");
  if (planted("sum", c->rank)) return refuse(3, "planted: a sum that does not begin");
  Sum s{c, from, to, count, stream};
  if (depth) return waiting.push_back(s), ncclSuccess;
  return begin(s);
}

const char *ncclGetErrorString(ncclResult_t r) {
  switch (r) {
  case ncclSuccess: return "no error";
  case 1: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case 4: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case ncclRemoteError: return "remote process exited or there was a network error";
  }
  return "internal error - please report this issue to the NCCL developers";
}

const char *ncclGetLastError(ncclComm_t) { return lastError.c_str(); }
