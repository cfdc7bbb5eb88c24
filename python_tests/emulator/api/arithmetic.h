// Arithmetic that CUDA has and C++ lacks. Fast approximations are computed accurately: tolerances
// of tests must come from the algorithm, not from one GPU's rounding.
#pragma once

// The C header, which also puts the float overloads of exp, log, ... in the global namespace.
#include <math.h>

#include <bit>
#include <cstdint>
#include <type_traits>

template <typename T>
T __ldg(const T* address) {
  return *address;
}

template <typename A, typename B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmin(T(a), T(b));
  return T(b) < T(a) ? T(b) : T(a);
}

template <typename A, typename B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmax(T(a), T(b));
  return T(a) < T(b) ? T(b) : T(a);
}

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
// Zero, or NaN of an infinite x, where y is above 2^126.
inline float __fdividef(float x, float y) {
  return fabsf(y) > 0x1p126f && fabsf(y) < INFINITY ? (x - x) * 0.0f : x / y;
}
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<uint64_t>(x) * y) >> 32);
}
// Four bytes of the eight of x and y, by the low three bits of each digit of the selector.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
  unsigned result = 0;
  for (int b = 0; b < 4; ++b) {
    const unsigned from = selector >> 4 * b & 7u;
    result |= static_cast<unsigned>(bytes >> 8 * from & 0xffu) << 8 * b;
  }
  return result;
}
// c + the products of four bytes each.
inline unsigned __dp4a(unsigned x, unsigned y, unsigned c) {
  for (int b = 0; b < 32; b += 8) c += (x >> b & 0xffu) * (y >> b & 0xffu);
  return c;
}

inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
