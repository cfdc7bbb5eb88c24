// Loads and stores of the storage types, and the constants that NVRTC lacks. The sixteen-bit types
// are converted without a CUDA header, so that the same source compiles under nvcc, NVRTC and g++.
#pragma once

#include "common/types.h"
#include "math/host_device.h"

namespace ptd {

#if defined(__CUDA_ARCH__)

__device__ __forceinline__ float to_float(Half h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
  return x;
}

__device__ __forceinline__ Half to_half(float x) {
  Half h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
  return h;
}

#elif defined(PTD_CUDA_EMULATOR)

__device__ __forceinline__ float to_float(Half h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t rest = h.bits & 0x7fff;
  // Infinity and NaN keep the largest exponent. Every other value, subnormal or not, is its bits
  // shifted into position and scaled by 2^112, for the difference of the exponent biases.
  if (rest >= 0x7c00) return __uint_as_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * 0x1p112f));
}

__device__ __forceinline__ Half to_half(float x) {
  const uint32_t bits = __float_as_uint(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t rest = bits & 0x7fffffff;
  const auto pack = [sign](uint32_t magnitude) {
    return Half{static_cast<uint16_t>(sign | magnitude)};
  };
  if (rest > 0x7f800000) return pack(0x7fff);   // NaN
  if (rest >= 0x477ff000) return pack(0x7c00);  // rounds past the largest, 65504
  if (rest < 0x38800000) {
    // Below 2^-14: adding 1/2 leaves the value, rounded to a multiple of 2^-24, in the low bits.
    return pack(__float_as_uint(__uint_as_float(rest) + 0.5f) - __float_as_uint(0.5f));
  }
  // Round to nearest even on the 13 bits that are dropped; the exponent's bias goes from 127 to 15.
  return pack((rest + 0xfff + (rest >> 13 & 1) - (112u << 23)) >> 13);
}

#else  // nvcc's pass over the host code, which never converts

__device__ float to_float(Half h);
__device__ Half to_half(float x);

#endif

__device__ __forceinline__ float to_float(BFloat16 b) {
  return __uint_as_float(static_cast<uint32_t>(b.bits) << 16);
}

__device__ __forceinline__ BFloat16 to_bfloat16(float x) {
  const uint32_t bits = __float_as_uint(x);
  if (x != x) return {0x7fff};
  // Round to nearest even on the 16 bits that are dropped.
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// A stored number as the accumulation type T, and back.
template <class T>
__device__ __forceinline__ T load(const T* from) {
  return *from;
}
template <class T>
__device__ __forceinline__ T load(const Half* from) {
  return to_float(*from);
}
template <class T>
__device__ __forceinline__ T load(const BFloat16* from) {
  return to_float(*from);
}

__device__ __forceinline__ void store(float* to, float x) { *to = x; }
__device__ __forceinline__ void store(double* to, double x) { *to = x; }
__device__ __forceinline__ void store(Half* to, float x) { *to = to_half(x); }
__device__ __forceinline__ void store(BFloat16* to, float x) { *to = to_bfloat16(x); }

template <class T, class S>
__device__ __forceinline__ T load_at(const Rows<const S>& rows, int64_t row, int column) {
  return load<T>(rows.at(row, column));
}

// NVRTC has no <math.h>, so no INFINITY.
template <class T>
__device__ __forceinline__ T infinity();
template <>
__device__ __forceinline__ float infinity<float>() {
  return __int_as_float(0x7f800000);
}
template <>
__device__ __forceinline__ double infinity<double>() {
  return __longlong_as_double(0x7ff0000000000000ll);
}

template <class T>
__device__ __forceinline__ T not_a_number() {
  return infinity<T>() - infinity<T>();
}

}  // namespace ptd
