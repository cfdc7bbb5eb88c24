// Rows of a matrix, clamped at zero and divided by their sum.
#pragma once

#include "math/revision.h"
#include "simd/simd.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
PTD_INLINE T clamped_sum(const T* row, int64_t classes) {
  Vec<T> sum{};
  for (int64_t k = 0; k < classes; k += kLanes<T>) {
    const Vec<T> m = load(row + k, classes - k);
    sum += m <= Vec<T>{} ? Vec<T>{} : m;
  }
  return sum_lanes(sum);
}

template <class T>
void project_transition(const T* matrix, int64_t begin, int64_t end, int64_t classes,
                        T* projected) {
  const T uniform = T(1) / T(classes);
  for (int64_t r = begin; r < end; ++r) {
    const T* row = matrix + r * classes;
    T* out = projected + r * classes;
    const T sum = clamped_sum(row, classes);
    for (int64_t k = 0; k < classes; ++k) {
      out[k] = normalised_entry(clamp_entry(row[k]), sum, uniform);
    }
  }
}

// dM_k = [M_k > 0] (G_k - sum_l G_l T_l) / r
template <class T>
void project_transition_backward(const T* matrix, const T* grad, int64_t begin, int64_t end,
                                 int64_t classes, T* grad_matrix) {
  for (int64_t r = begin; r < end; ++r) {
    const T* row = matrix + r * classes;
    const T* g = grad + r * classes;
    T* out = grad_matrix + r * classes;
    const T inverse = inverse_row_sum(clamped_sum(row, classes));
    T mean = T(0);
    for (int64_t k = 0; k < classes; ++k) mean += g[k] * clamp_entry(row[k]);
    mean *= inverse;
    for (int64_t k = 0; k < classes; ++k) {
      out[k] = row[k] <= T(0) ? T(0) : (g[k] - mean) * inverse;
    }
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
