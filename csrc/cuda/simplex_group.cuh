// Threads that work on the same rows, one entry of each in every thread: neighbouring lanes of a
// warp, or a whole block. Sums over them come out the same in all threads, to the bit.
#pragma once

#include "../math/simplex.h"
#include "launch.h"
#include "reduce.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr int kLaneBlock = 256;  // threads of a block that holds several lane groups
constexpr int kMostBlockGroup = 256;

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
};

// kMost sums at a time. The scratch alternates: who writes one half has passed a barrier after
// which nobody reads it any more.
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
    static_assert(kCount <= kMost);
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      values[v] = lanes_sum<kWarp>(values[v]);
      if (lane_id() == 0) scratch.of[half][warp_id()][v] = values[v];
    }
    __syncthreads();
    const int warps = static_cast<int>(blockDim.x) / kWarp;
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      values[v] = T(0);
      for (int w = 0; w < warps; ++w) values[v] += scratch.of[half][w][v];
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

// NaN stays.
template <class T>
__device__ __forceinline__ T above_zero(T x) {
  return x <= T(0) ? T(0) : x;
}

}  // namespace ptd
