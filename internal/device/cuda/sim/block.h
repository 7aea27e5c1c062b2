// One block of CUDA threads on a CPU: every thread is a fiber, which runs until it has to wait.
//
// The schedule is the simulator's instrument. One warp runs as far as it can, to the next barrier of
// the block, before another begins; which one begins is drawn from a seeded generator. Whatever is
// ordered by nothing but luck is then out of order soon: a fair schedule was tried and missed two
// missing barriers. Within a warp the lanes run one after the other in a drawn order, up to the next
// instruction that all lanes execute together (a shuffle, an mma, __syncwarp).
//
// All fibers run on the thread that called the driver, one at a time, so nothing here is locked.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sim {

struct Dim {
  uint32_t x, y, z;
};

// A Copy is a cp.async that has not arrived.
struct Copy {
  void *to;
  const void *from;
  bool there; // else zeros are written
  uint32_t group;
};

struct Warp;

// A Lane is one CUDA thread.
struct Lane {
  Dim thread;      // threadIdx
  uint32_t number; // in the warp
  Warp *warp;
  void *stack;  // where its fiber stopped, null before it has started
  char *memory; // of its stack, the upper end
  // operands of the instruction that the warp executes together: registers of this lane, which lie
  // on its stack and stay where they are while the lane waits
  void *result;
  const void *operand[3];
  uint64_t matrices[2]; // of a wgmma
  uint32_t value;
  // cp.async
  int copyCount;
  uint32_t group;
  Copy *copies; // copyMost of them: elsewhere, so that the lanes of a block fit into the nearest cache
  bool unfenced, passed; // copies arrived that products may not read yet; and a barrier was passed so
};

constexpr int copyMost = 64, productMost = 512;

// Where a thread waits, and with whom.
enum class Meeting : uint8_t { Warp, Block, End };

// A Product is a warp's part of a wgmma that has not been computed.
struct Product {
  uint64_t a, b; // matrices in shared memory
  int columns;
  bool turned;           // both matrices
  float *results[5][32]; // of the lanes, for 32 columns each
  uint32_t group;
};

// A Warp is 32 lanes. Each round they run in turn up to a meeting, which must be the same for all.
struct Warp {
  Lane lanes[32];
  uint32_t first, step; // the order of this round: lane (first + turn * step) % 32
  int turn;
  Meeting meeting;
  const char *what; // of the meeting: the instruction
  int line;
  bool waiting, ended;
  Product *products; // productMost of them
  int productCount;
  uint32_t group; // of products
};

// The block that runs.
struct Block {
  Dim index, threads, grid; // blockIdx, blockDim, gridDim
  unsigned char *shared;
  size_t sharedBytes;
};

extern Lane *self;
extern Block block;
extern int lanesPassed; // of the block, whose copies products may not read though a barrier was passed

// meet waits for the other lanes of the warp, or of the block. The last lane of a warp to arrive
// executes the instruction for all.
void meet(Meeting m, const char *what, int line, void (*execute)(Warp &));

// random draws a number from the schedule's generator.
uint32_t random();

// fail ends the kernel that runs, as an error of its launch; the message goes to standard error.
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);

// An Entry is a kernel of the program.
struct Entry {
  const char *name;
  void (*run)(void **arguments);
  int threads;          // at most, from its launch bounds
  int arguments;
  const size_t *sizes;  // of the arguments, in bytes
  const int *pointers;  // how many addresses on the device each argument is
};
void add(const Entry &e);
const Entry *find(const char *name);

// launch runs all blocks of a grid, one after the other in a drawn order, and says whether they all
// ended. Addresses among the arguments are as kernels see them.
bool launch(const Entry &e, Dim grid, Dim threads, size_t shared, void **arguments);

// seed starts the generator again.
void seed(uint64_t s);

} // namespace sim
