// The arguments of the clean posterior kernels beside the batch itself.
#pragma once

#include "label_batch.h"

namespace ptd {

template <class S>
struct CleanPosteriorGradients {
  using T = Accumulation<S>;

  const T* grad;             // [N, C], with respect to the posterior
  S* logits;                 // [N, C] or nullptr
  ColumnGradient<T> column;  // for the gradients of slack, parts and weights
};

}  // namespace ptd
