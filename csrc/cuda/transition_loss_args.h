// The arguments of the transition loss kernels beside the batch itself.
#pragma once

#include "label_batch.h"

namespace ptd {

// What a loss makes of a sample; see math/loss_terms.h.
template <class T>
struct LossRule {
  const T* class_weight;  // [C] or nullptr
  int64_t class_weight_stride;
  int64_t importance;
  T max_importance;
};

template <class T>
struct LossOutputs {
  T* losses;        // [N]; or nullptr, and then
  T* loss;          // []: the sum, divided by total_weight where `mean` asks for it
  T* total_weight;  // []; zero where losses are not reduced
  bool mean;
  // Used if there are several blocks; all bits are set at the launch.
  double* partials;  // [blocks, 2]
  unsigned* ticket;  // [1]
};

template <class S>
struct LossGradients {
  using T = Accumulation<S>;

  const T* grad_loss;  // [N] or []
  int64_t grad_stride;
  const T* total_weight;     // [], what the mean divided by; or nullptr
  S* logits;                 // [N, C] or nullptr
  ColumnGradient<T> column;  // for the gradients of slack, parts and weights
};

}  // namespace ptd
