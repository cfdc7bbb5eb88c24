// How large blocks may be for half the warps of a V100's multiprocessor to fit at once: 32 of 64,
// with 96 KB of shared memory and, at 64 registers a thread, all of its 65,536 registers.
// benchmarks/occupancy.py checks every launch against that.
#pragma once

#include "launch.h"

namespace ptd {

constexpr unsigned kProcessors = 80;  // of a V100

// Bytes of shared memory, static and dynamic, for each warp of a block.
constexpr int kSharedOfWarp = 96 * 1024 / 32;

#ifndef __CUDACC_RTC__

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline bool is_aligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// Warps for `threads` threads: a power of two, so that whole blocks make up 32 warps.
inline unsigned whole_warps(int64_t threads) {
  unsigned warps = 1;
  while (warps < 32 && 32 * int64_t(warps) < threads) warps *= 2;
  return warps;
}

#endif

}  // namespace ptd
