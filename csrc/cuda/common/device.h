// Properties of the current device, and block sizes that follow from them. Host code.
#pragma once

#include "common/launch.h"

#ifndef __CUDACC_RTC__

#include <mutex>
#include <vector>

namespace ptd {

struct DeviceProperties {
  int multiprocessors;
  int threads;  // maximum number resident on a multiprocessor
  int shared;   // bytes of shared memory of a multiprocessor
};

// The attributes are queried once per device.
inline const DeviceProperties& device_properties() {
  static std::mutex mutex;
  static std::vector<DeviceProperties*> known;  // never freed: references stay valid
  int device = 0;
  cudaGetDevice(&device);
  const std::lock_guard<std::mutex> lock(mutex);
  if (size_t(device) >= known.size()) known.resize(device + 1);
  if (known[device]) return *known[device];
  const auto ask = [device](int& value, cudaDeviceAttr attribute) {
    return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess;
  };
  static const DeviceProperties kModest{16, 1024, 48 * 1024};  // a launch then reports the error
  DeviceProperties found{};
  if (!ask(found.multiprocessors, cudaDevAttrMultiProcessorCount) ||
      !ask(found.threads, cudaDevAttrMaxThreadsPerMultiProcessor) ||
      !ask(found.shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor)) {
    return kModest;
  }
  known[device] = new DeviceProperties(found);
  return *known[device];
}

// The bytes of dynamic shared memory that a block may use so that half of a multiprocessor's
// threads can be resident. The limit is what every device grants without opting in to more, minus a
// kernel's static shared memory.
inline size_t shared_memory_budget(int threads) {
  constexpr size_t kGranted = 48 * 1024, kStatic = 1024;
  constexpr size_t kReserved = 1024;  // by CUDA for each block, from sm_80 on
  const DeviceProperties& device = device_properties();
  const int blocks = device.threads / 2 / threads;
  const size_t per_block = size_t(device.shared) / size_t(blocks > 0 ? blocks : 1);
  const size_t left = per_block > kReserved ? per_block - kReserved : 0;
  return left < kGranted - kStatic ? left : kGranted - kStatic;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The number of blocks for a grid's first dimension: at least one, so that a launch is valid.
inline unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>(items > 0 ? ceil_div(items, per_block) : 1);
}

// The threads of a power of two of warps: at least `threads`, but at most `max_threads`.
inline unsigned whole_warps(int64_t threads, int max_threads = 1024) {
  unsigned count = 32;
  while (int(count) < max_threads && int64_t(count) < threads) count *= 2;
  return count;
}

}  // namespace ptd

#endif
