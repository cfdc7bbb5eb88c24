// Sixteen-bit logits, scaled in float.
#include "half.h"

__device__ __forceinline__ void store(Half* address, float x) { *address = to_half(x); }
__device__ __forceinline__ void store(BFloat16* address, float x) { *address = to_bfloat16(x); }

template <typename T>
__global__ void scale(const T* x, T* y, int64_t n, float factor) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) store(y + i, factor * to_float(x[i]));
}

#ifndef __CUDACC_RTC__

extern "C" void scale_half(const Half* x, Half* y, int64_t n, double factor) {
  PTD_LAUNCH(scale<Half>, static_cast<unsigned>((n + 127) / 128), 128, 0, nullptr, x, y, n,
             static_cast<float>(factor));
}

extern "C" void scale_bfloat16(const BFloat16* x, BFloat16* y, int64_t n, double factor) {
  PTD_LAUNCH(scale<BFloat16>, static_cast<unsigned>((n + 127) / 128), 128, 0, nullptr, x, y, n,
             static_cast<float>(factor));
}

#endif
