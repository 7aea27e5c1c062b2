// The memory of the simulated GPU.
//
// An allocation has two addresses. The host gets one at which there never is any memory: it cannot
// read or write it but through the driver. Kernels work at the other one; the driver translates the
// addresses among a kernel's arguments when it runs. Each allocation ends at a page that cannot be
// read or written and starts as NaN. Addresses that were freed are not used again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace sim {

typedef unsigned long long Address; // CUdeviceptr

// allocate returns 0 where there is no room.
Address allocate(size_t bytes);
// release is false where there is no such allocation, or a kernel wrote past its end.
bool release(Address a);

// memoryTotal and memoryFree are the size of the GPU's memory and what is left of it.
size_t memoryTotal();
size_t memoryFree();

// inKernel is an address as kernels see it, or null where it is none of the device. It need not
// be allocated any more: then whoever reads it faults.
void *inKernel(Address a);

// reach is inKernel for so many bytes that all lie in one allocation, or null.
void *reach(Address a, size_t bytes);

// explain says what lies at an address that faulted.
std::string explain(const void *at);

} // namespace sim
