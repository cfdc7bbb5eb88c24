// A strip is kStrip rows of [N, R], transposed to [R, kStrip]. A vector holds one entry of many
// rows, so that sums over a row need no horizontal sums, rows of any length fill the vectors, and
// no row affects another. A strip is two vectors wide: two independent chains of additions hide
// their latency.
#pragma once

#include "math/simplex.h"
#include "simd/simd.h"
#include "simplex/tile.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
constexpr int64_t kStrip = 2 * kLanes<T>;

template <class T>
struct PairMask {
  typename Simd<T>::Mask a, b;

  PTD_INLINE PairMask operator&(PairMask o) const { return {a & o.a, b & o.b}; }
  PTD_INLINE PairMask operator|(PairMask o) const { return {a | o.a, b | o.b}; }
  PTD_INLINE PairMask operator~() const { return {~a, ~b}; }
  PTD_INLINE bool any() const { return lane_bits(a | b) != 0; }
};

// One entry of every row of a strip.
template <class T>
struct Pair {
  Vec<T> a, b;

  PTD_INLINE Pair operator+(Pair o) const { return {a + o.a, b + o.b}; }
  PTD_INLINE Pair operator-(Pair o) const { return {a - o.a, b - o.b}; }
  PTD_INLINE Pair operator*(Pair o) const { return {a * o.a, b * o.b}; }
  PTD_INLINE Pair operator/(Pair o) const { return {a / o.a, b / o.b}; }
  PTD_INLINE Pair operator+(int x) const { return {a + T(x), b + T(x)}; }
  PTD_INLINE Pair operator-(int x) const { return {a - T(x), b - T(x)}; }
  PTD_INLINE PairMask<T> operator>(Pair o) const { return {a > o.a, b > o.b}; }
  PTD_INLINE PairMask<T> operator<=(Pair o) const { return {a <= o.a, b <= o.b}; }
  PTD_INLINE PairMask<T> operator==(Pair o) const { return {a == o.a, b == o.b}; }
  PTD_INLINE PairMask<T> operator!=(Pair o) const { return {a != o.a, b != o.b}; }
};

template <class T>
PTD_INLINE Pair<T> pair(T x) {
  return {splat(x), splat(x)};
}
template <class T>
PTD_INLINE Pair<T> load_pair(const T* p) {
  return {load(p), load(p + kLanes<T>)};
}
template <class T>
PTD_INLINE void store_pair(T* p, Pair<T> x) {
  store(p, x.a);
  store(p + kLanes<T>, x.b);
}
template <class T>
PTD_INLINE Pair<T> select(PairMask<T> m, Pair<T> yes, Pair<T> no) {
  return {m.a ? yes.a : no.a, m.b ? yes.b : no.b};
}
template <class T>
PTD_INLINE Pair<T> maximum(Pair<T> x, Pair<T> y) {
  return {maximum<T>(x.a, y.a), maximum<T>(x.b, y.b)};
}

// The larger of two entries; a NaN counts as the largest, and stays.
template <class T>
PTD_INLINE Pair<T> larger_or_nan(Pair<T> x, Pair<T> y) {
  return select((x > y) | (x != x), x, y);
}

template <class T>
PTD_INLINE Pair<T> offset_below(Pair<T> entry, Pair<T> top) {
  const Pair<T> below = entry - top, far = pair(T(kFarBelow));
  return select(far > below, far, below);
}

// Transposes `count` rows of [N, R] to a strip; missing rows repeat the last.
template <class T>
PTD_INLINE void read_strip(const T* rows,  // [count, R]
                           int64_t count, int64_t parts,
                           T* strip) {  // [R, kStrip]
  transpose(rows, parts, count, parts, strip, kStrip<T>);
  for (int64_t j = 0; j < parts; ++j) {
    T* entries = strip + j * kStrip<T>;
    for (int64_t lane = count; lane < kStrip<T>; ++lane) entries[lane] = entries[count - 1];
  }
}

template <class T>
PTD_INLINE void write_strip(const T* strip,  // [R, kStrip]
                            int64_t count, int64_t parts,
                            T* rows) {  // [count, R]
  transpose(strip, kStrip<T>, parts, count, rows, parts);
}

// The theta of every row's projection, from any start.
template <class T>
PTD_INLINE Pair<T> threshold(const T* strip,  // [R, kStrip]
                             int64_t parts, Pair<T> theta) {
  for (bool first = true;; first = false) {
    Pair<T> sum[2] = {}, count[2] = {};
    const auto add = [&](int64_t j, int which) __attribute__((always_inline)) {
      const Pair<T> x = load_pair(strip + j * kStrip<T>);
      const PairMask<T> above = x > theta;
      sum[which] = select(above, sum[which] + x, sum[which]);
      count[which] = select(above, count[which] + 1, count[which]);
    };
    int64_t j = 0;
    for (; j + 2 <= parts; j += 2) {
      add(j, 0);
      add(j + 1, 1);
    }
    if (j < parts) add(j, 0);
    const Pair<T> next = newton_threshold(sum[0] + sum[1], count[0] + count[1]);
    // The first step may start right of the solution and lower theta. Later steps raise theta,
    // until it no longer changes.
    const bool arrived = !(first ? next != theta : next > theta).any();
    theta = first ? next : maximum(next, theta);
    if (arrived) return theta;
  }
}

// max(strip - theta, 0) in place. NaN stays.
template <class T>
PTD_INLINE void subtract_and_clamp(T* strip,  // [R, kStrip]
                                   int64_t parts, Pair<T> theta) {
  for (int64_t j = 0; j < parts; ++j) {
    const Pair<T> x = load_pair(strip + j * kStrip<T>) - theta;
    store_pair(strip + j * kStrip<T>, select(x <= Pair<T>{}, Pair<T>{}, x));
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
