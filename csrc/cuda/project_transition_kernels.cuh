// project_transition on the GPU: rows [rows, C], clamped at zero and divided by their sum.
//
//   B = max(M, 0)     r = sum_k B_k     T_k = B_k / r     (uniform where r = 0)
//   dM_k = [M_k > 0] (G_k - sum_l G_l T_l) / r
//
// Bytes that must move: 2 rows C sizeof(T) forward, 3 rows C sizeof(T) backward. These kernels move
// just that up to C = 4096, since a row waits in registers until its sum is known; of a longer row
// what lies beyond is read a second time, from the cache.
//
// Two mappings of rows to threads:
//   short, C <= 128   a row has `Lanes` lanes of a warp and `Items` entries in each. A warp reads
//                     neighbouring rows with one instruction and has `Rows` of these under way,
//                     which keeps enough bytes in flight where rows are short.
//   long              a row has a block, with kItems entries in each thread.
#pragma once

#include "../math/revision.h"
#include "launch.h"
#include "reduce.cuh"

namespace ptd {

constexpr int kShortRowBlock = 256;  // threads
constexpr int kLongRowBlock = 1024;  // threads at most
constexpr int kItems = 4;            // entries that a thread keeps of a long row
// Blocks that must fit a multiprocessor. Zero leaves it to the compiler, which spills doubles.
template <class T>
constexpr int kLongRowBlocks = sizeof(T) == 4 ? 0 : 1;

// The rows of the short mapping that belong to this thread: `first`, then steps of kStep.
template <int Lanes, int Rows>
struct ShortRows {
  static constexpr int kStep = kWarp / Lanes;
  static constexpr int kPerBlock = kShortRowBlock / Lanes * Rows;
  int64_t first;
  int lane;  // within the row

  __device__ ShortRows() {
    first = int64_t(blockIdx.x) * kPerBlock + warp_id() * kStep * Rows + lane_id() / Lanes;
    lane = lane_id() % Lanes;
  }
};

template <class T, int Lanes, int Items, int Rows>
__global__ void __launch_bounds__(kShortRowBlock)
    project_short_rows(const T* __restrict__ matrix,  // [rows, C]
                       T* __restrict__ projected,     // [rows, C]
                       int64_t rows, int classes) {
  const ShortRows<Lanes, Rows> at;
  T entry[Rows][Items];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int64_t row = at.first + r * at.kStep;
#pragma unroll
    for (int t = 0; t < Items; ++t) {
      const int k = at.lane + t * Lanes;
      const bool inside = row < rows && k < classes;
      entry[r][t] = inside ? clamp_entry(matrix[row * classes + k]) : T(0);
    }
  }
  const T uniform = T(1) / T(classes);
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int64_t row = at.first + r * at.kStep;
    T sum = T(0);
#pragma unroll
    for (int t = 0; t < Items; ++t) sum += entry[r][t];
    sum = lanes_sum<Lanes>(sum);
#pragma unroll
    for (int t = 0; t < Items; ++t) {
      const int k = at.lane + t * Lanes;
      if (row < rows && k < classes) {
        projected[row * classes + k] = normalised_entry(entry[r][t], sum, uniform);
      }
    }
  }
}

template <class T, int Lanes, int Items, int Rows>
__global__ void __launch_bounds__(kShortRowBlock)
    project_short_rows_backward(const T* __restrict__ matrix,  // [rows, C]
                                const T* __restrict__ grad,    // [rows, C]
                                T* __restrict__ grad_matrix,   // [rows, C]
                                int64_t rows, int classes) {
  const ShortRows<Lanes, Rows> at;
  T entry[Rows][Items], g[Rows][Items];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int64_t row = at.first + r * at.kStep;
#pragma unroll
    for (int t = 0; t < Items; ++t) {
      const int k = at.lane + t * Lanes;
      const bool inside = row < rows && k < classes;
      entry[r][t] = inside ? clamp_entry(matrix[row * classes + k]) : T(0);
      g[r][t] = inside ? grad[row * classes + k] : T(0);
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int64_t row = at.first + r * at.kStep;
    T sum = T(0), product = T(0);
#pragma unroll
    for (int t = 0; t < Items; ++t) {
      sum += entry[r][t];
      product += g[r][t] * entry[r][t];
    }
    const T inverse = inverse_row_sum(lanes_sum<Lanes>(sum));
    const T mean = lanes_sum<Lanes>(product) * inverse;
#pragma unroll
    for (int t = 0; t < Items; ++t) {
      const int k = at.lane + t * Lanes;
      if (row < rows && k < classes) {
        // A clamped entry is zero here just as its gradient is.
        grad_matrix[row * classes + k] = entry[r][t] == T(0) ? T(0) : (g[r][t] - mean) * inverse;
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kLongRowBlock, kLongRowBlocks<T>)
    project_long_rows(const T* __restrict__ matrix,  // [rows, C], one block for each row
                      T* __restrict__ projected,     // [rows, C]
                      int classes) {
  const T* row = matrix + int64_t(blockIdx.x) * classes;
  T* out = projected + int64_t(blockIdx.x) * classes;
  const int threads = blockDim.x, kept = kItems * threads;
  __shared__ T scratch[kLongRowBlock / kWarp];
  T entry[kItems], sum = T(0);
#pragma unroll
  for (int t = 0; t < kItems; ++t) {
    const int k = threadIdx.x + t * threads;
    entry[t] = k < classes ? clamp_entry(row[k]) : T(0);
    sum += entry[t];
  }
  for (int k = kept + threadIdx.x; k < classes; k += threads) sum += clamp_entry(row[k]);
  sum = block_sum(sum, scratch);

  const T uniform = T(1) / T(classes);
#pragma unroll
  for (int t = 0; t < kItems; ++t) {
    const int k = threadIdx.x + t * threads;
    if (k < classes) out[k] = normalised_entry(entry[t], sum, uniform);
  }
  for (int k = kept + threadIdx.x; k < classes; k += threads) {
    out[k] = normalised_entry(clamp_entry(row[k]), sum, uniform);
  }
}

template <class T>
__global__ void __launch_bounds__(kLongRowBlock, kLongRowBlocks<T>)
    project_long_rows_backward(const T* __restrict__ matrix,  // [rows, C], one block for each row
                               const T* __restrict__ grad,    // [rows, C]
                               T* __restrict__ grad_matrix,   // [rows, C]
                               int classes) {
  const T* row = matrix + int64_t(blockIdx.x) * classes;
  const T* row_grad = grad + int64_t(blockIdx.x) * classes;
  T* out = grad_matrix + int64_t(blockIdx.x) * classes;
  const int threads = blockDim.x, kept = kItems * threads;
  __shared__ T sum_scratch[kLongRowBlock / kWarp], product_scratch[kLongRowBlock / kWarp];
  T entry[kItems], g[kItems], sum = T(0), product = T(0);
#pragma unroll
  for (int t = 0; t < kItems; ++t) {
    const int k = threadIdx.x + t * threads;
    entry[t] = k < classes ? clamp_entry(row[k]) : T(0);
    g[t] = k < classes ? row_grad[k] : T(0);
    sum += entry[t];
    product += g[t] * entry[t];
  }
  for (int k = kept + threadIdx.x; k < classes; k += threads) {
    sum += clamp_entry(row[k]);
    product += row_grad[k] * clamp_entry(row[k]);
  }
  const T inverse = inverse_row_sum(block_sum(sum, sum_scratch));
  const T mean = block_sum(product, product_scratch) * inverse;

#pragma unroll
  for (int t = 0; t < kItems; ++t) {
    const int k = threadIdx.x + t * threads;
    if (k < classes) out[k] = entry[t] == T(0) ? T(0) : (g[t] - mean) * inverse;
  }
  for (int k = kept + threadIdx.x; k < classes; k += threads) {
    out[k] = clamp_entry(row[k]) == T(0) ? T(0) : (row_grad[k] - mean) * inverse;
  }
}

#ifdef __CUDACC_RTC__
#define PTD_SHORT_ROWS(T, Lanes, Items, Rows)                                                     \
  template __global__ void project_short_rows<T, Lanes, Items, Rows>(const T*, T*, int64_t, int); \
  template __global__ void project_short_rows_backward<T, Lanes, Items, Rows>(const T*, const T*, \
                                                                              T*, int64_t, int);
#define PTD_ROWS(T)                                                 \
  PTD_SHORT_ROWS(T, 2, 1, 4)                                        \
  PTD_SHORT_ROWS(T, 4, 1, 4)                                        \
  PTD_SHORT_ROWS(T, 8, 1, 4)                                        \
  PTD_SHORT_ROWS(T, 16, 1, 4)                                       \
  PTD_SHORT_ROWS(T, 32, 1, 4)                                       \
  PTD_SHORT_ROWS(T, 32, 2, 2)                                       \
  PTD_SHORT_ROWS(T, 32, 4, 1)                                       \
  template __global__ void project_long_rows<T>(const T*, T*, int); \
  template __global__ void project_long_rows_backward<T>(const T*, const T*, T*, int);
PTD_ROWS(float)
PTD_ROWS(double)
#endif

}  // namespace ptd
