// T(x) + slack of a batch as the kernels take it, T(x) = sum_j h_j(x) P^j.
#pragma once

#include "common/types.h"

namespace ptd {

template <class T>
struct Transition {
  Rows<const T> weights;  // h, [N, R]; absent: one part of weight one
  const T* columns;       // [C, R, C]: columns[k][j][i] = P^j_ik, so that a column is contiguous
  Rows<const T> slack;    // [C, C]; absent: none
  int64_t samples;        // N
  int classes, parts;     // C, R

  __device__ __forceinline__ T weight(int64_t n, int j) const {
    return weights.data ? *weights.at(n, j) : T(1);
  }
  // Zero without slack.
  __device__ __forceinline__ T slack_at(int i, int k) const {
    return slack.data ? *slack.at(i, k) : T(0);
  }
  // Column k of part j: [C], contiguous in i.
  __device__ __forceinline__ const T* column(int k, int j = 0) const {
    return columns + (int64_t(k) * parts + j) * classes;
  }
};

// Noisy labels. A label equal to ignore_index is ignored; any other label in [0, C) counts. Any
// other value is bad: it makes the sample's result NaN and its gradient zero, and leaves other
// samples as they are.
struct Labels {
  const void* data;  // [N] int64 or int32
  int64_t stride;
  bool is_int64;
  int64_t ignore_index;

  static constexpr int kIgnored = -1, kBad = -2;

  // The class of sample n's label, or kIgnored or kBad.
  __device__ __forceinline__ int class_of(int64_t n, int classes) const {
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

// The gradient of a posterior [N, C], and the destinations of the gradients that follow from it.
template <class S>
struct PosteriorGradients {
  using T = Accumulation<S>;

  const T* grad;             // [N, C], with respect to the posterior
  S* logits;                 // [N, C] or nullptr
  MatrixGradient<T> matrix;  // for the gradients of slack, parts and weights
};

}  // namespace ptd
