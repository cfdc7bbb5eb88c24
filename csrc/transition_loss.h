// transition_loss: -log (T(x)^T g)_y, or beta * cross entropy with beta = g_y / (T(x)^T g)_y, and
// its gradients. The formulas are in math/loss_terms.h and math/revision.h.
#pragma once

#include <tuple>

#include "check.h"
#include "math/loss_terms.h"

namespace ptd {

// As in the schema; the same numbers that ptd_ext/_register.py passes.
enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

inline const char* loss_name(int64_t importance) {
  return importance == kForward ? "forward_loss" : "reweight_loss";
}

// What forward and backward are both told about a loss.
struct LossOptions {
  int64_t importance;
  double max_importance;
  int64_t reduction;
  int64_t ignore_index;
  double smoothing;
};

inline Sizes check_transition_loss(const Tensor& logits, const Tensor& labels,
                                   const OptionalTensor& weights, const Tensor& parts,
                                   const OptionalTensor& slack, const OptionalTensor& class_weight,
                                   const LossOptions& options) {
  const char* op = loss_name(options.importance);
  const Sizes sizes = check_batch(op, logits, weights, parts, slack);
  check_labels(op, labels, logits);
  check_class_weight(op, class_weight, logits);
  return sizes;
}

}  // namespace ptd
