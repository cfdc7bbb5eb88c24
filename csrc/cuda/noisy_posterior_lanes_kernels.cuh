// P(noisy label | x) = T(x)^T g for up to sixteen classes, forward and backward in one launch each.
//
//   forward    out_k = sum_i T_ik g_i
//   backward   d_i = sum_k T_ik G_k      dz_i = g_i (d_i - sum_l g_l d_l)
//
// with g = softmax(z) and, where there is slack, T = B / r, B = max(M, 0), r_i = sum_k B_ik.
//
// Bytes that must move, in numbers of four bytes: N (2 C + R) + R C^2 forward, N (3 C + R) + R C^2
// backward, and another N C for the row sums, with slack; for gradients of T(x) another N C, with
// slack 2 N C. These kernels move no more. Arithmetic takes longer: N R C^2 multiply-adds, and N
// C^2 to use what they form, 1.5 times as long as the bytes at (C, R) = (10, 20) on a V100.
//
// The mapping is that of noisy_posterior_lanes.cuh.
#pragma once

#include "noisy_posterior_lanes.cuh"

namespace ptd {

template <int Q, int K, class Z>
__global__ void __launch_bounds__(kLanesMostWarps* kWarp, 2)
    noisy_posterior_lanes(TiledBatch batch, LanesLayout layout,
                          const Z* __restrict__ logits,    // [N, C]
                          float* __restrict__ posterior,   // [N, C]
                          float* __restrict__ row_sums) {  // [N, C], written with slack
  PTD_DYNAMIC_SHARED(float, shared);
  const LanesWarp<Q, K> warp{{batch, layout, shared}};
  warp.template stage_slack<false>();
  const auto z = warp.load_rows(logits);
  const auto h = warp.load_weights();
  warp.template stage_parts<false>();
  __syncthreads();
  if (warp.count() == 0) return;
  warp.put_weights(h);
  warp.put_rows(z);
  __syncwarp();
  float own[K], sum[2][K];
  warp.get_own(own, -infinity<float>());
  warp.softmax(own);
  warp.put_own(own);
  __syncwarp();
  if (batch.matrix.slacks) {
    warp.template add_rows<true>(sum, [&](int g, float (&m)[2][K], float (&to)[2][K], bool inside) {
      float r[2];
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        r[s] = 0.0f;
#pragma unroll
        for (int v = 0; v < K; ++v) r[s] += m[s][v] = clamp_entry(m[s][v]);
        r[s] = warp.sum_columns(r[s]);
      }
      if (inside) warp.add_normalised(g, r, m, to);
      __syncwarp();  // g is used, and r takes its place
      if (!inside || warp.column(0) > 0) return;
#pragma unroll
      for (int s = 0; s < 2; ++s) warp.of_sample(g, s) = r[s];
    });
  } else {
    warp.template add_rows<false>(
        sum, [&](int g, const float (&m)[2][K], float (&to)[2][K], bool inside) {
          if (inside) warp.add(g, m, to);
        });
  }
  warp.add_halves(sum, own);
  __syncwarp();
  if (batch.matrix.slacks) {
    warp.write_rows(row_sums);
    __syncwarp();
  }
  warp.put_own(own);
  __syncwarp();
  warp.write_rows(posterior);
}

template <int Q, int K, class Z>
__global__ void __launch_bounds__(kLanesMostWarps* kWarp, 2)
    noisy_posterior_backward_lanes(TiledBatch batch, LanesLayout layout,
                                   const Z* __restrict__ logits,        // [N, C]
                                   const float* __restrict__ grad,      // [N, C]
                                   const float* __restrict__ row_sums,  // [N, C], read with slack
                                   Z* __restrict__ grad_logits,         // [N, C] or nullptr
                                   float* __restrict__ entries,         // [N, C] or nullptr
                                   float* __restrict__ rows) {          // [N, C], see spread
  PTD_DYNAMIC_SHARED(float, shared);
  const LanesWarp<Q, K> warp{{batch, layout, shared}};
  const bool slacks = batch.matrix.slacks;
  warp.template stage_slack<true>();
  const auto coefficients = warp.load_rows(grad);
  const auto h = warp.load_weights();
  warp.template stage_parts<true>();
  __syncthreads();
  if (warp.count() == 0) return;
  warp.put_weights(h);
  warp.put_rows(coefficients);
  __syncwarp();
  float d[K], g[K], sum[2][K];
  if (slacks) {
    warp.template add_rows<true>(
        sum, [&](int coefficient, float (&m)[2][K], float (&to)[2][K], bool inside) {
#pragma unroll
          for (int v = 0; v < K; ++v) {
            m[0][v] = clamp_entry(m[0][v]);
            m[1][v] = clamp_entry(m[1][v]);
          }
          if (inside) warp.add(coefficient, m, to);
        });
  } else {
    warp.template add_rows<false>(
        sum, [&](int coefficient, const float (&m)[2][K], float (&to)[2][K], bool inside) {
          if (inside) warp.add(coefficient, m, to);
        });
  }
  warp.add_halves(sum, d);

  // A lane has columns of one sample from here on.
  float entry[K], mean = 0.0f;
  if (slacks) {
    float uniform = 0.0f, r[K];
    warp.get_own(g, 0.0f);
#pragma unroll
    for (int v = 0; v < K; ++v) uniform += g[v];
    uniform = warp.sum_columns(uniform) / static_cast<float>(batch.classes);
    warp.fetch(row_sums, r, 1.0f);
#pragma unroll
    for (int v = 0; v < K; ++v) {
      const bool empty = r[v] == 0.0f;
      d[v] = empty ? uniform : d[v] / r[v];
      entry[v] = empty ? 0.0f : 1.0f / r[v];
    }
  }
  warp.fetch(logits, g, -infinity<float>());
  warp.softmax(g);
#pragma unroll
  for (int v = 0; v < K; ++v) {
    if (warp.column(v) < batch.classes) mean += g[v] * d[v];
    entry[v] = slacks ? g[v] * entry[v] : g[v];
  }
  mean = warp.sum_columns(mean);
#pragma unroll
  for (int v = 0; v < K; ++v) g[v] *= d[v] - mean;
  if (grad_logits) warp.write(g, grad_logits);
  if (!entries) return;
  warp.write(entry, entries);
  if (!slacks) return;
#pragma unroll
  for (int v = 0; v < K; ++v) entry[v] *= d[v];
  warp.write(entry, rows);
}

#ifdef __CUDACC_RTC__
#define PTD_LANES(Q, K, Z)                                                                   \
  template __global__ void noisy_posterior_lanes<Q, K, Z>(TiledBatch, LanesLayout, const Z*, \
                                                          float*, float*);                   \
  template __global__ void noisy_posterior_backward_lanes<Q, K, Z>(                          \
      TiledBatch, LanesLayout, const Z*, const float*, const float*, Z*, float*, float*);
#define PTD_LANES_OF(Z) PTD_LANES(2, 5, Z) PTD_LANES(4, 4, Z)
PTD_LANES_OF(float)
PTD_LANES_OF(Half)
PTD_LANES_OF(BFloat16)
#endif

}  // namespace ptd
