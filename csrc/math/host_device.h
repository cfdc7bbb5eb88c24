// Marks functions that are compiled for the host and for the device. On the host they are always
// inlined: the CPU kernels are compiled once per instruction set, and an out-of-line copy made for
// one of them must never be the one the linker keeps for another.
#pragma once

#if defined(__CUDACC_RTC__)  // NVRTC has the functions built in, and no headers
using int64_t = long long;
#else
#include <math.h>
#include <stdint.h>
#endif

#if defined(__CUDACC__)
#define PTD_HD __host__ __device__ __forceinline__
#else
#define PTD_HD inline __attribute__((always_inline))
#endif

namespace ptd {

PTD_HD float log_of(float x) { return ::logf(x); }
PTD_HD double log_of(double x) { return ::log(x); }
PTD_HD float exp_of(float x) { return ::expf(x); }
PTD_HD double exp_of(double x) { return ::exp(x); }

template <class T>
PTD_HD T largest_number();
template <>
PTD_HD float largest_number<float>() {
  return 3.402823466e38f;
}
template <>
PTD_HD double largest_number<double>() {
  return 1.7976931348623157e308;
}

// x, or the largest number of its sign instead of an infinity. NaN stays NaN.
template <class T>
PTD_HD T saturated(T x) {
  const T most = largest_number<T>(), cut = x > most ? most : x;
  return cut < -most ? -most : cut;
}

// log(x / y) of two sums, x at least 1. Of floats, a GPU takes the quotient and the logarithm that
// it has for itself. That logarithm is wrong by two units in the last place, or by 2^-22 where the
// quotient is near 1, and the quotient by up to two units in the last place. So a loss near zero is
// wrong by some 4e-7, about as much as the sums make it, and may be slightly negative. A small y is
// scaled, lest the quotient be subnormal, which that logarithm takes for zero.
PTD_HD double log_quotient(double x, double y) { return log_of(x) - log_of(y); }
PTD_HD float log_quotient(float x, float y) {
#if defined(__CUDA_ARCH__) || defined(PTD_CUDA_EMULATOR)
  const bool small = y < 0x1p-64f;
  const float scaled = small ? y * 0x1p64f : y;
  float result;
#if defined(__CUDA_ARCH__)
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(__fdividef(scaled, x)));
#else
  const float quotient = scaled / x;
  result = ::log2f(quotient < 0x1p-126f ? 0.0f : quotient);
#endif
  return (small ? result - 64.0f : result) * -0.693147181f;
#else
  return log_of(x) - log_of(y);
#endif
}

}  // namespace ptd
