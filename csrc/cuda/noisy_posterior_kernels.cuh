// P(noisy label | x) = T(x)^T g for up to 32 classes, forward and backward in one launch each: for
// doubles, and for floats where noisy_posterior_lanes_kernels.cuh has too many classes or parts.
// The formulas are there, and so are the bytes that must move; these kernels move no more. What
// limits them is arithmetic: N R C^2 multiply-adds, twice that forward with slack, each with a load
// of its own.
//
// A sample's class i has a lane; `Lanes` lanes hold a tile of four samples, and walk together
// through the columns k. T(x) never exists: each entry is formed, used and forgotten.
#pragma once

#include "sample_tile.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr int kPosteriorBlock = 128;  // threads
// Blocks that must fit a multiprocessor. Zero leaves it to the compiler, which gives doubles so
// many registers that less than half the warps of a V100 fit.
template <class T>
constexpr int kPosteriorBlocks = sizeof(T) == 4 ? 0 : 8;

// g of class i for sample n; zero beyond the last class.
template <int Lanes, class T, class Z>
__device__ __forceinline__ T softmax_lanes(const Z* __restrict__ logits,  // [N, C]
                                           const TransitionBatch<T>& batch, int64_t n, int i) {
  const bool inside = n < batch.samples && i < batch.classes;
  const T z = inside ? load<T>(logits + n * batch.classes + i) : -infinity<T>();
  const T exponential = exp_of(z - lanes_max<Lanes>(z));
  return exponential / lanes_sum<Lanes>(exponential);
}

// m = entries (i, k) of T(x), or of max(T(x) + slack, 0), for the samples of a tile. In place of a
// class beyond the last there is class 0, of weight zero.
template <class T>
__device__ __forceinline__ void combine_lanes(const TransitionBatch<T>& batch,
                                              const Four<T>* h,  // shared, [R]
                                              int i, int k, T (&m)[kTile]) {
  combine(batch, h, i < batch.classes ? i : 0, k, m);
  if (!batch.slack) return;
#pragma unroll
  for (int s = 0; s < kTile; ++s) m[s] = clamp_entry(m[s]);
}

template <int Lanes, class T, class Z>
__global__ void __launch_bounds__(kPosteriorBlock, kPosteriorBlocks<T>)
    noisy_posterior_narrow(TransitionBatch<T> batch,
                           const Z* __restrict__ logits,  // [N, C]
                           T* __restrict__ posterior,     // [N, C]
                           T* __restrict__ row_sums) {    // [N, C], written with slack
  constexpr int tiles = kPosteriorBlock / Lanes;
  PTD_DYNAMIC_SHARED(Four<T>, all_weights);       // [tiles, R]
  __shared__ T results[kPosteriorBlock * kTile];  // [tiles * kTile, C], to be written in order
  const int classes = batch.classes, i = threadIdx.x % Lanes, tile = threadIdx.x / Lanes;
  const int64_t block_first = int64_t(blockIdx.x) * tiles * kTile;
  const int64_t first = block_first + tile * kTile;
  stage_weights(batch, block_first, tiles, all_weights);
  __syncthreads();
  const Four<T>* h = all_weights + tile * batch.parts;

  T entry[kTile], m[kTile];
  T uniform_share = T(0);  // of sample i / (Lanes / kTile), whose results this lane writes
#pragma unroll
  for (int s = 0; s < kTile; ++s) entry[s] = softmax_lanes<Lanes>(logits, batch, first + s, i);
  if (batch.slack) {
    T sum[kTile] = {}, share[kTile] = {};
    for (int k = 0; k < classes; ++k) {
      combine_lanes(batch, h, i, k, m);
#pragma unroll
      for (int s = 0; s < kTile; ++s) sum[s] += m[s];
    }
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      const bool inside = first + s < batch.samples && i < classes;
      if (inside) row_sums[(first + s) * classes + i] = sum[s];
      // A row without a positive entry is uniform: its share is the same in every column.
      if (i < classes && sum[s] == T(0)) share[s] += entry[s] / T(classes);
      entry[s] *= inverse_row_sum(sum[s]);
    }
    spread_sums<Lanes>(share);
    uniform_share = share[0];
  }
  for (int k = 0; k < classes; ++k) {
    combine_lanes(batch, h, i, k, m);
#pragma unroll
    for (int s = 0; s < kTile; ++s) m[s] *= entry[s];
    spread_sums<Lanes>(m);
    if (i % (Lanes / kTile) == 0) {
      const int sample = tile * kTile + i / (Lanes / kTile);
      results[sample * classes + k] = m[0] + uniform_share;
    }
  }
  __syncthreads();
  const int64_t rest = (batch.samples - block_first) * classes;
  for (int e = threadIdx.x; e < tiles * kTile * classes && e < rest; e += kPosteriorBlock) {
    posterior[block_first * classes + e] = results[e];
  }
}

template <int Lanes, class T, class Z>
__global__ void __launch_bounds__(kPosteriorBlock, kPosteriorBlocks<T>)
    noisy_posterior_narrow_backward(TransitionBatch<T> batch,
                                    const Z* __restrict__ logits,    // [N, C]
                                    const T* __restrict__ grad,      // [N, C]
                                    const T* __restrict__ row_sums,  // [N, C], read with slack
                                    Z* __restrict__ grad_logits,     // [N, C] or nullptr
                                    T* __restrict__ entries,         // [N, C] or nullptr
                                    T* __restrict__ rows) {          // [N, C], see spread
  constexpr int tiles = kPosteriorBlock / Lanes;
  PTD_DYNAMIC_SHARED(Four<T>, all_weights);     // [tiles, R]
  __shared__ T grads[kPosteriorBlock * kTile];  // [tiles * kTile, C]
  const int classes = batch.classes, i = threadIdx.x % Lanes, tile = threadIdx.x / Lanes;
  const int64_t block_first = int64_t(blockIdx.x) * tiles * kTile;
  const int64_t first = block_first + tile * kTile;
  const int64_t rest = (batch.samples - block_first) * classes;
  for (int e = threadIdx.x; e < tiles * kTile * classes; e += kPosteriorBlock) {
    grads[e] = e < rest ? grad[block_first * classes + e] : T(0);
  }
  stage_weights(batch, block_first, tiles, all_weights);
  __syncthreads();
  const Four<T>* h = all_weights + tile * batch.parts;
  const T* g_out = grads + tile * kTile * classes;  // [kTile, C]

  T pull[kTile] = {}, m[kTile];
  for (int k = 0; k < classes; ++k) {
    combine_lanes(batch, h, i, k, m);
#pragma unroll
    for (int s = 0; s < kTile; ++s) pull[s] += g_out[s * classes + k] * m[s];
  }
#pragma unroll
  for (int s = 0; s < kTile; ++s) {
    const T softmax = softmax_lanes<Lanes>(logits, batch, first + s, i);
    const bool inside = first + s < batch.samples && i < classes;
    const int64_t at = (first + s) * classes + i;
    T inverse = T(1);
    if (batch.slack) {
      const T uniform = lanes_sum<Lanes>(i < classes ? g_out[s * classes + i] : T(0)) / T(classes);
      const T sum = inside ? row_sums[at] : T(1);
      inverse = inverse_row_sum(sum);
      pull[s] = normalised_entry(pull[s], sum, uniform);
    }
    const T mean = lanes_sum<Lanes>(inside ? softmax * pull[s] : T(0));
    if (!inside) continue;
    if (grad_logits) store(grad_logits + at, softmax * (pull[s] - mean));
    if (entries) {
      entries[at] = softmax * inverse;
      if (batch.slack) rows[at] = softmax * inverse * pull[s];
    }
  }
}

#ifdef __CUDACC_RTC__
#define PTD_NARROW(Lanes, T, Z)                                                                  \
  template __global__ void noisy_posterior_narrow<Lanes, T, Z>(TransitionBatch<T>, const Z*, T*, \
                                                               T*);                              \
  template __global__ void noisy_posterior_narrow_backward<Lanes, T, Z>(                         \
      TransitionBatch<T>, const Z*, const T*, const T*, Z*, T*, T*);
#define PTD_NARROW_OF(T, Z) PTD_NARROW(16, T, Z) PTD_NARROW(32, T, Z)
PTD_NARROW_OF(float, float)
PTD_NARROW_OF(float, Half)
PTD_NARROW_OF(float, BFloat16)
PTD_NARROW_OF(double, double)
#endif

}  // namespace ptd
