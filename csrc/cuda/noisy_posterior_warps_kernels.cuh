// P(noisy label | x) = T(x)^T g for many samples of 33 to 128 classes, forward and backward in one
// launch each. The formulas are in noisy_posterior_lanes_kernels.cuh, and so are the bytes that
// must move; these kernels move no more. Arithmetic is the limit by far: N R C^2 multiply-adds,
// and N C^2 to use what they form, take a V100 25 times as long as the bytes at (C, R) = (100, 20).
//
// The mapping is that of noisy_posterior_tile.cuh, with the columns divided among warps
// (noisy_posterior_warps.cuh).
#pragma once

#include "noisy_posterior_warps.cuh"

namespace ptd {

template <int K, class Z>
__global__ void __launch_bounds__(kWarpsMostWarps* kWarp, 2)
    noisy_posterior_warps(TiledBatch batch, WarpsLayout layout,
                          const Z* __restrict__ logits,    // [N, C]
                          float* __restrict__ posterior,   // [N, C]
                          float* __restrict__ row_sums) {  // [N, C], written with slack
  using Tile = LaneTile<kWarpsLanes, K>;
  PTD_DYNAMIC_SHARED(float, shared);
  const WarpsBlock<Tile> block{batch, layout, shared};
  const int classes = batch.classes;
  block.reduce(logits, nullptr);
  stage_tile_weights<Tile>(batch, block.first(), shared);
  block.pad_rows();
  block.set_place();
  const auto softmax = [&](int n, int i) {
    const float z = load<float>(logits + (block.first() + n) * classes + i);
    return exp_of(z - shared[layout.tops + n]) * shared[layout.inverses + n];
  };
  Tile out;
  block.add_rows(out, softmax, [&](int i, const Tile& m, Tile& to) {
    if (!block.has_slack()) return to.add(block.coefficients(), m);
    const Four<float> r = block.over_warps(m.sums());
    to.add_normalised(block.coefficients(), r, m, classes);
    const int n = static_cast<int>(thread_number());
    if (!block.inside(n)) return;
    float sum = 0.0f;
    for (int warp = 0; warp < batch.sharing; ++warp) {
      sum += shared[block.sums(n) + warp * Tile::kSamples];
    }
    row_sums[(block.first() + n) * classes + i] = sum;
  });
  block.each([&](int64_t at, int, int s, int v) { posterior[at] = out.of[s][v]; });
}

template <int K, class Z>
__global__ void __launch_bounds__(kWarpsMostWarps* kWarp, 2)
    noisy_posterior_backward_warps(TiledBatch batch, WarpsLayout layout,
                                   const Z* __restrict__ logits,        // [N, C]
                                   const float* __restrict__ grad,      // [N, C]
                                   const float* __restrict__ row_sums,  // [N, C], read with slack
                                   Z* __restrict__ grad_logits,         // [N, C] or nullptr
                                   float* __restrict__ entries,         // [N, C] or nullptr
                                   float* __restrict__ rows) {          // [N, C], see spread
  using Tile = LaneTile<kWarpsLanes, K>;
  PTD_DYNAMIC_SHARED(float, shared);
  const WarpsBlock<Tile> block{batch, layout, shared};
  const int classes = batch.classes;
  block.reduce(logits, block.has_slack() ? grad : nullptr);
  stage_tile_weights<Tile>(batch, block.first(), shared);
  block.pad_rows();
  block.set_place();
  const auto of_grad = [&](int n, int k) { return grad[(block.first() + n) * classes + k]; };
  Tile d;
  block.add_rows(d, of_grad,
                 [&](int, const Tile& m, Tile& to) { to.add(block.coefficients(), m); });

  const auto softmax = [&](int64_t at, int n) {
    return exp_of(load<float>(logits + at) - shared[layout.tops + n]) * shared[layout.inverses + n];
  };
  Four<float> mean = {};
  block.each([&](int64_t at, int n, int s, int v) {
    float& pulled = d.of[s][v];
    if (block.has_slack())
      pulled = normalised_entry(pulled, row_sums[at], shared[layout.uniforms + n]);
    mean.of[s] += softmax(at, n) * pulled;
  });
  mean = block.over_warps(mean);
  block.each([&](int64_t at, int n, int s, int v) {
    const float g = softmax(at, n);
    if (grad_logits) store(grad_logits + at, g * (d.of[s][v] - mean.of[s]));
    if (!entries) return;
    const float entry = block.has_slack() ? g * inverse_row_sum(row_sums[at]) : g;
    entries[at] = entry;
    if (block.has_slack()) rows[at] = entry * d.of[s][v];
  });
}

#ifdef __CUDACC_RTC__
#define PTD_WARPS(K, Z)                                                                           \
  template __global__ void noisy_posterior_warps<K, Z>(TiledBatch, WarpsLayout, const Z*, float*, \
                                                       float*);                                   \
  template __global__ void noisy_posterior_backward_warps<K, Z>(                                  \
      TiledBatch, WarpsLayout, const Z*, const float*, const float*, Z*, float*, float*);
#define PTD_WARPS_OF(Z) PTD_WARPS(4, Z) PTD_WARPS(5, Z)
PTD_WARPS_OF(float)
PTD_WARPS_OF(Half)
PTD_WARPS_OF(BFloat16)
#endif

}  // namespace ptd
