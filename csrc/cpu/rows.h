// Rows of the operators' inputs and outputs as contiguous numbers of the accumulation type,
// whatever the tensor's own type and strides.
#pragma once

#include <string.h>

#include "simd/inline.h"
#include "views.h"

namespace ptd {
namespace PTD_ISA {

PTD_INLINE float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
PTD_INLINE uint32_t bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// binary16 has five exponent bits, biased by 15. Its bits, shifted to float's position and scaled
// by 2^112, give every finite value exactly, subnormal or not.
PTD_INLINE float float_of_half(uint16_t half) {
  const uint32_t magnitude = uint32_t(half & 0x7fffu) << 13;
  const uint32_t sign = uint32_t(half & 0x8000u) << 16;
  const bool finite = (half & 0x7c00u) != 0x7c00u;
  const uint32_t scaled = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
  return float_of_bits(sign | (finite ? scaled : magnitude | 0x7f800000u));
}

// Round to nearest, ties to even.
PTD_INLINE uint16_t half_of_float(float x) {
  const uint32_t bits = bits_of_float(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x47800000u) {
    half = 0x7c00u;  // 65536 and above
  } else if (magnitude >= 0x38800000u) {
    // Normal: a carry out of the mantissa increments the exponent, up to infinity, as it should.
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else {
    // Subnormal: one unit is 2^-24, which is also the unit in the last place of 0.5.
    half = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
  }
  return uint16_t(sign | half);
}

PTD_INLINE float float_of_bfloat16(uint16_t x) { return float_of_bits(uint32_t(x) << 16); }

PTD_INLINE uint16_t bfloat16_of_float(float x) {
  const uint32_t bits = bits_of_float(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);  // NaN, quiet
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Row n as contiguous T: the tensor's own memory if it is contiguous T, else a copy in buffer.
template <class T>
PTD_INLINE const T* read_row(const Matrix& m, int64_t n, int64_t columns, T* buffer) {
  const int64_t base = n * m.row_stride;
  switch (m.scalar) {
    case Scalar::f32: {
      const float* row = static_cast<const float*>(m.data) + base;
      if (sizeof(T) == sizeof(float) && m.stride == 1) return reinterpret_cast<const T*>(row);
      for (int64_t i = 0; i < columns; ++i) buffer[i] = T(row[i * m.stride]);
      return buffer;
    }
    case Scalar::f64: {
      const double* row = static_cast<const double*>(m.data) + base;
      if (sizeof(T) == sizeof(double) && m.stride == 1) return reinterpret_cast<const T*>(row);
      for (int64_t i = 0; i < columns; ++i) buffer[i] = T(row[i * m.stride]);
      return buffer;
    }
    case Scalar::f16: {
      const uint16_t* row = static_cast<const uint16_t*>(m.data) + base;
      for (int64_t i = 0; i < columns; ++i) buffer[i] = T(float_of_half(row[i * m.stride]));
      return buffer;
    }
    default: {
      const uint16_t* row = static_cast<const uint16_t*>(m.data) + base;
      for (int64_t i = 0; i < columns; ++i) buffer[i] = T(float_of_bfloat16(row[i * m.stride]));
      return buffer;
    }
  }
}

// The memory in which row n of a contiguous output is computed: the output itself if its type is T,
// else buffer, which write_row then converts.
template <class T>
PTD_INLINE T* output_row(const Matrix& m, int64_t n, T* buffer) {
  const bool in_place = m.scalar == (sizeof(T) == sizeof(float) ? Scalar::f32 : Scalar::f64);
  return in_place ? static_cast<T*>(m.data) + n * m.row_stride : buffer;
}

template <class T>
PTD_INLINE void write_row(const Matrix& m, int64_t n, int64_t columns, const T* row) {
  if (m.scalar != Scalar::f16 && m.scalar != Scalar::bf16) return;
  uint16_t* out = static_cast<uint16_t*>(m.data) + n * m.row_stride;
  for (int64_t i = 0; i < columns; ++i) {
    const float x = float(row[i]);
    out[i] = m.scalar == Scalar::f16 ? half_of_float(x) : bfloat16_of_float(x);
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
