// Loads and stores of the storage types, and the few numbers that NVRTC has no names for. The
// sixteen-bit types are converted without a CUDA header, so that the same text compiles under nvcc,
// NVRTC and g++.
#pragma once

#include "launch.h"
#include "storage.h"

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
  // Infinity and NaN keep the widest exponent; all else, subnormals too, is the number whose bits
  // are shifted into place, scaled by 2^112 for the difference of the exponent biases.
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
  // Round to nearest even on the 13 bits that go, and move the exponent bias from 127 to 15.
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
  // Round to nearest even on the 16 bits that go.
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// Neighbours that are loaded or stored together.
template <class S, int E>
struct alignas(E * sizeof(S) < 16 ? E * sizeof(S) : 16) Vector {
  S of[E];
};

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

// The same number, of which the compiler knows nothing: what is computed from it is computed where
// it stands, and not kept in registers from before.
template <class T>
__device__ __forceinline__ T opaque(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (T(0.5f) == T(0)) {
    asm volatile("" : "+r"(x));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("" : "+f"(x));
  } else {
    asm volatile("" : "+d"(x));
  }
#endif
  return x;
}
template <class T>
__device__ __forceinline__ const T* opaque(const T* x) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(x));
#endif
  return x;
}

// 2^x to a few units in the last place. Results below 2^-126 are zero.
__device__ __forceinline__ float quick_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#elif defined(PTD_CUDA_EMULATOR)
  const float result = exp2f(x);
  return result < 0x1p-126f ? 0.0f : result;
#else
  return x;  // nvcc's pass over the host code, which never gets here
#endif
}

// exp(x), wrong by what rounding x to a float would make it wrong by, and a few units in the last
// place. Results below 2^-126 are zero.
__device__ __forceinline__ float quick_exp(float x) { return quick_exp2(x * 1.4426950408889634f); }
__device__ __forceinline__ double quick_exp(double x) { return exp(x); }

// x y, rounded: not part of a multiply-add.
__device__ __forceinline__ float rounded_product(float x, float y) { return __fmul_rn(x, y); }
__device__ __forceinline__ double rounded_product(double x, double y) { return __dmul_rn(x, y); }

// x / y to a few units in the last place; zero if y is above 2^126.
__device__ __forceinline__ float quick_quotient(float x, float y) { return __fdividef(x, y); }
__device__ __forceinline__ double quick_quotient(double x, double y) { return x / y; }

// 1 / x to a unit in the last place, of an x that is zero or not below 2^-126.
__device__ __forceinline__ float quick_inverse(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1.0f / x;
#endif
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
