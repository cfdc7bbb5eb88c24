// simplex_projection on the GPU: the method is in math/simplex.h.
//
// Two mappings of rows to threads:
//   short, R <= 32   a row has `Lanes` lanes of a warp, an entry in each, and never leaves the
//                    registers; 2 rows R numbers move, which is the least there is.
//   long             a row has a block. Each of Newton's steps reads it again, from L1 or L2.
// Memory moves the least of a long row too, and backward, 3 rows R numbers, of both.
#pragma once

#include "simplex_group.cuh"

namespace ptd {

constexpr int kLongProjection = 1024;  // threads at most
template <class T>
constexpr int kLongProjectionBlocks = sizeof(T) == 4 ? 2 : 1;  // a multiprocessor must hold

// x less the largest entry of its row, `top`; infinities as limits.
template <class T>
__device__ __forceinline__ T below_top(T x, T top) {
  return x == top ? T(0) : x - top;
}

template <class T, int Lanes>
__global__ void __launch_bounds__(kLaneBlock)
    simplex_project_short(const T* __restrict__ x,    // [rows, R]
                          T* __restrict__ projected,  // [rows, R]
                          int64_t rows, int parts) {
  LaneGroup<Lanes> group;
  const int64_t row = int64_t(blockIdx.x) * group.kPerBlock + group.index();
  const bool inside = row < rows && group.part() < parts;
  const int64_t at = row * parts + group.part();
  const T entry = inside ? x[at] : -infinity<T>();
  T top = lanes_max<Lanes>(entry);
  if (lanes_max<Lanes>(entry != entry ? T(1) : T(0)) > T(0)) top = not_a_number<T>();
  const T below[1] = {inside ? below_top(entry, top) : -infinity<T>()};
  T theta[1] = {T(-1)};
  thresholds(group, below, theta);
  if (inside) projected[at] = above_zero(below[0] - theta[0]);
}

template <class T>
__global__ void __launch_bounds__(kLongProjection, kLongProjectionBlocks<T>)
    simplex_project_long(const T* __restrict__ x,    // [rows, R], one block for each row
                         T* __restrict__ projected,  // [rows, R]
                         int parts) {
  const T* row = x + int64_t(blockIdx.x) * parts;
  T* out = projected + int64_t(blockIdx.x) * parts;
  const int threads = blockDim.x;
  __shared__ T sum_scratch[kLongProjection / kWarp], count_scratch[kLongProjection / kWarp];
  T top = -infinity<T>(), is_nan = T(0);
  for (int k = threadIdx.x; k < parts; k += threads) {
    const T entry = row[k];
    top = max_of(top, entry);
    if (entry != entry) is_nan = T(1);
  }
  top = block_max(top, sum_scratch);
  if (block_max(is_nan, count_scratch) > T(0)) top = not_a_number<T>();
  T theta = T(-1);
  for (;;) {
    T sum = T(0), count = T(0);
    for (int k = threadIdx.x; k < parts; k += threads) {
      const T below = below_top(row[k], top);
      if (below > theta) {
        sum += below;
        count += T(1);
      }
    }
    // Each sum's barrier keeps the other's scratch from being written while it is read.
    sum = block_sum(sum, sum_scratch);
    const T next = newton_threshold(sum, block_sum(count, count_scratch));
    if (!(next > theta)) break;
    theta = next;
  }
  for (int k = threadIdx.x; k < parts; k += threads) {
    out[k] = above_zero(below_top(row[k], top) - theta);
  }
}

// dx = [p > 0] (g - mean of g over the support), and NaN where p is NaN.
template <class T>
__device__ __forceinline__ T on_support(T g, T p, T mean) {
  return p > T(0) ? g - mean : T(0) * p;
}

template <class T, int Lanes>
__global__ void __launch_bounds__(kLaneBlock)
    simplex_project_short_backward(const T* __restrict__ grad,       // [rows, R]
                                   const T* __restrict__ projected,  // [rows, R]
                                   T* __restrict__ grad_x,           // [rows, R]
                                   int64_t rows, int parts) {
  LaneGroup<Lanes> group;
  const int64_t row = int64_t(blockIdx.x) * group.kPerBlock + group.index();
  const bool inside = row < rows && group.part() < parts;
  const int64_t at = row * parts + group.part();
  const T p = inside ? projected[at] : T(0), g = inside ? grad[at] : T(0);
  T sums[2] = {p > T(0) ? g : T(0), p > T(0) ? T(1) : T(0)};
  group.sum(sums);
  if (inside) grad_x[at] = on_support(g, p, sums[0] / sums[1]);
}

template <class T>
__global__ void __launch_bounds__(kLongProjection, kLongProjectionBlocks<T>)
    simplex_project_long_backward(const T* __restrict__ grad,       // [rows, R], a block for each
                                  const T* __restrict__ projected,  // [rows, R]
                                  T* __restrict__ grad_x,           // [rows, R]
                                  int parts) {
  const int64_t first = int64_t(blockIdx.x) * parts;
  const int threads = blockDim.x;
  __shared__ T sum_scratch[kLongProjection / kWarp], count_scratch[kLongProjection / kWarp];
  T sum = T(0), count = T(0);
  for (int k = threadIdx.x; k < parts; k += threads) {
    if (projected[first + k] > T(0)) {
      sum += grad[first + k];
      count += T(1);
    }
  }
  sum = block_sum(sum, sum_scratch);
  const T mean = sum / block_sum(count, count_scratch);
  for (int k = threadIdx.x; k < parts; k += threads) {
    grad_x[first + k] = on_support(grad[first + k], projected[first + k], mean);
  }
}

#ifdef __CUDACC_RTC__
#define PTD_SHORT(T, Lanes)                                                                 \
  template __global__ void simplex_project_short<T, Lanes>(const T*, T*, int64_t, int);     \
  template __global__ void simplex_project_short_backward<T, Lanes>(const T*, const T*, T*, \
                                                                    int64_t, int);
#define PTD_SIMPLEX(T)                                                 \
  PTD_SHORT(T, 8)                                                      \
  PTD_SHORT(T, 16)                                                     \
  PTD_SHORT(T, 32)                                                     \
  template __global__ void simplex_project_long<T>(const T*, T*, int); \
  template __global__ void simplex_project_long_backward<T>(const T*, const T*, T*, int);
PTD_SIMPLEX(float)
PTD_SIMPLEX(double)
#endif

}  // namespace ptd
