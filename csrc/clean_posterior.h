// clean_posterior: P(Y | x, noisy label) = softmax(z + log u), u the column of the label in T(x).
#pragma once

#include "check.h"
#include "math/loss_terms.h"

namespace ptd {

inline Sizes check_clean_posterior(const Tensor& logits, const Tensor& labels,
                                   const OptionalTensor& weights, const Tensor& parts,
                                   const OptionalTensor& slack) {
  const Sizes sizes = check_batch("clean_posterior", logits, weights, parts, slack);
  check_labels("clean_posterior", labels, logits);
  return sizes;
}

}  // namespace ptd
