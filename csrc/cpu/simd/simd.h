// One vector register of the instruction set this file is compiled for (PTD_ISA), with partial
// loads and stores so that a row of any length needs no padding and no scalar tail.
//
// Arithmetic is the compilers' vector extension, which lowers to whatever the target has; only what
// it cannot express (masked memory access) is written per instruction set.
#pragma once

#include <stdint.h>
#include <string.h>

#include <utility>

#include "simd/inline.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace ptd {
namespace PTD_ISA {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kVectorRegisters = 32;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kVectorRegisters = 16;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16, kVectorRegisters = 32;
#else
constexpr int kVectorBytes = 16, kVectorRegisters = 16;
#endif

// body(0), ..., body(N - 1), written out. The compiler keeps an array of vectors in registers only
// if every index is a constant from the start.
template <int N, class Body>
PTD_INLINE void unrolled(const Body& body) {
  [&]<int... I>(std::integer_sequence<int, I...>)
      PTD_INLINE_LAMBDA { (body(I), ...); }(std::make_integer_sequence<int, N>());
}

template <class T>
struct Simd;
template <>
struct Simd<float> {
  typedef float Vec __attribute__((vector_size(kVectorBytes)));
  typedef int32_t Lane;
  typedef Lane Mask __attribute__((vector_size(kVectorBytes)));
};
template <>
struct Simd<double> {
  typedef double Vec __attribute__((vector_size(kVectorBytes)));
  typedef int64_t Lane;
  typedef Lane Mask __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vec = typename Simd<T>::Vec;
// Integers as wide as T, one in each lane; a comparison sets all bits of a lane, or none.
template <class T>
using Lanes = typename Simd<T>::Mask;
template <class T>
constexpr int kLanes = kVectorBytes / int(sizeof(T));

// The compiler removes x - 0; it could not remove 0 + x, which turns -0 into 0.
template <class T>
PTD_INLINE Vec<T> splat(T x) {
  return x - Vec<T>{};
}

// The same 32 bits in every lane.
template <class T>
PTD_INLINE Lanes<T> splat_bits(uint32_t bits) {
  return Lanes<T>{} + typename Simd<T>::Lane(bits);
}

template <class T>
PTD_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
PTD_INLINE void store(T* p, Vec<T> v) {
  memcpy(p, &v, sizeof v);
}

// load(p, n): the first min(n, lanes) elements; the other lanes are zero. n >= 1.
// store(p, v, n): writes the first min(n, lanes) elements, and no byte more.
#if defined(__AVX512F__)
PTD_INLINE __mmask16 lane_mask(const float*, int64_t n) {
  return n >= 16 ? __mmask16(0xffff) : __mmask16((1u << n) - 1u);
}
PTD_INLINE __mmask8 lane_mask(const double*, int64_t n) {
  return n >= 8 ? __mmask8(0xff) : __mmask8((1u << n) - 1u);
}
PTD_INLINE Vec<float> load(const float* p, int64_t n) {
  return (Vec<float>)_mm512_maskz_loadu_ps(lane_mask(p, n), p);
}
PTD_INLINE Vec<double> load(const double* p, int64_t n) {
  return (Vec<double>)_mm512_maskz_loadu_pd(lane_mask(p, n), p);
}
PTD_INLINE void store(float* p, Vec<float> v, int64_t n) {
  _mm512_mask_storeu_ps(p, lane_mask(p, n), (__m512)v);
}
PTD_INLINE void store(double* p, Vec<double> v, int64_t n) {
  _mm512_mask_storeu_pd(p, lane_mask(p, n), (__m512d)v);
}
#elif defined(__AVX2__)
PTD_INLINE __m256i lane_mask(const float*, int64_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n >= 8 ? 8 : int(n)), lanes);
}
PTD_INLINE __m256i lane_mask(const double*, int64_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
PTD_INLINE Vec<float> load(const float* p, int64_t n) {
  return (Vec<float>)_mm256_maskload_ps(p, lane_mask(p, n));
}
PTD_INLINE Vec<double> load(const double* p, int64_t n) {
  return (Vec<double>)_mm256_maskload_pd(p, lane_mask(p, n));
}
PTD_INLINE void store(float* p, Vec<float> v, int64_t n) {
  _mm256_maskstore_ps(p, lane_mask(p, n), (__m256)v);
}
PTD_INLINE void store(double* p, Vec<double> v, int64_t n) {
  _mm256_maskstore_pd(p, lane_mask(p, n), (__m256d)v);
}
#else
template <class T>
PTD_INLINE Vec<T> load(const T* p, int64_t n) {
  if (n >= kLanes<T>) return load(p);
  Vec<T> v{};
  for (int64_t lane = 0; lane < n; ++lane) v[lane] = p[lane];
  return v;
}
template <class T>
PTD_INLINE void store(T* p, Vec<T> v, int64_t n) {
  if (n >= kLanes<T>) return store(p, v);
  for (int64_t lane = 0; lane < n; ++lane) p[lane] = v[lane];
}
#endif

// load(p, n) with `fill` in the lanes beyond n.
#if defined(__AVX512F__)
PTD_INLINE Vec<float> load_or(const float* p, int64_t n, float fill) {
  return (Vec<float>)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), lane_mask(p, n), p);
}
PTD_INLINE Vec<double> load_or(const double* p, int64_t n, double fill) {
  return (Vec<double>)_mm512_mask_loadu_pd(_mm512_set1_pd(fill), lane_mask(p, n), p);
}
#else
template <class T>
PTD_INLINE Vec<T> load_or(const T* p, int64_t n, T fill) {
  Vec<T> index{};
  for (int lane = 0; lane < kLanes<T>; ++lane) index[lane] = T(lane);
  return index < splat(T(n)) ? load(p, n) : splat(fill);
}
#endif

// Calls body(i, n) for every vector of a row: it starts at element i, and n elements are left.
template <class T, class Body>
PTD_INLINE void for_lanes(int64_t size, const Body& body) {
  for (int64_t i = 0; i < size; i += kLanes<T>) body(i, size - i);
}

// Bit b of the result is set where lane b of a comparison is true.
#if defined(__AVX512DQ__)
PTD_INLINE uint32_t lane_bits(Simd<float>::Mask m) { return _mm512_movepi32_mask((__m512i)m); }
PTD_INLINE uint32_t lane_bits(Simd<double>::Mask m) { return _mm512_movepi64_mask((__m512i)m); }
#elif defined(__AVX2__)
PTD_INLINE uint32_t lane_bits(Simd<float>::Mask m) { return _mm256_movemask_ps((__m256)m); }
PTD_INLINE uint32_t lane_bits(Simd<double>::Mask m) { return _mm256_movemask_pd((__m256d)m); }
#else
template <class M>
PTD_INLINE uint32_t lane_bits(M m) {
  uint32_t bits = 0;
  for (unsigned lane = 0; lane < sizeof(M) / sizeof(m[0]); ++lane) bits |= (m[lane] & 1u) << lane;
  return bits;
}
#endif

// keep_lanes(v, bits): v, with zeros in the lanes whose bit is not set.
#if defined(__AVX512F__)
PTD_INLINE Vec<float> keep_lanes(Vec<float> v, uint32_t bits) {
  return (Vec<float>)_mm512_maskz_mov_ps(__mmask16(bits), (__m512)v);
}
PTD_INLINE Vec<double> keep_lanes(Vec<double> v, uint32_t bits) {
  return (Vec<double>)_mm512_maskz_mov_pd(__mmask8(bits), (__m512d)v);
}
#else
template <class V>
PTD_INLINE V keep_lanes(V v, uint32_t bits) {
  using T = decltype(+v[0]);
  Lanes<T> lane_bit{};
  for (int lane = 0; lane < kLanes<T>; ++lane) lane_bit[lane] = 1 << lane;
  return (splat_bits<T>(bits) & lane_bit) != Lanes<T>{} ? v : V{};
}
#endif

template <class T>
PTD_INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) {
  return a > b ? a : b;
}

// The smaller and the larger of two numbers in one instruction; b if either is NaN.
#if defined(__AVX512F__)
template <class T>
PTD_INLINE Vec<float> smaller(Vec<float> a, Vec<float> b) {
  return (Vec<float>)_mm512_min_ps((__m512)a, (__m512)b);
}
template <class T>
PTD_INLINE Vec<double> smaller(Vec<double> a, Vec<double> b) {
  return (Vec<double>)_mm512_min_pd((__m512d)a, (__m512d)b);
}
template <class T>
PTD_INLINE Vec<float> larger(Vec<float> a, Vec<float> b) {
  return (Vec<float>)_mm512_max_ps((__m512)a, (__m512)b);
}
template <class T>
PTD_INLINE Vec<double> larger(Vec<double> a, Vec<double> b) {
  return (Vec<double>)_mm512_max_pd((__m512d)a, (__m512d)b);
}
#else
template <class T>
PTD_INLINE Vec<T> smaller(Vec<T> a, Vec<T> b) {
  return a < b ? a : b;
}
template <class T>
PTD_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
  return a > b ? a : b;
}
#endif

// max(v, 0) in one instruction, which returns its second operand, v, if that is NaN.
#if defined(__AVX512F__)
PTD_INLINE Vec<float> positive_part(Vec<float> v) {
  return (Vec<float>)_mm512_max_ps(_mm512_setzero_ps(), (__m512)v);
}
PTD_INLINE Vec<double> positive_part(Vec<double> v) {
  return (Vec<double>)_mm512_max_pd(_mm512_setzero_pd(), (__m512d)v);
}
#elif defined(__AVX2__)
PTD_INLINE Vec<float> positive_part(Vec<float> v) {
  return (Vec<float>)_mm256_max_ps(_mm256_setzero_ps(), (__m256)v);
}
PTD_INLINE Vec<double> positive_part(Vec<double> v) {
  return (Vec<double>)_mm256_max_pd(_mm256_setzero_pd(), (__m256d)v);
}
#else
template <class V>
PTD_INLINE V positive_part(V v) {
  return V{} > v ? V{} : v;
}
#endif

#if defined(__AVX512F__)
PTD_INLINE float sum_lanes(Vec<float> v) { return _mm512_reduce_add_ps((__m512)v); }
PTD_INLINE double sum_lanes(Vec<double> v) { return _mm512_reduce_add_pd((__m512d)v); }
PTD_INLINE float max_lanes(Vec<float> v) { return _mm512_reduce_max_ps((__m512)v); }
PTD_INLINE double max_lanes(Vec<double> v) { return _mm512_reduce_max_pd((__m512d)v); }
#else
template <class V>
PTD_INLINE auto sum_lanes(V v) {
  constexpr int lanes = sizeof(V) / sizeof(v[0]);
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) v[lane] += v[lane + half];
  }
  return v[0];
}
template <class V>
PTD_INLINE auto max_lanes(V v) {
  constexpr int lanes = sizeof(V) / sizeof(v[0]);
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      v[lane] = v[lane] > v[lane + half] ? v[lane] : v[lane + half];
    }
  }
  return v[0];
}
#endif

}  // namespace PTD_ISA
}  // namespace ptd
