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
  if (options.importance < kForward || options.importance > kReweightAttached ||
      options.reduction < kNone || options.reduction > kSum) {
    refuse("transition_loss: importance and reduction must be 0, 1 or 2; got " +
           std::to_string(options.importance) + " and " + std::to_string(options.reduction) + ".");
  }
  const Sizes sizes = check_batch(op, logits, weights, parts, slack);
  check_labels(op, labels, logits);
  check_class_weight(op, class_weight, logits);
  return sizes;
}

inline void check_transition_loss_backward(const Sizes& sizes, const Tensor& grad_loss,
                                           const Tensor& parts, const Tensor& saved_weight,
                                           const LossOptions& options) {
  const char* op = "transition_loss_backward";
  const ScalarType dtype = parts.scalar_type();
  if (options.reduction == kNone) {
    check_backward(op, "grad_loss", grad_loss, {sizes.samples}, dtype);
  } else {
    check_backward(op, "grad_loss", grad_loss, {}, dtype);
  }
  check_backward(op, "saved_weight", saved_weight, {}, dtype);
}

}  // namespace ptd
