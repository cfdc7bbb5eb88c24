// Sixteen-bit floats as storage: kernels load them, compute in float, and store them. No CUDA
// header is needed, so the same text compiles under nvcc, NVRTC and g++.
#pragma once

#include "launch.h"

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

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

__device__ __forceinline__ float bits_to_float(uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ uint32_t float_to_bits(float x) { return __float_as_uint(x); }

#else

inline float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t float_to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }

inline float to_float(Half h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t rest = h.bits & 0x7fff;
  // Infinity and NaN keep the widest exponent; all else, subnormals too, is the number whose bits
  // are shifted into place, scaled by 2^112 for the difference of the exponent biases.
  if (rest >= 0x7c00) return bits_to_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  return bits_to_float(sign | float_to_bits(bits_to_float(rest << 13) * 0x1p112f));
}

inline Half to_half(float x) {
  const uint32_t bits = float_to_bits(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t rest = bits & 0x7fffffff;
  const auto pack = [sign](uint32_t magnitude) {
    return Half{static_cast<uint16_t>(sign | magnitude)};
  };
  if (rest > 0x7f800000) return pack(0x7fff);   // NaN
  if (rest >= 0x477ff000) return pack(0x7c00);  // rounds past the largest, 65504
  if (rest < 0x38800000) {
    // Below 2^-14: adding 1/2 leaves the value, rounded to a multiple of 2^-24, in the low bits.
    return pack(float_to_bits(bits_to_float(rest) + 0.5f) - float_to_bits(0.5f));
  }
  // Round to nearest even on the 13 bits that go, and move the exponent bias from 127 to 15.
  return pack((rest + 0xfff + (rest >> 13 & 1) - (112u << 23)) >> 13);
}

#endif

__device__ __forceinline__ float to_float(BFloat16 b) {
  return bits_to_float(static_cast<uint32_t>(b.bits) << 16);
}

__device__ __forceinline__ BFloat16 to_bfloat16(float x) {
  const uint32_t bits = float_to_bits(x);
  if (x != x) return {0x7fff};
  // Round to nearest even on the 16 bits that go.
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
