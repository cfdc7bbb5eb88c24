// T(x) + slack of a batch as the kernels take it, T(x) = sum_j h_j(x) P^j.
#pragma once

#include "common/scalars.cuh"

namespace ptd {

template <class T>
struct Transition {
  Rows<const T> weights;  // h, [N, R]; absent: one part of weight one
  const T* columns;       // [C, R, C]: columns[k][j][i] = P^j_ik, so that a column is contiguous
  Rows<const T> slack;    // [C, C]; absent: none
  int64_t samples;        // N
  int classes, parts;     // C, R

  __device__ __forceinline__ T weight(int64_t n, int j) const {
    return weights.data ? load_at<T>(weights, n, j) : T(1);
  }
  // Zero without slack.
  __device__ __forceinline__ T slack_at(int i, int k) const {
    return slack.data ? load_at<T>(slack, i, k) : T(0);
  }
  // Entries i of part j in column k start here.
  __device__ __forceinline__ const T* column(int k, int j = 0) const {
    return columns + (int64_t(k) * parts + j) * classes;
  }
};

// Noisy labels. A label that names a class counts, unless it is ignore_index. Any other label than
// that is bad: it makes the sample's result NaN, and its gradient zero, without stopping the rest.
struct Labels {
  const void* data;  // [N] int64 or int32
  int64_t stride;
  bool is_int64;
  int64_t ignore_index;

  static constexpr int kIgnored = -1, kBad = -2;

  // The class that the label of sample n names, or one of these two.
  __device__ __forceinline__ int of(int64_t n, int classes) const {
    const int64_t label = is_int64 ? static_cast<const int64_t*>(data)[n * stride]
                                   : static_cast<const int32_t*>(data)[n * stride];
    if (label == ignore_index) return kIgnored;
    return label >= 0 && label < classes ? static_cast<int>(label) : kBad;
  }
};

// The gradient of a loss with respect to M = T(x) + slack, in factored form:
//
//   dL/dM_ik = [M_ik > 0] (entry_i column_k - row_i)    with slack
//   dL/dM_ik = entry_i [k = y]                          without
//
// The operators that read one column y of T(x) have column_k = [k = y] with slack too.
template <class T>
struct MatrixGradient {
  T* entry;         // [N, C], or nullptr where no gradient of the transition is wanted
  T* row;           // [N, C], with slack
  const T* column;  // [N, C], only with slack; or nullptr: [k = y], from the labels
};

}  // namespace ptd
