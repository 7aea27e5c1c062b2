#include "block.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "memory.h"

// sim_switch saves the registers that a function keeps, and goes on with another stack.
extern "C" void sim_switch(void **from, void *to);
__asm__(R"(
.text
.globl sim_switch
.hidden sim_switch
.type sim_switch,@function
sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace sim {

Lane *self;
Block block;
int lanesPassed;

// --- The generator: xorshift64*, Vigna 2016.

static uint64_t state = 0x9e3779b97f4a7c15;

void seed(uint64_t s) { state = s * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d; }

uint32_t random() {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (state * 0x2545f4914f6cdd1d) >> 32;
}

// --- Faults: a kernel ends by a jump out of its fiber. Nothing on fibers' stacks has a destructor.

static sigjmp_buf outOfKernel;
static bool running; // a kernel
static const char *kernel = "";

static void describe() {
  fprintf(stderr, "simulated GPU: kernel %s", kernel);
  if (self)
    fprintf(stderr, ", block (%u,%u,%u), thread (%u,%u,%u)", block.index.x, block.index.y, block.index.z, self->thread.x, self->thread.y, self->thread.z);
  fprintf(stderr, ": ");
}

void fail(const char *format, ...) {
  describe();
  va_list a;
  va_start(a, format);
  vfprintf(stderr, format, a);
  va_end(a);
  fprintf(stderr, "\n");
  siglongjmp(outOfKernel, 1);
}

static struct sigaction before; // whoever handled the signal, such as Go's runtime

static void onSegv(int signal, siginfo_t *info, void *context) {
  if (running) {
    describe();
    auto at = static_cast<unsigned char *>(info->si_addr);
    if (at >= block.shared && at < block.shared + (64 << 10) + block.sharedBytes)
      fprintf(stderr, "reads or writes byte %td of %zu bytes of shared memory\n", at - block.shared, block.sharedBytes);
    else
      fprintf(stderr, "%s\n", explain(at).c_str());
    siglongjmp(outOfKernel, 1);
  }
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(signal, info, context);
  else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
    sigaction(SIGSEGV, &before, nullptr); // the instruction faults again, and ends the process
  else
    before.sa_handler(signal);
}

static void catchFaults() {
  static bool done;
  if (done) return;
  done = true;
  struct sigaction a = {};
  a.sa_sigaction = onSegv;
  a.sa_flags = SA_SIGINFO | SA_ONSTACK; // Go's threads have a stack for signals
  sigaction(SIGSEGV, &a, &before);
}

// --- Fibers. A stack belongs to a lane from its first instruction to its last, so that kernels
// without barriers need only one, which stays in the cache.

// All lie in one piece of memory of large pages, or a switch would wait for the address of each stack.
// Their ends lie in different lines of the cache, or those of a block would push each other out.
static constexpr size_t stackBytes = 64 << 10, mostStacks = 1024, largePage = 2 << 20;
static std::vector<char *> stacks; // the upper ends of those that are free
static void *scheduler;            // where it stopped
static const Entry *entry;
static void **arguments;

static void makeStacks() {
  auto p = static_cast<char *>(mmap(nullptr, stackBytes * mostStacks + largePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  p += largePage - reinterpret_cast<uintptr_t>(p) % largePage;
  madvise(p, stackBytes * mostStacks, MADV_HUGEPAGE); // where the system has none, it is only slower
  for (size_t i = mostStacks; i-- > 0;) stacks.push_back(p + (i + 1) * stackBytes - i * 9 % 448 * 64);
}

static void runLanes();

// resume goes on with a lane, and starts it where it has not begun.
static void resume(void **from, Lane &l) {
  self = &l;
  if (!l.stack) {
    l.memory = stacks.back();
    stacks.pop_back();
    void **top = reinterpret_cast<void **>(l.memory) - 3; // as after a call: 8 bytes past a multiple of 16
    *--top = reinterpret_cast<void *>(runLanes);
    for (int i = 0; i < 6; i++) *--top = nullptr;
    l.stack = top;
  }
  sim_switch(from, l.stack);
}

static Lane &nextLane(Warp &w) { return w.lanes[(w.first + w.turn * w.step) % 32]; }

static void drawOrder(Warp &w) {
  uint32_t r = random();
  w.first = r % 32;
  w.step = (r >> 8) | 1; // odd: every lane has its turn
}

// arrive notes that this lane is at a meeting, and says whether it is the last one of its warp.
static bool arrive(Warp &w, Meeting m, const char *what, int line) {
  if (w.turn == 0) {
    w.meeting = m;
    w.what = what;
    w.line = line;
  } else if (w.meeting != m || w.line != line || (w.what != what && strcmp(w.what, what))) {
    fail("waits at %s (line %d), other threads of its warp at %s (line %d)", what, line, w.what, w.line);
  }
  w.turn = (w.turn + 1) % 32;
  return w.turn == 0;
}

void meet(Meeting m, const char *what, int line, void (*execute)(Warp &)) {
  Lane *me = self;
  Warp &w = *me->warp;
  if (!arrive(w, m, what, line)) return resume(&me->stack, nextLane(w));
  if (m == Meeting::Block) {
    for (Lane &l : w.lanes)
      if (l.unfenced && !l.passed) l.passed = true, lanesPassed++;
    w.waiting = true;
    sim_switch(&me->stack, scheduler);
    return;
  }
  if (execute) execute(w);
  drawOrder(w);
  if (Lane &next = nextLane(w); &next != me) resume(&me->stack, next);
}

// runLanes is a fiber. Where the next lane of the warp has not begun, it begins on the same stack.
static void runLanes() {
  for (;;) {
    entry->run(arguments);
    Lane *me = self;
    Warp &w = *me->warp;
    if (me->copyCount) fail("ends with %d asynchronous copies that nothing waited for", me->copyCount);
    if (w.productCount) fail("ends with %d products that nothing waited for", w.productCount);
    bool last = arrive(w, Meeting::End, "its end", 0);
    if (!last && !nextLane(w).stack) {
      self = &nextLane(w);
      self->memory = me->memory;
      self->stack = me->stack;
      continue;
    }
    stacks.push_back(me->memory); // nobody takes it before this fiber has left it
    void *left;
    if (last) {
      w.ended = true;
      sim_switch(&left, scheduler);
    }
    resume(&left, nextLane(w));
  }
}

// --- A block runs from one barrier to the next.

static std::vector<Warp> warps;
static std::vector<Copy> copies;
static std::vector<Product> products;

static void prepare(Dim threads) {
  uint32_t n = threads.x * threads.y * threads.z;
  warps.resize(n / 32);
  if (copies.size() < size_t(n) * copyMost) copies.resize(size_t(n) * copyMost);
  if (products.size() < n / 32 * productMost) products.resize(n / 32 * productMost);
  lanesPassed = 0;
  for (uint32_t i = 0; i < n; i++) {
    Warp &w = warps[i / 32];
    Lane &l = w.lanes[i % 32];
    l.thread = {i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
    l.number = i % 32;
    l.warp = &w;
    l.stack = nullptr;
    l.copyCount = 0;
    l.group = 0;
    l.copies = &copies[size_t(i) * copyMost];
    l.unfenced = l.passed = false;
  }
  for (Warp &w : warps) {
    w.turn = 0;
    w.productCount = 0;
    w.products = &products[(&w - warps.data()) * productMost];
    w.waiting = w.ended = false;
    drawOrder(w);
  }
}

static void shuffle(std::vector<uint32_t> &v) {
  for (size_t i = v.size(); i > 1; i--) std::swap(v[i - 1], v[random() % i]);
}

// release lets all warps pass the barrier at which they wait. It says whether any is left.
static bool release() {
  Warp *first = nullptr;
  size_t waiting = 0, ended = 0;
  for (Warp &w : warps) {
    ended += w.ended;
    if (!w.waiting) continue;
    waiting++;
    if (!first) first = &w;
    if (w.line != first->line) fail("warps wait at different barriers, lines %d and %d", w.line, first->line);
  }
  if (ended == warps.size()) return false;
  if (waiting != warps.size()) fail("%zu of %zu warps wait at the barrier of line %d, the others have ended", waiting, warps.size(), first->line);
  for (Warp &w : warps) w.waiting = false;
  return true;
}

static void runBlock() {
  static std::vector<uint32_t> order;
  order.resize(warps.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    shuffle(order);
    for (uint32_t i : order)
      if (!warps[i].ended) {
        drawOrder(warps[i]);
        resume(&scheduler, nextLane(warps[i]));
        self = nullptr;
      }
  } while (release());
}

// Shared memory ends at a page that cannot be read or written.
static unsigned char *sharedEnd() {
  static unsigned char *end;
  if (!end) {
    constexpr size_t most = 256 << 10, guard = 64 << 10;
    auto p = static_cast<unsigned char *>(mmap(nullptr, most + guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(p + most, guard, PROT_NONE);
    end = p + most;
  }
  return end;
}

bool launch(const Entry &e, Dim grid, Dim threads, size_t shared, void **args) {
  catchFaults();
  if (stacks.empty()) makeStacks();
  entry = &e;
  kernel = e.name;
  arguments = args;
  block.threads = threads;
  block.grid = grid;
  block.sharedBytes = shared;
  block.shared = sharedEnd() - (shared + 15) / 16 * 16;
  if (sigsetjmp(outOfKernel, 1)) {
    running = false;
    self = nullptr;
    return false; // the stacks of its fibers are lost, as is the context
  }
  running = true;
  // a stride that has no factor in common with the number of blocks takes each one once
  uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z, stride = blocks < 3 ? 1 : 1 + random() % (blocks - 1), at = random() % blocks;
  while (std::gcd(stride, blocks) != 1) stride++;
  for (uint64_t i = 0; i < blocks; i++, at = (at + stride) % blocks) {
    block.index = {uint32_t(at % grid.x), uint32_t(at / grid.x % grid.y), uint32_t(at / grid.x / grid.y)};
    memset(block.shared, 0xff, shared);
    prepare(threads);
    runBlock();
  }
  running = false;
  return true;
}

// --- The program's kernels.

static std::map<std::string, Entry> &entries() {
  static std::map<std::string, Entry> m;
  return m;
}

void add(const Entry &e) { entries()[e.name] = e; }

const Entry *find(const char *name) {
  auto i = entries().find(name);
  return i == entries().end() ? nullptr : &i->second;
}

} // namespace sim
