// Softmax sums of a row of logits, alone and against a column of T(x).
#pragma once

#include "math/loss_terms.h"
#include "simd/exp.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
PTD_INLINE T largest(const T* z, int64_t classes) {
  Vec<T> top = splat(-T(INFINITY));
  for (int64_t i = 0; i < classes; i += kLanes<T>) {
    top = maximum<T>(top, load_or(z + i, classes - i, -T(INFINITY)));
  }
  return max_lanes(top);
}

// The largest logit among the classes i with u_i > 0, which can have produced the label.
template <class T>
PTD_INLINE T largest_open(const T* z, const T* u, int64_t classes) {
  T top = -T(INFINITY);
  for (int64_t i = 0; i < classes; ++i) top = u[i] > T(0) && z[i] > top ? z[i] : top;
  return top;
}

// The sum of exp(z - shift); `out` receives the terms unless it is nullptr.
template <class T>
PTD_INLINE T exp_row(const T* z, T shift, int64_t classes, T* out) {
  Vec<T> sum{};
  for (int64_t i = 0; i < classes; i += kLanes<T>) {
    const int64_t n = classes - i;
    const Vec<T> e = exp<T>(load_or(z + i, n, -T(INFINITY)) - shift);
    sum += e;
    if (out) store(out + i, e, n);
  }
  return sum_lanes(sum);
}

template <class T>
PTD_INLINE void softmax_row(const T* z, int64_t classes, T* g) {
  const T inverse = T(1) / exp_row(z, largest(z, classes), classes, g);
  for_lanes<T>(classes, [&](int64_t i, int64_t n) { store(g + i, inverse * load(g + i, n), n); });
}

// U and S' of loss_terms.h, for a column shift that differs from the shift.
template <class T>
PTD_INLINE void sum_under_column_shift(const T* z, const T* u, int64_t y, int64_t classes,
                                       T column_shift, ColumnSums<T>& sums) {
  sums.column_shift = column_shift;
  sums.column_sum = sums.other_column_sum = T(0);
  for (int64_t i = 0; i < classes; ++i) {
    const T e = exp_of(z[i] - column_shift);
    // e may be infinite if u_i is zero; such a class adds nothing to U.
    if (u[i] != T(0)) sums.column_sum += e * u[i];
    if (i != y) sums.other_column_sum += e;
  }
}

// The sums of loss_terms.h for label y, or without a label if y is negative. `exps` receives e_i
// unless it is nullptr.
template <class T>
PTD_INLINE ColumnSums<T> column_sums(const T* z, const T* u, int64_t y, int64_t classes,
                                     bool smoothed, T* exps) {
  ColumnSums<T> sums;
  sums.shift = sums.column_shift = largest(z, classes);
  Vec<T> lane{}, exp_sum{}, column_sum{}, other_sum{};
  for (int l = 0; l < kLanes<T>; ++l) lane[l] = T(l);
  for (int64_t i = 0; i < classes; i += kLanes<T>) {
    const int64_t n = classes - i;
    const Vec<T> e = exp<T>(load_or(z + i, n, -T(INFINITY)) - sums.shift);
    exp_sum += e;
    if (y >= 0) other_sum += lane == splat(T(y - i)) ? Vec<T>{} : e;
    column_sum += e * load(u + i, n);
    if (exps) store(exps + i, e, n);
  }
  sums.exp_sum = sum_lanes(exp_sum);
  sums.other_sum = sum_lanes(other_sum);
  sums.column_sum = sum_lanes(column_sum);
  if (smoothed || sums.shift != sums.shift) return sums;
  const T open = largest_open(z, u, classes);
  // A column without mass keeps the shift: no term overflows, and its sum is zero.
  if (open > -T(INFINITY) && open < sums.shift) {
    sum_under_column_shift(z, u, y, classes, open, sums);
  }
  if (is_tiny_column(sums.column_sum)) {
    const T lower = sums.column_shift - T(kTinyColumnShift);
    sum_under_column_shift(z, u, y, classes, lower, sums);
  }
  return sums;
}

// The divisor in q_i = e'_i u_i / U: U, or NaN if any logit is NaN, even one whose u is zero.
template <class T>
PTD_INLINE T posterior_divisor(const ColumnSums<T>& sums) {
  return sums.exp_sum == sums.exp_sum ? sums.column_sum : sums.exp_sum;
}

// e'_i u_i, which is zero if u_i is zero, whatever e'_i is.
template <class T>
PTD_INLINE Vec<T> joint_exp(Vec<T> e, Vec<T> column) {
  return column == Vec<T>{} ? Vec<T>{} : e * column;
}

// e'_i of loss_terms.h, given e_i.
template <class T>
PTD_INLINE Vec<T> column_exp(const ColumnSums<T>& sums, const T* z, Vec<T> e, int64_t n) {
  if (sums.column_shift == sums.shift) return e;
  return exp<T>(load_or(z, n, -T(INFINITY)) - sums.column_shift);
}

}  // namespace PTD_ISA
}  // namespace ptd
