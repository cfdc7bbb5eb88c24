// Threads that work on the same rows, one entry of each in every thread: neighbouring lanes of a
// warp, or a whole block. Sums over them come out the same in all threads, to the bit; the largest
// of their entries is NaN if one is.
#pragma once

#include "../math/simplex.h"
#include "launch.h"
#include "reduce.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr int kLaneBlock = 256;  // threads of a block that holds several lane groups
constexpr int kMostBlockGroup = 256;

template <int Lanes, class T>
__device__ __forceinline__ T lanes_top(T x) {
#pragma unroll
  for (int apart = Lanes / 2; apart > 0; apart /= 2) {
    x = larger_or_nan(x, __shfl_xor_sync(lanes_mask<Lanes>(), x, apart));
  }
  return x;
}

template <int Lanes>
struct LaneGroup {
  static constexpr int kPerBlock = kLaneBlock / Lanes;

  __device__ int part() const { return lane_id() % Lanes; }
  __device__ int index() const { return static_cast<int>(threadIdx.x) / Lanes; }  // in the block
  __device__ void sync() const { __syncwarp(lanes_mask<Lanes>()); }

  template <class T, int kCount>
  __device__ void sum(T (&values)[kCount]) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) values[v] = lanes_sum<Lanes>(values[v]);
  }
  template <class T, int kCount>
  __device__ void top(T (&values)[kCount]) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) values[v] = lanes_top<Lanes>(values[v]);
  }
};

// kMost sums or largest entries at a time. The scratch alternates: who writes one half has passed a
// barrier after which nobody reads it any more.
template <class T, int kMost>
struct BlockGroup {
  struct Scratch {
    T of[2][kMostBlockGroup / kWarp][kMost];
  };
  Scratch& scratch;
  int half = 0;

  __device__ explicit BlockGroup(Scratch& shared) : scratch(shared) {}
  __device__ int part() const { return static_cast<int>(threadIdx.x); }
  __device__ void sync() const { __syncthreads(); }

  template <int kCount>
  __device__ void sum(T (&values)[kCount]) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) values[v] = lanes_sum<kWarp>(values[v]);
    join_warps(values, [](T a, T b) { return a + b; });
  }
  template <int kCount>
  __device__ void top(T (&values)[kCount]) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) values[v] = lanes_top<kWarp>(values[v]);
    join_warps(values, [](T a, T b) { return larger_or_nan(a, b); });
  }

 private:
  template <int kCount, class Join>
  __device__ void join_warps(T (&values)[kCount], const Join& join) {
    static_assert(kCount <= kMost);
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      if (lane_id() == 0) scratch.of[half][warp_id()][v] = values[v];
    }
    __syncthreads();
    const int warps = static_cast<int>(blockDim.x) / kWarp;
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      values[v] = scratch.of[half][0][v];
#pragma unroll 1
      for (int w = 1; w < warps; ++w) values[v] = join(values[v], scratch.of[half][w][v]);
    }
    half = 1 - half;
  }
};

// The theta of each row's projection, from any start. Threads without an entry have -infinity.
template <class T, int Rows, class Group>
__device__ __forceinline__ void thresholds(Group& group, const T (&entry)[Rows], T (&theta)[Rows]) {
  for (bool first = true;; first = false) {
    T sums[2 * Rows];
#pragma unroll
    for (int s = 0; s < Rows; ++s) {
      const bool above = entry[s] > theta[s];
      sums[s] = above ? entry[s] : T(0);
      sums[Rows + s] = above ? T(1) : T(0);
    }
    group.sum(sums);
    bool arrived = true;
#pragma unroll
    for (int s = 0; s < Rows; ++s) {
      const T next = newton_threshold(sums[s], sums[Rows + s]);
      // The first step may come from the right, and fall.
      arrived = arrived && !(first ? next != theta[s] : next > theta[s]);
      theta[s] = first || next > theta[s] ? next : theta[s];
    }
    if (arrived) return;
  }
}

}  // namespace ptd
