// exp of a vector, to about one unit in the last place.
//
// With x = n ln 2 + r and |r| <= ln 2 / 2, exp(x) = 2^n exp(r). exp(r) is its Taylor series, whose
// remainder is below a tenth of a unit in the last place at the degrees used. ln 2 is split in two,
// so that n times its leading part is exact. Results that would be subnormal are zero; an x above
// `largest` gives exp(largest) instead of overflowing; NaN stays NaN.
#pragma once

#include "simd/simd.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  typedef int32_t Int;
  static constexpr int mantissa_bits = 23, bias = 127, degree = 7;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float smallest = -87.33654f, largest = 88.0f;
  static constexpr float rounder = 0x1.8p23f;  // adding it leaves the nearest integer
};
template <>
struct ExpConstants<double> {
  typedef int64_t Int;
  static constexpr int mantissa_bits = 52, bias = 1023, degree = 13;
  static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
  static constexpr double smallest = -708.39641853226408, largest = 709.0;
  static constexpr double rounder = 0x1.8p52;
};

template <class T>
PTD_INLINE Vec<T> exp(Vec<T> x) {
  using K = ExpConstants<T>;
  using Bits = typename Simd<T>::Mask;
  constexpr T log2_e = T(1.4426950408889634);
  const Bits vanishes = x < splat(K::smallest);
  // NaN passes through, because every comparison with it is false.
  x = vanishes ? splat(K::smallest) : x;
  x = x > splat(K::largest) ? splat(K::largest) : x;

  const Vec<T> shifted = x * log2_e + K::rounder;
  const Vec<T> n = shifted - K::rounder;
  const Vec<T> r = (x - n * K::ln2_high) - n * K::ln2_low;

  T reciprocal[K::degree + 1] = {1};  // 1 / k!
  for (int k = 1; k <= K::degree; ++k) reciprocal[k] = reciprocal[k - 1] / T(k);
  Vec<T> series = splat(reciprocal[K::degree]);
  for (int k = K::degree - 1; k >= 0; --k) series = series * r + reciprocal[k];

  // The low bits of `shifted` hold n: moved into the exponent field they are 2^n.
  const Bits exponent = ((Bits)shifted + typename K::Int(K::bias)) << K::mantissa_bits;
  const Vec<T> result = series * (Vec<T>)exponent;
  return vanishes ? Vec<T>{} : result;
}

}  // namespace PTD_ISA
}  // namespace ptd
