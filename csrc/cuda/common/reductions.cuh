// Sums and maxima over groups of lanes and over a block.
//
// Every lane of a group must call, with the group converged. The mask has the lanes of that group
// alone, so groups of one warp may diverge. All lanes receive the same result, bit for bit, because
// a butterfly adds the same pairs in every lane. The order of additions depends on the width alone,
// so results are reproducible.
//
// A compiler may fuse a product with the addition that follows. In a butterfly each lane would then
// round another factor of the pair, and lanes would disagree; a loop that such a sum ends would
// leave some of them behind. add_of is never fused.
#pragma once

#include "common/launch.h"

namespace ptd {

constexpr int kWarp = 32;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x / kWarp); }

// The lanes of the caller's group: kWidth neighbours, a power of two. Blocks are one-dimensional.
template <int kWidth>
__device__ __forceinline__ unsigned lanes_mask() {
  static_assert(kWidth >= 1 && kWidth <= kWarp && (kWidth & (kWidth - 1)) == 0);
  if constexpr (kWidth == kWarp) {
    return 0xffffffffu;
  } else {
    return ((1u << kWidth) - 1u) << (lane_id() & ~(kWidth - 1));
  }
}

__device__ __forceinline__ int add_of(int a, int b) { return a + b; }
__device__ __forceinline__ float add_of(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double add_of(double a, double b) { return __dadd_rn(a, b); }

__device__ __forceinline__ float max_of(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double max_of(double a, double b) { return fmax(a, b); }

template <int kWidth, class T>
__device__ __forceinline__ T lanes_sum(T value) {
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2) {
    value = add_of(value, __shfl_xor_sync(lanes_mask<kWidth>(), value, offset));
  }
  return value;
}

// NaN is ignored here; it propagates through the sums instead.
template <int kWidth, class T>
__device__ __forceinline__ T lanes_max(T value) {
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2) {
    value = max_of(value, __shfl_xor_sync(lanes_mask<kWidth>(), value, offset));
  }
  return value;
}

// Reductions over all threads of a block of whole warps. `scratch` is the caller's shared memory,
// one element per warp; it may be reused after the next barrier.
template <class T>
__device__ __forceinline__ T block_sum(T value,
                                       T* scratch) {  // [blockDim.x / 32]
  value = lanes_sum<kWarp>(value);
  if (lane_id() == 0) scratch[warp_id()] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  return lanes_sum<kWarp>(lane_id() < warps ? scratch[lane_id()] : T(0));
}

template <class T>
__device__ __forceinline__ T block_max(T value,
                                       T* scratch) {  // [blockDim.x / 32]
  value = lanes_max<kWarp>(value);
  if (lane_id() == 0) scratch[warp_id()] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  return lanes_max<kWarp>(lane_id() < warps ? scratch[lane_id()] : scratch[0]);
}

}  // namespace ptd
