#include "memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>

namespace sim {

static constexpr size_t page = 4096, space = size_t(1) << 40; // of addresses

// What lies between the end of an allocation and that of its pages: no NaN, which arithmetic might
// leave as it is.
static constexpr unsigned char slack = 0x5a;

struct Allocation {
  size_t bytes;
  bool freed;
};

static char *outside, *inside;                 // as the host and as kernels see the first byte
static size_t next = page;                     // address space that was never used
static std::map<size_t, Allocation> allocations; // by offset

static size_t used;

size_t memoryTotal() {
  static const size_t n = getenv("VOXSAW_SIM_MEMORY") ? strtoull(getenv("VOXSAW_SIM_MEMORY"), nullptr, 10) : size_t(8) << 30;
  return n;
}

size_t memoryFree() { return memoryTotal() - used; }

static char *reserve() {
  void *p = mmap(nullptr, space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    perror("simulated GPU: reserving addresses");
    abort();
  }
  return static_cast<char *>(p);
}

static size_t pages(size_t bytes) { return (bytes + page - 1) / page * page; }

// where an allocation that ends at the end of its pages begins: kernels rely on no more than 16 bytes
static size_t begin(size_t firstPage, size_t bytes) { return firstPage + pages(bytes) - (bytes + 15) / 16 * 16; }

Address allocate(size_t bytes) {
  if (!inside) outside = reserve(), inside = reserve();
  if (bytes > memoryFree() || next + pages(bytes) + page > space) return 0;
  size_t at = begin(next, bytes);
  if (mprotect(inside + next, pages(bytes), PROT_READ | PROT_WRITE)) return 0;
  memset(inside + next, 0xff, pages(bytes));
  memset(inside + at + bytes, slack, (16 - bytes % 16) % 16);
  next += pages(bytes) + page;
  used += bytes;
  allocations[at] = {bytes, false};
  return reinterpret_cast<Address>(outside + at);
}

// find is the allocation with the greatest offset up to the given one.
static std::map<size_t, Allocation>::iterator find(size_t offset) {
  auto i = allocations.upper_bound(offset);
  return i == allocations.begin() ? allocations.end() : --i;
}

static size_t offsetOf(Address a) { return a - reinterpret_cast<Address>(outside); }

// spoilt says whether somebody wrote between the end of an allocation and that of its pages.
static bool spoilt(size_t at, size_t bytes) {
  auto p = reinterpret_cast<unsigned char *>(inside) + at;
  for (size_t i = bytes; i % 16; i++)
    if (p[i] != slack) return true;
  return false;
}

bool release(Address a) {
  auto i = allocations.find(offsetOf(a));
  if (i == allocations.end() || i->second.freed) return false;
  if (spoilt(i->first, i->second.bytes)) {
    fprintf(stderr, "simulated GPU: a kernel wrote past the end of an allocation of %zu bytes\n", i->second.bytes);
    return false;
  }
  size_t first = i->first / page * page;
  // mapped anew: the memory goes back to the host's system
  mmap(inside + first, pages(i->second.bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  i->second.freed = true;
  used -= i->second.bytes;
  return true;
}

void *inKernel(Address a) { return inside && offsetOf(a) < space ? inside + offsetOf(a) : nullptr; }

void *reach(Address a, size_t bytes) {
  size_t offset = offsetOf(a);
  if (!inside || offset >= space) return nullptr;
  auto i = find(offset);
  if (i == allocations.end() || i->second.freed || offset + bytes > i->first + i->second.bytes) return nullptr;
  return inside + offset;
}

std::string explain(const void *at) {
  char s[200];
  auto p = static_cast<const char *>(at);
  if (!inside || p < inside || p >= inside + space) {
    bool host = inside && p >= outside && p < outside + space;
    snprintf(s, sizeof s, "reads or writes address %p, which is %s", at, host ? "on the device and was not translated" : "not on the device");
    return s;
  }
  size_t offset = p - inside;
  auto i = find(offset);
  if (i == allocations.end())
    snprintf(s, sizeof s, "reads or writes before the first allocation");
  else
    snprintf(s, sizeof s, "reads or writes byte %zu of an allocation of %zu bytes%s", offset - i->first, i->second.bytes, i->second.freed ? " that was freed" : "");
  return s;
}

} // namespace sim
