// transition_loss: -log (T(x)^T g)_y, or beta * cross entropy with beta = g_y / (T(x)^T g)_y, and
// its gradients. The formulas are in math/loss_terms.h and math/revision.h.
#pragma once

#include <cmath>
#include <optional>
#include <tuple>

#include "check.h"
#include "gradient_tensors.h"
#include "math/loss_terms.h"

namespace ptd {

// The values of the schema's `reduction`; ptd_ext/ops/_library.py has the same.
enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

inline const char* loss_name(int64_t importance) {
  return importance == kForward ? "forward_loss" : "reweight_loss";
}

// The options of a loss that the forward and the backward operator share.
struct LossOptions {
  int64_t importance;
  double max_importance;  // infinite where there is no bound
  int64_t reduction;
  int64_t ignore_index;
  double smoothing;
};

// The tensors of a loss.
struct LossTensors {
  const Tensor& logits;                // [N, C]
  const Tensor& labels;                // [N]
  const OptionalTensor& weights;       // [N, R]
  const Tensor& parts;                 // [R, C, C] or [C, C]
  const OptionalTensor& slack;         // [C, C]
  const OptionalTensor& class_weight;  // [C]
};

inline Sizes check_transition_loss(const LossTensors& tensors, const LossOptions& options) {
  const char* op = loss_name(options.importance);
  if (options.importance < kForward || options.importance > kReweightAttached ||
      options.reduction < kNone || options.reduction > kSum) {
    raise_error("transition_loss: importance and reduction must be 0, 1 or 2; got " +
                std::to_string(options.importance) + " and " + std::to_string(options.reduction) +
                ".");
  }
  const Sizes sizes =
      check_batch(op, tensors.logits, tensors.weights, tensors.parts, tensors.slack);
  check_labels(op, tensors.labels, tensors.logits);
  check_class_weight(op, tensors.class_weight, tensors.logits);
  return sizes;
}

// The results of the forward operator. The last two are for the backward operator: the total
// weight, which divides a mean, and a tensor [N, C] that the device saves, or an empty one.
struct LossResults {
  Tensor loss, saved_weight, saved_column;
};

// Device::check(op, logits)            raises for sizes that the device cannot take
// Device::saves(slack)                 true if saved_column is kept
// Device::forward(sizes, tensors, options, results) and
// Device::backward(sizes, grad_loss, tensors, saved_weight, saved_column, options, needs)
// run the kernels.
template <class Device>
std::tuple<Tensor, Tensor, Tensor> transition_loss(
    Tensor logits, Tensor noisy_labels, OptionalTensor weights, Tensor parts, OptionalTensor slack,
    OptionalTensor class_weight, int64_t importance, std::optional<double> max_importance,
    int64_t reduction, int64_t ignore_index, double smoothing) {
  const LossOptions options{importance, max_importance.value_or(INFINITY), reduction, ignore_index,
                            smoothing};
  const LossTensors tensors{logits, noisy_labels, weights, parts, slack, class_weight};
  const Sizes sizes = check_transition_loss(tensors, options);
  Device::check(loss_name(importance), logits);
  const ScalarType dtype = parts.scalar_type();
  const LossResults results{
      reduction != kNone ? empty({}, dtype, logits) : empty({sizes.samples}, dtype, logits),
      empty({}, dtype, logits), empty_saved(sizes, logits, dtype, Device::saves(slack))};
  Device::forward(sizes, tensors, options, results);
  return {results.loss, results.saved_weight, results.saved_column};
}

template <class Device>
FourTensors transition_loss_backward(Tensor grad_loss, Tensor logits, Tensor noisy_labels,
                                     OptionalTensor weights, Tensor parts, OptionalTensor slack,
                                     OptionalTensor class_weight, Tensor saved_weight,
                                     Tensor saved_column, int64_t importance,
                                     std::optional<double> max_importance, int64_t reduction,
                                     int64_t ignore_index, double smoothing, bool need_logits,
                                     bool need_weights, bool need_parts, bool need_slack) {
  const char* op = "transition_loss_backward";
  const LossOptions options{importance, max_importance.value_or(INFINITY), reduction, ignore_index,
                            smoothing};
  const LossTensors tensors{logits, noisy_labels, weights, parts, slack, class_weight};
  const Sizes sizes = check_transition_loss(tensors, options);
  Device::check(loss_name(importance), logits);
  const ScalarType dtype = parts.scalar_type();
  if (reduction == kNone) {
    check_backward(op, "grad_loss", grad_loss, {sizes.samples}, dtype, logits);
  } else {
    check_backward(op, "grad_loss", grad_loss, {}, dtype, logits);
  }
  check_backward(op, "saved_weight", saved_weight, {}, dtype, logits);
  if (Device::saves(slack)) {
    check_backward(op, "saved_column", saved_column, {sizes.samples, sizes.classes}, dtype, logits);
  }
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  return Device::backward(sizes, grad_loss, tensors, saved_weight, saved_column, options, needs);
}

}  // namespace ptd
