// P(noisy label | x) = T(x)^T g for many samples of 33 to 128 classes without slack, forward and
// backward in one launch each. The formulas are in noisy_posterior_lanes_kernels.cuh, and so are
// the bytes that must move; these kernels move no more. Arithmetic is the limit by far: N R C^2
// multiply-adds take a V100 23 times as long as the bytes at (C, R) = (100, 20).
#pragma once

#include "noisy_posterior_product.cuh"

namespace ptd {

template <class Z>
__global__ void __launch_bounds__(kProductMostThreads, 2)
    noisy_posterior_product(TiledBatch batch, ProductLayout layout,
                            const Z* __restrict__ logits,     // [N, C]
                            float* __restrict__ posterior) {  // [N, C]
  PTD_DYNAMIC_SHARED(float, shared);
  const ProductBlock block{batch, layout, shared};
  block.reduce(logits);
  block.stage_weights();
  block.pad_rows();
  ProductSums out;
  block.add_rows(
      out, [&](int64_t at) { return load<float>(logits + at); },
      [&](float z, int slot) { return block.softmax(z, slot); });
  block.each([&](int64_t at, int, int s, int v) { posterior[at] = out.of[s][v]; });
}

template <class Z>
__global__ void __launch_bounds__(kProductMostThreads, 2)
    noisy_posterior_backward_product(TiledBatch batch, ProductLayout layout,
                                     const Z* __restrict__ logits,    // [N, C]
                                     const float* __restrict__ grad,  // [N, C]
                                     Z* __restrict__ grad_logits,     // [N, C] or nullptr
                                     float* __restrict__ entries) {   // [N, C] or nullptr
  PTD_DYNAMIC_SHARED(float, shared);
  const ProductBlock block{batch, layout, shared};
  block.reduce(logits);
  block.stage_weights();
  block.pad_rows();
  ProductSums d;
  block.add_rows(d, [&](int64_t at) { return grad[at]; }, [](float g, int) { return g; });

  const auto softmax = [&](int64_t at, int slot) {
    return block.softmax(load<float>(logits + at), slot);
  };
  float mean[kProductEach] = {};
  block.each(
      [&](int64_t at, int slot, int s, int v) { mean[s] += softmax(at, slot) * d.of[s][v]; });
  block.sum_over_lanes(mean);
  block.each([&](int64_t at, int slot, int s, int v) {
    const float g = softmax(at, slot);
    if (grad_logits) store(grad_logits + at, g * (d.of[s][v] - mean[s]));
    if (entries) entries[at] = g;
  });
}

#ifdef __CUDACC_RTC__
#define PTD_PRODUCT(Z)                                                                     \
  template __global__ void noisy_posterior_product<Z>(TiledBatch, ProductLayout, const Z*, \
                                                      float*);                             \
  template __global__ void noisy_posterior_backward_product<Z>(                            \
      TiledBatch, ProductLayout, const Z*, const float*, Z*, float*);
PTD_PRODUCT(float)
PTD_PRODUCT(Half)
PTD_PRODUCT(BFloat16)
#endif

}  // namespace ptd
