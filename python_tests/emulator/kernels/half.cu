// Sixteen-bit logits, scaled in float.
#include "common/scalars.cuh"

template <typename S>
__global__ void scale(const S* x, S* y, int64_t n, float factor) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) ptd::store(y + i, factor * ptd::load<float>(x + i));
}

#ifndef __CUDACC_RTC__

template <typename S>
static void launch_scale(const S* x, S* y, int64_t n, double factor) {
  PTD_LAUNCH(scale<S>, static_cast<unsigned>((n + 127) / 128), 128, 0, nullptr, x, y, n,
             static_cast<float>(factor));
}

extern "C" void scale_half(const ptd::Half* x, ptd::Half* y, int64_t n, double factor) {
  launch_scale(x, y, n, factor);
}

extern "C" void scale_bfloat16(const ptd::BFloat16* x, ptd::BFloat16* y, int64_t n, double factor) {
  launch_scale(x, y, n, factor);
}

#endif
