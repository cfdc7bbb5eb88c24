// simplex_projection on the GPU: the method is in math/simplex.h.
//
// Mappings of rows to threads:
//   lone, R <= 24    of floats: a row has a lane, with all its entries in registers, which come and
//                    go through shared memory.
//   short, R <= 32   doubles, more parts, backward: an entry in each of `Lanes` lanes.
//   long             a row has a block. Each of Newton's steps reads it again, from L1 or L2.
// 2 rows R numbers move, backward 3 rows R: the least there is.
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

// A row's entries for which shared memory has room, and threads: few, so that few rows have many
// blocks.
constexpr int kMostLoneEntries = 24, kLoneBlock = 64;

// A warp's rows, as they follow each other in memory, to a row in each lane, and back, by way of
// shared memory.
template <int V>
struct LoneRows {
  float* tile;       // [32, parts]
  int parts, count;  // count of all numbers

  // visit(at, a) for the lane's numbers of those in memory.
  template <class Visit>
  __device__ __forceinline__ void in_memory(const Visit& visit) const {
#pragma unroll
    for (int a = 0; a < V; ++a) {
      const int at = lane_id() + kWarp * a;
      if (at < count) visit(at, a);
    }
  }
  // visit(entries, v) for fours of the lane's row, which in the lanes of 4, 12 or 20 parts are in
  // different banks; visit_one(entry, v) for a number of parts that is no multiple of four.
  template <class Visit, class VisitOne>
  __device__ __forceinline__ void in_row(const Visit& visit, const VisitOne& visit_one) const {
    float* const row = tile + lane_id() * parts;
    if (lane_id() * parts >= count) return;
    if (parts % 4 == 0) {
#pragma unroll
      for (int v = 0; v < V; v += 4) {
        if (v < parts) visit(*reinterpret_cast<float4*>(row + v), v);
      }
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (v < parts) visit_one(row[v], v);
      }
    }
  }
  __device__ __forceinline__ void load(const float* from, float (&entries)[V]) const {
    float held[V];
    in_memory([&](int at, int a) { held[a] = from[at]; });
    __syncwarp();  // all are asked for before the first is waited for
    in_memory([&](int at, int a) { tile[at] = held[a]; });
    __syncwarp();
#pragma unroll
    for (int v = 0; v < V; ++v) entries[v] = -infinity<float>();
    in_row(
        [&](const float4& four, int v) {
          entries[v] = four.x;
          entries[v + 1] = four.y;
          entries[v + 2] = four.z;
          entries[v + 3] = four.w;
        },
        [&](float one, int v) { entries[v] = one; });
  }
  __device__ __forceinline__ void store(const float (&entries)[V], float* to) const {
    in_row([&](float4& four,
               int v) { four = {entries[v], entries[v + 1], entries[v + 2], entries[v + 3]}; },
           [&](float& one, int v) { one = entries[v]; });
    __syncwarp();
    in_memory([&](int at, int) { to[at] = tile[at]; });
  }
};

template <int V>
__global__ void __launch_bounds__(kLoneBlock, 16)
    simplex_project_lone(const float* x,    // [rows, R]
                         float* projected,  // [rows, R]
                         int64_t rows, int parts) {
  PTD_DYNAMIC_SHARED(float, shared);
  const int64_t first = int64_t(blockIdx.x) * kLoneBlock + kWarp * warp_id();
  if (first >= rows) return;
  const int own_rows = rows - first < kWarp ? int(rows - first) : kWarp;
  const LoneRows<V> warp{shared + warp_id() * kWarp * parts, parts, own_rows * parts};
  float below[V];
  warp.load(x + first * parts, below);
  float top = -infinity<float>();
  bool is_nan = false;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    top = max_of(top, below[v]);
    is_nan = is_nan || below[v] != below[v];
  }
  if (is_nan) top = not_a_number<float>();
#pragma unroll
  for (int v = 0; v < V; ++v) {
    below[v] = v < parts ? below_top(below[v], top) : -infinity<float>();
  }
  float theta = -1.0f;
  for (bool arrived = false; !__all_sync(0xffffffffu, arrived);) {
    float sum[2] = {}, count[2] = {};  // side by side
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const bool above = below[v] > theta;
      sum[v % 2] += above ? below[v] : 0.0f;
      count[v % 2] += above ? 1.0f : 0.0f;
    }
    const float next = newton_threshold(sum[0] + sum[1], count[0] + count[1]);
    arrived = !(next > theta);
    if (!arrived) theta = next;
  }
#pragma unroll
  for (int v = 0; v < V; ++v) below[v] = above_zero(below[v] - theta);
  warp.store(below, projected + first * parts);
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
#define PTD_LONE(V) \
  template __global__ void simplex_project_lone<V>(const float*, float*, int64_t, int);
PTD_LONE(8)
PTD_LONE(16)
PTD_LONE(kMostLoneEntries)
#define PTD_SHORT(T, Lanes) \
  template __global__ void simplex_project_short<T, Lanes>(const T*, T*, int64_t, int);
PTD_SHORT(float, 32)
PTD_SHORT(double, 8)
PTD_SHORT(double, 16)
PTD_SHORT(double, 32)
#define PTD_SHORT_BACKWARD(T, Lanes)                                                        \
  template __global__ void simplex_project_short_backward<T, Lanes>(const T*, const T*, T*, \
                                                                    int64_t, int);
#define PTD_SIMPLEX(T)                                                 \
  PTD_SHORT_BACKWARD(T, 8)                                             \
  PTD_SHORT_BACKWARD(T, 16)                                            \
  PTD_SHORT_BACKWARD(T, 32)                                            \
  template __global__ void simplex_project_long<T>(const T*, T*, int); \
  template __global__ void simplex_project_long_backward<T>(const T*, const T*, T*, int);
PTD_SIMPLEX(float)
PTD_SIMPLEX(double)
#endif

}  // namespace ptd
