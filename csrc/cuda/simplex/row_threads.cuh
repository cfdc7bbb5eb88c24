// The threads that work on one row: neighbouring lanes of a warp, or a whole block.
//
// A kernel is written once for both, as a template over kLanes: the number of lanes of a row, or
// kWholeBlock. A thread has every kLanes-th (blockDim.x-th) entry of its row. Lanes keep them in
// registers; a block reads them again in every pass, from L1 or L2. All threads of a row receive
// the same sums and maxima, bit for bit, and the order of additions is fixed.
#pragma once

#include "common/device.h"
#include "common/reductions.cuh"
#include "common/scalars.cuh"
#include "common/tuning.h"
#include "math/simplex.h"

namespace ptd {

constexpr int kWholeBlock = 0;
constexpr int kShortRow = kShortRowLanes * kShortRowEntries;  // entries, at most

template <int kLanes>
constexpr int kRowThreads = kLanes == kWholeBlock ? kLongRowThreads : kShortRowThreads;

template <int kWidth, class T>
__device__ __forceinline__ T lanes_max_or_nan(T value) {
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2) {
    value = larger_or_nan(value, __shfl_xor_sync(lanes_mask<kWidth>(), value, offset));
  }
  return value;
}

// One call of `sum` takes at most kSums sums.
template <class T, int kLanes, int kSums = 2>
class RowThreads {
 public:
  struct Scratch {};  // in shared memory
  __device__ explicit RowThreads(Scratch&) {}

  __device__ int rank() const { return lane_id() % kLanes; }
  __device__ int row_of_block() const { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ int rows_per_block() const { return static_cast<int>(blockDim.x) / kLanes; }
  __device__ void sync() const { __syncwarp(lanes_mask<kLanes>()); }

  template <int kCount>
  __device__ void sum(T (&values)[kCount]) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) values[v] = lanes_sum<kLanes>(values[v]);
  }
  __device__ T max_or_nan(T value) { return lanes_max_or_nan<kLanes>(value); }
};

// Each call has one barrier. The two halves of the scratch alternate: a thread that writes to one
// has passed a barrier since the last read of it.
template <class T, int kSums>
class RowThreads<T, kWholeBlock, kSums> {
 public:
  struct Scratch {
    T of_warp[2][kLongRowThreads / kWarp][kSums];
  };
  __device__ explicit RowThreads(Scratch& shared) : scratch(shared) {}

  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int row_of_block() const { return 0; }
  __device__ int rows_per_block() const { return 1; }
  __device__ void sync() const { __syncthreads(); }

  template <int kCount>
  __device__ void sum(T (&values)[kCount]) {
    static_assert(kCount <= kSums);
    T(*const partial)[kSums] = next_half();
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      values[v] = lanes_sum<kWarp>(values[v]);
      if (lane_id() == 0) partial[warp_id()][v] = values[v];
    }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      values[v] = lanes_sum<kWarp>(lane_id() < warps() ? partial[lane_id()][v] : T(0));
    }
  }

  __device__ T max_or_nan(T value) {
    T(*const partial)[kSums] = next_half();
    value = lanes_max_or_nan<kWarp>(value);
    if (lane_id() == 0) partial[warp_id()][0] = value;
    __syncthreads();
    return lanes_max_or_nan<kWarp>(lane_id() < warps() ? partial[lane_id()][0] : -infinity<T>());
  }

 private:
  Scratch& scratch;
  int half = 0;

  __device__ int warps() const { return static_cast<int>(blockDim.x) / kWarp; }
  __device__ auto next_half() -> T (*)[kSums] {
    half = 1 - half;
    return scratch.of_warp[half];
  }
};

// One of the entries that a thread has: its column in the row, and its index in the thread.
struct Entry {
  int column, index;
};

// Calls visit(entry) for each entry of the thread, in the same order every time.
template <int kLanes, class Visit>
__device__ __forceinline__ void for_each_entry(int length, const Visit& visit) {
  if constexpr (kLanes == kWholeBlock) {
    for (int column = threadIdx.x; column < length; column += blockDim.x) visit(Entry{column, 0});
  } else {
#pragma unroll
    for (int index = 0; index < kShortRowEntries; ++index) {
      const int column = lane_id() % kLanes + index * kLanes;
      if (column < length) visit(Entry{column, index});
    }
  }
}

// A row of the input, as its threads see it.
template <class T, int kLanes>
class Row {
  T kept[kShortRowEntries];

 public:
  __device__ __forceinline__ Row(const T* row, int length) {  // [length]
    for_each_entry<kLanes>(length, [&](Entry at) { kept[at.index] = row[at.column]; });
  }
  __device__ __forceinline__ T operator[](Entry at) const { return kept[at.index]; }
};

template <class T>
class Row<T, kWholeBlock> {
  const T* row;  // [length]

 public:
  __device__ __forceinline__ Row(const T* row, int) : row(row) {}
  __device__ __forceinline__ T operator[](Entry at) const { return row[at.column]; }
};

}  // namespace ptd
