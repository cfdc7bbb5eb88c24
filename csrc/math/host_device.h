// Marks functions that are compiled for the host and for the device. On the host they are always
// inlined: the CPU kernels are compiled once per instruction set, and the linker must never merge
// an out-of-line copy compiled for one instruction set with that of another.
#pragma once

#if defined(__CUDACC_RTC__)  // NVRTC has the math functions built in, and no standard headers
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
PTD_HD float log1p_of(float x) { return ::log1pf(x); }
PTD_HD double log1p_of(double x) { return ::log1p(x); }
PTD_HD float exp_of(float x) { return ::expf(x); }
#if defined(__CUDA_ARCH__)
// Not inlined: its constants would stay in registers through every loop that calls it.
static __device__ __noinline__ double exp_of(double x) { return ::exp(x); }
#else
PTD_HD double exp_of(double x) { return ::exp(x); }
#endif

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

template <class T>
PTD_HD T smallest_normal();
template <>
PTD_HD float smallest_normal<float>() {
  return 1.175494351e-38f;
}
template <>
PTD_HD double smallest_normal<double>() {
  return 2.2250738585072014e-308;
}

// x, with an infinity replaced by the largest finite number of its sign. NaN stays NaN.
template <class T>
PTD_HD T saturated(T x) {
  const T most = largest_number<T>(), cut = x > most ? most : x;
  return cut < -most ? -most : cut;
}

}  // namespace ptd
