// P(noisy label | x) = T(x)^T g for many samples of 33 to 128 classes with slack, forward and
// backward in one launch each. The formulas are in noisy_posterior_lanes_kernels.cuh, and so are
// the bytes that must move; these kernels move no more. Arithmetic is the limit by far: N R C^2
// multiply-adds, and with each of N C^2 entries one more and, forward, an addition for the row sum,
// take a V100 18 times as long as the bytes at (C, R) = (100, 20).
//
// The mapping is that of noisy_posterior_tile.cuh, with the columns divided among warps
// (noisy_posterior_warps.cuh).
#pragma once

#include "noisy_posterior_warps.cuh"

namespace ptd {

template <class Z>
__global__ void __launch_bounds__(kWarpsMostThreads, 2)
    noisy_posterior_warps(TiledBatch batch, WarpsLayout layout,
                          const Z* __restrict__ logits,    // [N, C]
                          float* __restrict__ posterior,   // [N, C]
                          float* __restrict__ row_sums) {  // [N, C]
  PTD_DYNAMIC_SHARED(float, shared);
  const WarpsBlock block{batch, layout, shared};
  block.reduce(logits, nullptr);
  stage_tile_weights<WarpsTile>(batch, block.first(), shared);
  block.pad_rows();
  const WarpsBlock::Lane lane(batch);
  WarpsTile out;
  out.clear();
  // Each lane of those that share samples has one of these, or none: the share that is the same for
  // all columns, from rows without a positive entry.
  float share = 0.0f;
  block.add_rows(
      lane, [&](int64_t at) { return load<float>(logits + at); },
      [&](float z, int slot) { return block.softmax(z, slot); },
      [&](int i, const WarpsTile& m) { block.put_sums(i, m.sums()); },
      [&](int i, const WarpsTile& m) {
        const int s = lane_number() % WarpsTile::kLanes;
        float coefficient = 0.0f;
        if (s < kWarpsSamples) {
          const int slot = lane.slot() + s;
          const float g = shared[layout.coefficients + (i & 1) * layout.slots + slot];
          const float r = block.sum_of(lane, i, s);
          if (r == 0.0f) {
            share += g / static_cast<float>(batch.classes);
          } else {
            coefficient = g / r;
          }
          const bool is_first = lane.of_row < WarpsTile::kLanes;  // of the warps that share a tile
          if (is_first && !WarpsTile::is_spare(lane_number()) && block.inside(slot)) {
            row_sums[(block.first() + block.sample(slot)) * batch.classes + i] = r;
          }
        }
        __syncwarp();
        out.add(block.over_samples(coefficient), m);
      });
  const Four<float> shares = block.over_samples(share);
  block.each(lane,
             [&](int64_t at, int, int s, int v) { posterior[at] = out.of[s][v] + shares.of[s]; });
}

template <class Z>
__global__ void __launch_bounds__(kWarpsMostThreads, 2)
    noisy_posterior_backward_warps(TiledBatch batch, WarpsLayout layout,
                                   const Z* __restrict__ logits,        // [N, C]
                                   const float* __restrict__ grad,      // [N, C]
                                   const float* __restrict__ row_sums,  // [N, C]
                                   Z* __restrict__ grad_logits,         // [N, C] or nullptr
                                   float* __restrict__ entries,         // [N, C] or nullptr
                                   float* __restrict__ rows) {          // [N, C], see spread
  PTD_DYNAMIC_SHARED(float, shared);
  const WarpsBlock block{batch, layout, shared};
  block.reduce(logits, grad);
  stage_tile_weights<WarpsTile>(batch, block.first(), shared);
  block.pad_rows();
  const WarpsBlock::Lane lane(batch);
  WarpsTile d;
  d.clear();
  block.add_rows(
      lane, [&](int64_t at) { return grad[at]; }, [](float g, int) { return g; },
      [](int, const WarpsTile&) {},
      [&](int k, const WarpsTile& m) {
        const int at = layout.coefficients + (k & 1) * layout.slots + lane.slot();
        d.add(WarpsTile::at<Four<float>>(shared, 4 * at), m);
      });

  const auto softmax = [&](int64_t at, int slot) {
    return block.softmax(load<float>(logits + at), slot);
  };
  Four<float> mean = {};
  block.each(lane, [&](int64_t at, int slot, int s, int v) {
    float& pulled = d.of[s][v];
    pulled = normalised_entry(pulled, row_sums[at], shared[layout.uniforms + slot]);
    mean.of[s] += softmax(at, slot) * pulled;
  });
  block.put_sums(0, mean);
  __syncthreads();
  if (!block.multiplies()) return;
#pragma unroll
  for (int s = 0; s < kWarpsSamples; ++s) mean.of[s] = block.sum_of(lane, 0, s);
  block.each(lane, [&](int64_t at, int slot, int s, int v) {
    const float g = softmax(at, slot);
    if (grad_logits) store(grad_logits + at, g * (d.of[s][v] - mean.of[s]));
    if (!entries) return;
    const float entry = g * inverse_row_sum(row_sums[at]);
    entries[at] = entry;
    rows[at] = entry * d.of[s][v];
  });
}

#ifdef __CUDACC_RTC__
#define PTD_WARPS(Z)                                                                           \
  template __global__ void noisy_posterior_warps<Z>(TiledBatch, WarpsLayout, const Z*, float*, \
                                                    float*);                                   \
  template __global__ void noisy_posterior_backward_warps<Z>(                                  \
      TiledBatch, WarpsLayout, const Z*, const float*, const float*, Z*, float*, float*);
PTD_WARPS(float)
PTD_WARPS(Half)
PTD_WARPS(BFloat16)
#endif

}  // namespace ptd
