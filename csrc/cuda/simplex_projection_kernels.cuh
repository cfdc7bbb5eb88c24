// simplex_projection on the GPU: the method is in math/simplex.h.
//
// Mappings of rows to threads:
//   short, R <= 32   a row has four lanes, and a lane every fourth of its entries, in registers.
//   long             a row has a block. Each of Newton's steps reads it again, from L1 or L2.
// 2 rows R numbers move, backward 3 rows R: the least there is. Lanes of a short row load and store
// four numbers that follow each other: what is left of a sector L1 keeps for their next load, and
// what is stored meets in L2. To go through shared memory instead would make whole sectors of them,
// but keep few rows, which take no longer than their slowest warp, waiting.
#pragma once

#include "../math/simplex.h"
#include "reduce.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr int kLongProjection = 1024;  // threads at most
template <class T>
constexpr int kLongProjectionBlocks = sizeof(T) == 4 ? 2 : 1;  // a multiprocessor must hold

// x less the largest entry of its row, `top`; infinities as limits.
template <class T>
__device__ __forceinline__ T below_top(T x, T top) {
  return x == top ? T(0) : x - top;
}

constexpr int kRowLanes = 4, kShortThreads = 64;       // few in a block, so that few rows have many
constexpr int kShortRows = kShortThreads / kRowLanes;  // of a block

// Which entries of a row a lane has.
class ShortRow {
  int64_t start;
  int own;  // entries of the row, from the lane's first

 public:
  __device__ __forceinline__ ShortRow(int64_t rows, int parts) {
    const int64_t row = int64_t(blockIdx.x) * kShortRows + threadIdx.x / kRowLanes;
    const int lane = threadIdx.x % kRowLanes;
    start = row * parts + lane;
    own = row < rows ? parts - lane : 0;
  }
  __device__ __forceinline__ bool has(int v) const { return v * kRowLanes < own; }
  __device__ __forceinline__ int64_t at(int v) const { return start + v * kRowLanes; }

  // Over the row's lanes, by all of the warp: a mask of each row would take time.
  template <class T>
  __device__ __forceinline__ T sum(T x) const {
    return lanes_sum<kRowLanes>(x, 0xffffffffu);
  }
};

template <class T, int V>
__global__ void __launch_bounds__(kShortThreads)
    simplex_project_short(const T* __restrict__ x,    // [rows, R]
                          T* __restrict__ projected,  // [rows, R]
                          int64_t rows, int parts) {
  const ShortRow row(rows, parts);
  T below[V], top = -infinity<T>();
#pragma unroll
  for (int v = 0; v < V; ++v) below[v] = row.has(v) ? x[row.at(v)] : -infinity<T>();
#pragma unroll
  for (int v = 0; v < V; ++v) top = max_of(top, below[v]);
  top = lanes_max<kRowLanes>(top);
  // All that is -1 or less gets nothing; NaN stays.
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const T exact = below_top(below[v], top);
    below[v] = !row.has(v) || exact < T(-1) ? T(-1) : exact;
  }
  T theta = T(-1);
  bool rises;
  do {
    T sum = T(0), count = T(0);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const T above = below[v] <= theta ? T(0) : T(1);  // NaN is, and makes all of the row NaN
      sum += above * below[v];
      count += above;
    }
    const T next = newton_threshold(row.sum(sum), row.sum(count));
    rises = next > theta;
    theta = next <= theta ? theta : next;
  } while (__any_sync(0xffffffffu, rises));
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (row.has(v)) projected[row.at(v)] = above_zero(below[v] - theta);
  }
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

template <class T, int V>
__global__ void __launch_bounds__(kShortThreads)
    simplex_project_short_backward(const T* __restrict__ grad,       // [rows, R]
                                   const T* __restrict__ projected,  // [rows, R]
                                   T* __restrict__ grad_x,           // [rows, R]
                                   int64_t rows, int parts) {
  const ShortRow row(rows, parts);
  T p[V], g[V], sum = T(0), count = T(0);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    p[v] = row.has(v) ? projected[row.at(v)] : T(0);
    g[v] = row.has(v) ? grad[row.at(v)] : T(0);
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    sum += p[v] > T(0) ? g[v] : T(0);
    count += p[v] > T(0) ? T(1) : T(0);
  }
  const T mean = row.sum(sum) / row.sum(count);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (row.has(v)) grad_x[row.at(v)] = on_support(g[v], p[v], mean);
  }
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
#define PTD_SHORT(T, V)                                                                          \
  template __global__ void simplex_project_short<T, V>(const T*, T*, int64_t, int);              \
  template __global__ void simplex_project_short_backward<T, V>(const T*, const T*, T*, int64_t, \
                                                                int);
#define PTD_SIMPLEX(T)                                                 \
  PTD_SHORT(T, 2)                                                      \
  PTD_SHORT(T, 4)                                                      \
  PTD_SHORT(T, 6)                                                      \
  PTD_SHORT(T, 8)                                                      \
  template __global__ void simplex_project_long<T>(const T*, T*, int); \
  template __global__ void simplex_project_long_backward<T>(const T*, const T*, T*, int);
PTD_SIMPLEX(float)
PTD_SIMPLEX(double)
#endif

}  // namespace ptd
