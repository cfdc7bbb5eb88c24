// P(noisy label | x) = T(x)^T g for up to 32 classes, forward and backward in one launch each.
//
//   forward    out_k = sum_i T_ik g_i
//   backward   d_i = sum_k T_ik G_k      dz_i = g_i (d_i - sum_l g_l d_l)
//
// with g = softmax(z) and, where there is slack, T = B / r, B = max(M, 0), r_i = sum_k B_ik.
//
// Bytes that must move, in numbers of four bytes: N (2 C + R) + R C^2 forward, N (3 C + R) + R C^2
// backward, and another N C for the row sums, with slack. These kernels move no more. What limits
// them is arithmetic: N R C^2 multiply-adds (twice that forward with slack), which at C = 10 and
// R = 20 take a V100 1.4 times as long as the bytes.
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

// g of this lane's class for each sample of a tile.
template <int Lanes, class T, class Z>
__device__ __forceinline__ void softmax_lanes(const Z* __restrict__ logits,  // [N, C]
                                              const TransitionBatch<T>& batch, int64_t first, int i,
                                              T (&softmax)[kTile]) {
#pragma unroll
  for (int s = 0; s < kTile; ++s) {
    const bool inside = first + s < batch.samples && i < batch.classes;
    const T z = inside ? load<T>(logits + (first + s) * batch.classes + i) : -infinity<T>();
    const T e = exp_of(z - lanes_max<Lanes>(z));
    softmax[s] = e / lanes_sum<Lanes>(e);
  }
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
  softmax_lanes<Lanes>(logits, batch, first, i, entry);
  T uniform_share = T(0);  // of sample i / (Lanes / kTile), whose results this lane writes
  if (batch.slack) {
    T sum[kTile] = {}, share[kTile];
    for (int k = 0; i < classes && k < classes; ++k) {
      combine(batch, h, i, k, m);
#pragma unroll
      for (int s = 0; s < kTile; ++s) sum[s] += clamp_entry(m[s]);
    }
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      if (first + s < batch.samples && i < classes) row_sums[(first + s) * classes + i] = sum[s];
      // A row without a positive entry is uniform: its share is the same in every column.
      share[s] = i < classes && sum[s] == T(0) ? entry[s] / T(classes) : T(0);
      entry[s] *= inverse_row_sum(sum[s]);
    }
    spread_sums<Lanes>(share);
    uniform_share = share[0];
  }
  for (int k = 0; k < classes; ++k) {
    T term[kTile] = {};
    if (i < classes) {
      combine(batch, h, i, k, m);
#pragma unroll
      for (int s = 0; s < kTile; ++s) {
        term[s] = entry[s] * (batch.slack ? clamp_entry(m[s]) : m[s]);
      }
    }
    spread_sums<Lanes>(term);
    if (i % (Lanes / kTile) == 0) {
      const int sample = tile * kTile + i / (Lanes / kTile);
      results[sample * classes + k] = term[0] + uniform_share;
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

  T entry[kTile], m[kTile], pull[kTile] = {}, uniform[kTile] = {};
  softmax_lanes<Lanes>(logits, batch, first, i, entry);
  for (int k = 0; i < classes && k < classes; ++k) {
    combine(batch, h, i, k, m);
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      const T g = g_out[s * classes + k];
      pull[s] += g * (batch.slack ? clamp_entry(m[s]) : m[s]);
      uniform[s] += g;
    }
  }
#pragma unroll
  for (int s = 0; s < kTile; ++s) {
    const bool inside = first + s < batch.samples && i < classes;
    const int64_t at = (first + s) * classes + i;
    T inverse = T(1);
    if (batch.slack && inside) {
      const T sum = row_sums[at];
      inverse = inverse_row_sum(sum);
      pull[s] = normalised_entry(pull[s], sum, uniform[s] / T(classes));
    }
    const T mean = lanes_sum<Lanes>(inside ? entry[s] * pull[s] : T(0));
    if (inside && grad_logits) store(grad_logits + at, entry[s] * (pull[s] - mean));
    if (inside && entries) {
      entries[at] = entry[s] * inverse;
      if (batch.slack) rows[at] = entry[s] * inverse * pull[s];
    }
  }
}

#ifdef __CUDACC_RTC__
#define PTD_NARROW(Lanes, T, Z)                                                                  \
  template __global__ void noisy_posterior_narrow<Lanes, T, Z>(TransitionBatch<T>, const Z*, T*, \
                                                               T*);                              \
  template __global__ void noisy_posterior_narrow_backward<Lanes, T, Z>(                         \
      TransitionBatch<T>, const Z*, const T*, const T*, Z*, T*, T*);
PTD_NARROW(16, float, float)
PTD_NARROW(16, float, Half)
PTD_NARROW(16, float, BFloat16)
PTD_NARROW(16, double, double)
PTD_NARROW(32, float, float)
PTD_NARROW(32, float, Half)
PTD_NARROW(32, float, BFloat16)
PTD_NARROW(32, double, double)
#endif

}  // namespace ptd
