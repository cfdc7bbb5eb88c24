// The arguments of the kernels that read one column of T(x) per sample.
#pragma once

#include "common/transition.h"

namespace ptd {

template <class S>
struct ColumnBatch {
  using T = Accumulation<S>;

  Rows<const S> logits;  // [N, C]
  Labels labels;
  Transition<T> transition;
  const T* row_sums;             // [N, C], of T(x) + slack clamped at zero; only with slack
  T* row_sums_out;               // row_sums if the kernel itself is to compute them, else nullptr
  T smoothing, smoothing_floor;  // epsilon, epsilon / C
};

// The rule by which a loss weighs a sample; see math/loss_terms.h.
template <class T>
struct LossRule {
  const T* class_weight;  // [C] or nullptr
  int64_t class_weight_stride;
  int64_t importance;
  T max_importance;
};

template <class T>
struct LossOutputs {
  T* losses;         // [N]; or nullptr, and then
  T* loss;           // []: the sum, divided by total_weight if `mean`
  T* total_weight;   // []; zero where losses are not reduced
  double* partials;  // [blocks, 2]: the sum of losses and of weights that each block has seen
  unsigned* ticket;  // [1], zero before the launch
  bool mean;
};

template <class S>
struct LossGradients {
  using T = Accumulation<S>;

  const T* grad_loss;  // [N] or []
  int64_t grad_stride;
  const T* total_weight;     // [], the divisor of the mean; or nullptr
  S* logits;                 // [N, C] or nullptr
  MatrixGradient<T> matrix;  // for the gradients of slack, parts and weights
};

}  // namespace ptd
