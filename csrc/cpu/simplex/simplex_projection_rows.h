// Rows of [N, R], projected onto the simplex.
#pragma once

#include <math.h>

#include "simplex/strip.h"

namespace ptd {
namespace PTD_ISA {

// Rows up to this length are projected in strips, longer ones one by one with lanes along the row.
constexpr int64_t kLongestStripRow = 256;

template <class T>
int64_t simplex_projection_scratch(int64_t parts) {
  return parts > kLongestStripRow ? 0 : parts * kStrip<T>;
}

template <class T>
PTD_INLINE Vec<T> shifted(Vec<T> x, Vec<T> top) {
  return x == top ? Vec<T>{} : x - top;
}

template <class T>
PTD_INLINE void project_strip(T* strip,  // [R, kStrip]
                              int64_t parts) {
  Pair<T> top = load_pair(strip);
  for (int64_t j = 1; j < parts; ++j) {
    const Pair<T> x = load_pair(strip + j * kStrip<T>);
    top = larger_or_nan(x, top);
  }
  for (int64_t j = 0; j < parts; ++j) {
    const Pair<T> x = load_pair(strip + j * kStrip<T>);
    store_pair(strip + j * kStrip<T>, {shifted<T>(x.a, top.a), shifted<T>(x.b, top.b)});
  }
  subtract_and_clamp(strip, parts, threshold(strip, parts, pair(T(-1))));
}

template <class T>
PTD_INLINE void project_long_row(const T* x,    // [R]
                                 T* projected,  // [R]
                                 int64_t parts) {
  Vec<T> tops = splat(x[0]), sums{};
  for_lanes<T>(parts, [&](int64_t i, int64_t n) {
    const Vec<T> v = load_or(x + i, n, x[0]);
    tops = maximum<T>(v, tops);
    sums += v - v;  // NaN where v is NaN or infinite
  });
  T top = max_lanes(tops);
  // The row has an infinity or a NaN; a scalar loop lets a NaN through.
  if (const T sum = sum_lanes(sums); sum != sum) {
    for (int64_t i = 0; i < parts; ++i) top = x[i] > top || x[i] != x[i] ? x[i] : top;
  }
  T theta = T(-1);
  for (;;) {
    Vec<T> sum{}, count{};
    for_lanes<T>(parts, [&](int64_t i, int64_t n) {
      const Vec<T> v = shifted<T>(load_or(x + i, n, T(NAN)), splat(top));
      sum = v > splat(theta) ? sum + v : sum;
      count = v > splat(theta) ? count + T(1) : count;
    });
    const T next = newton_threshold(sum_lanes(sum), sum_lanes(count));
    if (!(next > theta)) break;
    theta = next;
  }
  for_lanes<T>(parts, [&](int64_t i, int64_t n) {
    const Vec<T> v = shifted<T>(load(x + i, n), splat(top)) - theta;
    store(projected + i, v <= Vec<T>{} ? Vec<T>{} : v, n);
  });
}

template <class T>
void simplex_projection(const T* x, int64_t begin, int64_t end, int64_t parts, T* scratch,
                        T* projected) {
  if (parts > kLongestStripRow) {
    for (int64_t n = begin; n < end; ++n) {
      project_long_row(x + n * parts, projected + n * parts, parts);
    }
    return;
  }
  for (int64_t n = begin; n < end; n += kStrip<T>) {
    const int64_t count = end - n < kStrip<T> ? end - n : kStrip<T>;
    read_strip(x + n * parts, count, parts, scratch);
    project_strip(scratch, parts);
    write_strip(scratch, count, parts, projected + n * parts);
  }
}

// dx = [p > 0] (g - mean of g over the support), and NaN where p is NaN.
template <class T>
void simplex_projection_backward(const T* grad, const T* projected, int64_t begin, int64_t end,
                                 int64_t parts, T* grad_x) {
  for (int64_t row = begin; row < end; ++row) {
    const T *g = grad + row * parts, *p = projected + row * parts;
    T* out = grad_x + row * parts;
    Vec<T> sum{}, count{};
    for_lanes<T>(parts, [&](int64_t i, int64_t n) {
      const Vec<T> on = load(p + i, n);
      sum = on > Vec<T>{} ? sum + load(g + i, n) : sum;
      count = on > Vec<T>{} ? count + T(1) : count;
    });
    const T mean = sum_lanes(sum) / sum_lanes(count);
    for_lanes<T>(parts, [&](int64_t i, int64_t n) {
      const Vec<T> on = load(p + i, n);
      store(out + i, on > Vec<T>{} ? load(g + i, n) - mean : on * T(0), n);
    });
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
