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

// log(x / y) of two sums, x at least 1. Of floats, a GPU takes the logarithm that it has for
// itself: wrong by two units in the last place, or by 2^-22 where the quotient is near 1, which is
// no more than the sums are wrong by.
PTD_HD double log_quotient(double x, double y) { return log_of(x) - log_of(y); }
PTD_HD float log_quotient(float x, float y) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("lg2.approx.f32 %0, %1;" : "=f"(result) : "f"(__fdividef(y, x)));
  return result * -0.693147181f;
#elif defined(PTD_CUDA_EMULATOR)
  return -log_of(y / x);
#else
  return log_of(x) - log_of(y);
#endif
}

}  // namespace ptd
