// From the gradient of P(noisy label | x) back to parts, slack and weights.
//
// With M = T(x) + slack its gradient has the form
//
//   dM_ik = [M_ik > 0] (entry_i G_k - row_i)      with slack (Revised)
//   dM_ik = entry_i G_k                           without
//
// where entries and rows [N, C] come from the kernels that compute dz, and from there
//
//   dslack = sum_n dM,   dP^j = sum_n h_j dM,   dh_j = <P^j, dM>.
//
// dM is formed where it is used, never stored. No atomics: every sum has its order, and the only
// thing it depends on is the sizes. Bytes that must move, in numbers: for the parts and slack
// N (2 C + R), for the weights N (2 C + R) too, where slack adds N C and N (C + R); and the parts
// with their gradient. Memory moves no more, save the sums of ranges, where there are several:
// R C^2 numbers of each, with slack (R + 1) C^2, are written and read once. From L2 spread_parts
// has its samples once for each block: from some hundred classes on C / 2 times what must move,
// with slack 0.7 C. Arithmetic, N R C^2 multiply-adds for each gradient and, with slack, as many to
// form M again, is the limit.
#pragma once

#include "sample_tile.cuh"

namespace ptd {

constexpr int kSpreadBlock = 128;  // threads
constexpr int kSpreadBlocks = 8;   // on a multiprocessor of 64 warps: half of them

// Parts whose gradients a thread holds in registers: as many as leave half the warps of a
// multiprocessor their registers, and a divisor of the paper's numbers of parts, 10 and 20.
template <bool Revised, class T>
constexpr int kHeldParts = (Revised ? 10 : 20) * 4 / sizeof(T);
// The same for gradients of weights, four samples of each; a power of two.
template <class T>
constexpr int kHeldWeights = 8 * 4 / sizeof(T);

template <class T>
struct Pull {
  const T* entries;  // [N, C]
  const T* grad;     // G, [N, C]
  const T* rows;     // [N, C]; read where Revised
};

// dM of entry (i, k), for the samples of a tile; zero for those beyond the last.
template <bool Revised, class T>
__device__ __forceinline__ void pull_entry(const TransitionBatch<T>& batch, const Pull<T>& pull,
                                           const Four<T>* h,  // shared, [R]
                                           int64_t first, int i, int k, T (&dm)[kTile]) {
  T m[kTile];
  // Two at a time are more than doubles have registers for.
  if constexpr (Revised) combine<(sizeof(T) == 4 ? 2 : 1)>(batch, h, i, k, m);
  const int64_t row = first * batch.classes;
#pragma unroll
  for (int s = 0; s < kTile; ++s) {
    dm[s] = T(0);
    if (first + s >= batch.samples) continue;
    const int at = s * batch.classes;
    const T product = pull.entries[row + i + at] * pull.grad[row + k + at];
    if constexpr (Revised) {
      dm[s] = m[s] <= T(0) ? T(0) : product - pull.rows[row + i + at];
    } else {
      dm[s] = product;
    }
  }
}

// Sums over a range of samples, of which every block has its own: a thread has an entry (i, k) and
// the gradients of kHeldParts parts. Blocks: (entries / kSpreadBlock, parts / kHeldParts, ranges).
template <bool Revised, class T>
__global__ void __launch_bounds__(kSpreadBlock, kSpreadBlocks)
    spread_parts(TransitionBatch<T> batch, Pull<T> pull, int tiles, int64_t range_size,
                 T* __restrict__ grad_columns,  // [ranges, C, R, C] or nullptr
                 T* __restrict__ grad_slack) {  // [ranges, C, C] or nullptr
  constexpr int held = kHeldParts<Revised, T>;
  PTD_DYNAMIC_SHARED(Four<T>, h);  // [tiles, R]
  const int classes = batch.classes, parts = batch.parts;
  const int square = classes * classes;
  const int entry = blockIdx.x * kSpreadBlock + threadIdx.x;  // k C + i
  const bool inside = entry < square;
  const int k = inside ? entry / classes : 0, i = inside ? entry % classes : 0;
  const int first_part = blockIdx.y * held;
  const int count = !grad_columns ? 0 : parts - first_part < held ? parts - first_part : held;

  T by_part[held] = {}, total = T(0);
  const int64_t begin = int64_t(blockIdx.z) * range_size;
  const int64_t end = begin + range_size < batch.samples ? begin + range_size : batch.samples;
  for (int64_t staged = begin; staged < end; staged += tiles * kTile) {
    __syncthreads();
    stage_weights(batch, staged, tiles, h);
    __syncthreads();
    for (int tile = 0; tile < tiles && staged + tile * kTile < end; ++tile) {
      const Four<T>* weights = h + tile * parts;
      T dm[kTile];
      pull_entry<Revised>(batch, pull, weights, staged + tile * kTile, i, k, dm);
#pragma unroll
      for (int s = 0; s < kTile; ++s) total += dm[s];
#pragma unroll
      for (int j = 0; j < held; ++j) {
        if (j >= count) break;
        const Four<T> weight = weights[first_part + j];
#pragma unroll
        for (int s = 0; s < kTile; ++s) by_part[j] += weight.of[s] * dm[s];
      }
    }
  }
  if (!inside) return;
  if (grad_slack && blockIdx.y == 0) grad_slack[int64_t(blockIdx.z) * square + entry] = total;
#pragma unroll
  for (int j = 0; j < held; ++j) {
    if (j >= count) break;
    const int64_t column = int64_t(blockIdx.z) * classes + k;
    grad_columns[(column * parts + first_part + j) * classes + i] = by_part[j];
  }
}

// out = sum of the ranges, in order; (count + 1) size numbers move. If `classes` is given, element
// k C + i goes to i row_stride + k column_stride, and to its own place if it is zero.
template <class T>
__global__ void __launch_bounds__(kSpreadBlock, kSpreadBlocks)
    sum_ranges(const T* __restrict__ ranges,  // [count, size]
               T* __restrict__ out,           // [size]
               int64_t count, int64_t size, int64_t classes, int64_t row_stride,
               int64_t column_stride) {
  const int64_t at = int64_t(blockIdx.x) * kSpreadBlock + threadIdx.x;
  if (at >= size) return;
  T sum = T(0);
  for (int64_t range = 0; range < count; ++range) sum += ranges[range * size + at];
  out[classes ? at % classes * row_stride + at / classes * column_stride : at] = sum;
}

// A block has a tile of samples and kHeldWeights parts; its threads go through all entries (i, k).
// Blocks: (parts / kHeldWeights, tiles), those of a tile next to each other, so that only the first
// of them waits for memory; a third extent, since the second has its limit.
template <bool Revised, class T>
__global__ void __launch_bounds__(kSpreadBlock, kSpreadBlocks)
    spread_weights(TransitionBatch<T> batch, Pull<T> pull,
                   T* __restrict__ grad_weights) {  // [N, R]
  constexpr int held = kHeldWeights<T>, values = held * kTile, warps = kSpreadBlock / 32;
  PTD_DYNAMIC_SHARED(Four<T>, h);  // [R]
  __shared__ T partial[warps][values];
  const int classes = batch.classes, parts = batch.parts;
  const int64_t first = int64_t(blockIdx.z * gridDim.y + blockIdx.y) * kTile;
  if (first >= batch.samples) return;  // the whole block
  const int square = classes * classes, first_part = blockIdx.x * held;
  const int count = parts - first_part < held ? parts - first_part : held;
  if constexpr (Revised) stage_weights(batch, first, 1, h);  // else T(x) is not formed again
  __syncthreads();

  T by_weight[values] = {};  // [kTile, held]
  for (int entry = threadIdx.x; entry < square; entry += kSpreadBlock) {
    const int k = entry / classes, i = entry % classes;
    T dm[kTile];
    pull_entry<Revised>(batch, pull, h, first, i, k, dm);
    const T* part = batch.columns + (int64_t(k) * parts + first_part) * classes + i;
#pragma unroll
    for (int j = 0; j < held; ++j) {
      if (j >= count) break;
      const T p = part[j * classes];
#pragma unroll
      for (int s = 0; s < kTile; ++s) by_weight[s * held + j] += p * dm[s];
    }
  }
  spread_sums<32>(by_weight);
  constexpr int lanes_per_value = 32 / values;
  if (threadIdx.x % lanes_per_value == 0) {
    partial[threadIdx.x / 32][threadIdx.x % 32 / lanes_per_value] = by_weight[0];
  }
  __syncthreads();
  const int s = threadIdx.x / held, j = threadIdx.x % held;
  if (s >= kTile || first + s >= batch.samples || j >= count) return;
  T sum = T(0);
#pragma unroll
  for (int warp = 0; warp < warps; ++warp) sum += partial[warp][threadIdx.x];
  grad_weights[(first + s) * parts + first_part + j] = sum;
}

#ifdef __CUDACC_RTC__
#define PTD_SPREAD(Revised, T)                                                                     \
  template __global__ void spread_parts<Revised, T>(TransitionBatch<T>, Pull<T>, int, int64_t, T*, \
                                                    T*);                                           \
  template __global__ void spread_weights<Revised, T>(TransitionBatch<T>, Pull<T>, T*);
PTD_SPREAD(false, float)
PTD_SPREAD(true, float)
PTD_SPREAD(false, double)
PTD_SPREAD(true, double)
template __global__ void sum_ranges<float>(const float*, float*, int64_t, int64_t, int64_t, int64_t,
                                           int64_t);
template __global__ void sum_ranges<double>(const double*, double*, int64_t, int64_t, int64_t,
                                            int64_t, int64_t);
#endif

}  // namespace ptd
