// P(noisy label | x) = T(x)^T g for up to 128 classes, forward and backward in one launch each.
//
//   forward    out_k = sum_i T_ik g_i
//   backward   d_i = sum_k T_ik G_k      dz_i = g_i (d_i - sum_l g_l d_l)
//
// with g = softmax(z) and, where there is slack, T = B / r, B = max(M, 0), r_i = sum_k B_ik.
//
// Bytes that must move, in numbers of four bytes: N (2 C + R) + R C^2 forward, N (3 C + R) + R C^2
// backward, and another N C for the row sums, with slack. These kernels move no more. What limits
// them is arithmetic: N R C^2 multiply-adds (twice that forward with slack), which take a V100 1.4
// times as long as the bytes at (C, R) = (10, 20), and 23 times at (100, 20).
//
// A sample's class i has a lane, or every V-th one; `Lanes` lanes hold a tile of four samples, and
// walk together through the columns k. T(x) never exists: each entry is formed, used and forgotten.
#pragma once

#include "sample_tile.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr int kPosteriorBlock = 128;  // threads
// Blocks that must fit a multiprocessor. Zero leaves it to the compiler, which gives doubles, and
// several classes, so many registers that less than half the warps of a V100 fit.
template <class T, int V>
constexpr int kPosteriorBlocks = sizeof(T) == 4 && V == 1 ? 0 : 8;

// Lane i of a tile has classes i, i + Lanes, ... of V. In place of one beyond the last it has class
// 0, of weight zero.
template <int Lanes, int V>
__device__ __forceinline__ int class_at(int i, int v, int classes) {
  return i + v * Lanes < classes ? i + v * Lanes : 0;
}

// g of this lane's classes for sample n; zero beyond the last class.
template <int Lanes, int V, class T, class Z>
__device__ __forceinline__ void softmax_lanes(const Z* __restrict__ logits,  // [N, C]
                                              const TransitionBatch<T>& batch, int64_t n, int i,
                                              T (&softmax)[V]) {
  const Z* row = logits + n * batch.classes;
  T top = -infinity<T>(), sum = T(0);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const bool inside = n < batch.samples && i + v * Lanes < batch.classes;
    softmax[v] = inside ? load<T>(row + i + v * Lanes) : -infinity<T>();
    top = max_of(top, softmax[v]);
  }
  top = lanes_max<Lanes>(top);
#pragma unroll
  for (int v = 0; v < V; ++v) sum += softmax[v] = exp_of(softmax[v] - top);
  sum = lanes_sum<Lanes>(sum);
#pragma unroll
  for (int v = 0; v < V; ++v) softmax[v] /= sum;
}

// m = entries (class_at(i, v), k) of T(x), or of max(T(x) + slack, 0), for the samples of a tile.
template <int Lanes, int V, class T>
__device__ __forceinline__ void combine_lanes(const TransitionBatch<T>& batch,
                                              const Four<T>* h,  // shared, [R]
                                              int i, int k, T (&m)[V][kTile]) {
  const int classes = batch.classes, parts = batch.parts;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const T* slack = batch.slack + int64_t(k) * classes + class_at<Lanes, V>(i, v, classes);
    const T base = batch.slack ? *slack : T(0);
#pragma unroll
    for (int s = 0; s < kTile; ++s) m[v][s] = base;
  }
  const T* part = batch.columns + int64_t(k) * parts * classes;
#pragma unroll(V == 1 ? 4 : 1)
  for (int j = 0; j < parts; ++j, part += classes) {
    const Four<T> weight = h[j];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const T entry = part[class_at<Lanes, V>(i, v, classes)];
#pragma unroll
      for (int s = 0; s < kTile; ++s) m[v][s] += weight.of[s] * entry;
    }
  }
  if (!batch.slack) return;
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int s = 0; s < kTile; ++s) m[v][s] = clamp_entry(m[v][s]);
  }
}

template <int Lanes, int V, class T, class Z>
__global__ void __launch_bounds__(kPosteriorBlock, (kPosteriorBlocks<T, V>))
    noisy_posterior_narrow(TransitionBatch<T> batch,
                           const Z* __restrict__ logits,  // [N, C]
                           T* __restrict__ posterior,     // [N, C]
                           T* __restrict__ row_sums) {    // [N, C], written with slack
  constexpr int tiles = kPosteriorBlock / Lanes;
  PTD_DYNAMIC_SHARED(Four<T>, all_weights);           // [tiles, R]
  __shared__ T results[kPosteriorBlock * V * kTile];  // [tiles * kTile, C], to be written in order
  const int classes = batch.classes, i = threadIdx.x % Lanes, tile = threadIdx.x / Lanes;
  const int64_t block_first = int64_t(blockIdx.x) * tiles * kTile;
  const int64_t first = block_first + tile * kTile;
  stage_weights(batch, block_first, tiles, all_weights);
  __syncthreads();
  const Four<T>* h = all_weights + tile * batch.parts;

  T entry[kTile][V], m[V][kTile];
  T uniform_share = T(0);  // of sample i / (Lanes / kTile), whose results this lane writes
  const auto softmax = [&] {
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      softmax_lanes<Lanes, V>(logits, batch, first + s, i, entry[s]);
    }
  };
  if (!batch.slack) {
    softmax();
  } else {
    T sum[V][kTile] = {}, share[kTile] = {};
    for (int k = 0; k < classes; ++k) {
      combine_lanes<Lanes, V>(batch, h, i, k, m);
#pragma unroll
      for (int v = 0; v < V; ++v) {
#pragma unroll
        for (int s = 0; s < kTile; ++s) sum[v][s] += m[v][s];
      }
    }
    softmax();  // here, since the sums have no registers to spare for it
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int s = 0; s < kTile; ++s) {
        const int at = i + v * Lanes;
        const bool inside = first + s < batch.samples && at < classes;
        if (inside) row_sums[(first + s) * classes + at] = sum[v][s];
        // A row without a positive entry is uniform: its share is the same in every column.
        if (at < classes && sum[v][s] == T(0)) share[s] += entry[s][v] / T(classes);
        entry[s][v] *= inverse_row_sum(sum[v][s]);
      }
    }
    spread_sums<Lanes>(share);
    uniform_share = share[0];
  }
  for (int k = 0; k < classes; ++k) {
    combine_lanes<Lanes, V>(batch, h, i, k, m);
    T term[kTile] = {};
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int s = 0; s < kTile; ++s) term[s] += entry[s][v] * m[v][s];
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

template <int Lanes, int V, class T, class Z>
__global__ void __launch_bounds__(kPosteriorBlock, (kPosteriorBlocks<T, V>))
    noisy_posterior_narrow_backward(TransitionBatch<T> batch,
                                    const Z* __restrict__ logits,    // [N, C]
                                    const T* __restrict__ grad,      // [N, C]
                                    const T* __restrict__ row_sums,  // [N, C], read with slack
                                    Z* __restrict__ grad_logits,     // [N, C] or nullptr
                                    T* __restrict__ entries,         // [N, C] or nullptr
                                    T* __restrict__ rows) {          // [N, C], see spread
  constexpr int tiles = kPosteriorBlock / Lanes;
  PTD_DYNAMIC_SHARED(Four<T>, all_weights);         // [tiles, R]
  __shared__ T grads[kPosteriorBlock * V * kTile];  // [tiles * kTile, C]
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

  T pull[V][kTile] = {}, m[V][kTile];
  for (int k = 0; k < classes; ++k) {
    combine_lanes<Lanes, V>(batch, h, i, k, m);
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      const T g = g_out[s * classes + k];
#pragma unroll
      for (int v = 0; v < V; ++v) pull[v][s] += g * m[v][s];
    }
  }
#pragma unroll
  for (int s = 0; s < kTile; ++s) {
    T entry[V];
    softmax_lanes<Lanes, V>(logits, batch, first + s, i, entry);
    const bool counts = first + s < batch.samples;
    const int64_t at = (first + s) * classes + i;
    T inverse[V], mean = T(0), uniform = T(0);
    if (batch.slack) {
      for (int k = i; k < classes; k += Lanes) uniform += g_out[s * classes + k];
      uniform = lanes_sum<Lanes>(uniform) / T(classes);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const bool inside = counts && i + v * Lanes < classes;
      inverse[v] = T(1);
      if (batch.slack && inside) {
        const T sum = row_sums[at + v * Lanes];
        inverse[v] = inverse_row_sum(sum);
        pull[v][s] = normalised_entry(pull[v][s], sum, uniform);
      }
      if (inside) mean += entry[v] * pull[v][s];
    }
    mean = lanes_sum<Lanes>(mean);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int64_t to = at + v * Lanes;
      if (!counts || i + v * Lanes >= classes) continue;
      if (grad_logits) store(grad_logits + to, entry[v] * (pull[v][s] - mean));
      if (entries) {
        entries[to] = entry[v] * inverse[v];
        if (batch.slack) rows[to] = entry[v] * inverse[v] * pull[v][s];
      }
    }
  }
}

#ifdef __CUDACC_RTC__
#define PTD_NARROW(Lanes, V, T, Z)                                                              \
  template __global__ void noisy_posterior_narrow<Lanes, V, T, Z>(TransitionBatch<T>, const Z*, \
                                                                  T*, T*);                      \
  template __global__ void noisy_posterior_narrow_backward<Lanes, V, T, Z>(                     \
      TransitionBatch<T>, const Z*, const T*, const T*, Z*, T*, T*);
#define PTD_NARROW_FLOAT(Z)   \
  PTD_NARROW(16, 1, float, Z) \
  PTD_NARROW(32, 1, float, Z) \
  PTD_NARROW(32, 2, float, Z) \
  PTD_NARROW(32, 4, float, Z)
PTD_NARROW_FLOAT(float)
PTD_NARROW_FLOAT(Half)
PTD_NARROW_FLOAT(BFloat16)
PTD_NARROW(16, 1, double, double)
PTD_NARROW(32, 1, double, double)
#endif

}  // namespace ptd
