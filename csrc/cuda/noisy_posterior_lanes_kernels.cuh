// P(noisy label | x) = T(x)^T g for up to sixteen classes, forward and backward in one launch each.
//
//   forward    out_k = sum_i T_ik g_i
//   backward   d_i = sum_k T_ik G_k      dz_i = g_i (d_i - sum_l g_l d_l)
//
// with g = softmax(z) and, where there is slack, T = B / r, B = max(M, 0), r_i = sum_k B_ik.
//
// Bytes that must move, in numbers of four bytes: N (2 C + R) + R C^2 forward, N (3 C + R) + R C^2
// backward, and another N C for the row sums, with slack. These kernels move no more. Arithmetic
// takes longer: N R C^2 multiply-adds, and N C^2 to use what they form, 1.5 times as long as the
// bytes at (C, R) = (10, 20) on a V100.
//
// The mapping is that of noisy_posterior_tile.cuh, with the rows of T(x) divided among warps
// (noisy_posterior_lanes.cuh).
#pragma once

#include "noisy_posterior_lanes.cuh"

namespace ptd {

template <int Q, int K, class Z>
__global__ void __launch_bounds__(kLanesMostWarps* kWarp, 2)
    noisy_posterior_lanes(TiledBatch batch, LanesLayout layout,
                          const Z* __restrict__ logits,    // [N, C]
                          float* __restrict__ posterior,   // [N, C]
                          float* __restrict__ row_sums) {  // [N, C], written with slack
  using Tile = LaneTile<Q, K>;
  PTD_DYNAMIC_SHARED(float, shared);
  const LanesBlock<Tile> block{batch, layout, shared};
  const int classes = batch.classes;
  const auto z = block.load_rows(logits);
  stage_tile_weights<Tile>(batch, block.first(), shared + layout.weights);
  block.put_rows(z, shared);
  block.stage_parts();
  __syncthreads();
  if (const int n = static_cast<int>(thread_number()); n < block.groups() * kTile) {
    float g[Tile::kColumns];
    softmax_of(block.row(shared, n), classes, g);
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      if (c < classes) block.row(shared, n)[c] = g[c];
    }
  }
  __syncthreads();

  Tile sum;
  block.template add_rows<false>(sum, [&](float* coefficient, const Tile& m, Tile& to) {
    Four<float> g;
#pragma unroll
    for (int s = 0; s < kTile; ++s) g.of[s] = coefficient[s * classes];
    if (!batch.matrix.slacks) return to.add(g, m);
    const Four<float> r = Tile::over_lanes(m.sums());
    to.add_normalised(g, r, m, classes);
    __syncwarp();  // g is used, and r takes its place
    if (lane_number() % Q > 0) return;
#pragma unroll
    for (int s = 0; s < kTile; ++s) coefficient[s * classes] = r.of[s];
  });
  const bool mine = block.gather(sum);
  if (batch.matrix.slacks) {
    block.write_rows(shared, row_sums);
    __syncthreads();
  }
  if (mine) block.put_sums(sum, shared);
  __syncthreads();
  block.write_rows(shared, posterior);
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
  using Tile = LaneTile<Q, K>;
  PTD_DYNAMIC_SHARED(float, shared);
  const LanesBlock<Tile> block{batch, layout, shared};
  const int classes = batch.classes;
  {
    const auto g = block.load_rows(grad);
    stage_tile_weights<Tile>(batch, block.first(), shared + layout.weights);
    block.put_rows(g, shared);
    block.stage_parts();
  }
  __syncthreads();
  Tile sum;
  block.template add_rows<true>(sum, [&](const float* coefficient, const Tile& m, Tile& to) {
    Four<float> g;
#pragma unroll
    for (int s = 0; s < kTile; ++s) g.of[s] = coefficient[s * classes];
    to.add(g, m);
  });
  const bool mine = block.gather(sum);
  __syncthreads();
  float* const d_rows = shared + layout.weights;
  float* const z_rows = d_rows + layout.values;
  float* const r_rows = z_rows + layout.values;
  if (mine) block.put_sums(sum, d_rows);
  block.put_rows(block.load_rows(logits), z_rows);
  if (batch.matrix.slacks) block.put_rows(block.load_rows(row_sums), r_rows);
  __syncthreads();

  // A thread has a sample. Results take the place of what they are made from.
  if (const int n = static_cast<int>(thread_number()); n < block.groups() * kTile) {
    float g[Tile::kColumns], uniform = 0.0f, mean = 0.0f;
    float* const d = block.row(d_rows, n);
    float* const z = block.row(z_rows, n);
    float* const r = block.row(r_rows, n);
    softmax_of(z, classes, g);
    if (batch.matrix.slacks) {
      for (int c = 0; c < classes; ++c) uniform += block.row(shared, n)[c];
      uniform /= static_cast<float>(classes);
    }
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      if (c >= classes) continue;
      if (batch.matrix.slacks) d[c] = normalised_entry(d[c], r[c], uniform);
      mean += g[c] * d[c];
    }
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      if (c >= classes) continue;
      const float entry = batch.matrix.slacks ? g[c] * inverse_row_sum(r[c]) : g[c];
      z[c] = g[c] * (d[c] - mean);
      if (batch.matrix.slacks) r[c] = entry * d[c];
      d[c] = entry;
    }
  }
  __syncthreads();
  if (grad_logits) block.write_rows(z_rows, grad_logits);
  if (!entries) return;
  block.write_rows(d_rows, entries);
  if (batch.matrix.slacks) block.write_rows(r_rows, rows);
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
