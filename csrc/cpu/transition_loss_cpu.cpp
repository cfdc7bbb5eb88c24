#include <torch/csrc/stable/library.h>

#include "../transition_loss.h"
#include "decision.h"
#include "gradients.h"
#include "loss_args.h"

namespace ptd {
namespace {

template <class T>
std::tuple<Tensor, Tensor, Tensor> forward(const Sizes& sizes, const Tensor& logits,
                                           const Tensor& labels, const OptionalTensor& weights,
                                           const Tensor& parts, const OptionalTensor& support,
                                           const OptionalTensor& slack,
                                           const OptionalTensor& class_weight,
                                           const LossOptions& options) {
  const ScalarType dtype = parts.scalar_type();
  const bool reduced = options.reduction != kNone;
  Tensor loss = reduced ? empty({}, dtype, logits) : empty({sizes.samples}, dtype, logits);
  Tensor saved_weight = empty({}, dtype, logits);
  Tensor saved = empty({sizes.samples, sizes.classes}, dtype, logits);
  T* losses = static_cast<T*>(loss.data_ptr());

  BatchInputs<T> inputs(sizes, weights, parts, slack);
  const Decision<T> decision(inputs.batch, support, /*for_row_sums=*/true);
  const OptionalTensor dense_weight = contiguous(class_weight);
  const LossArgs<T> args = loss_args(inputs.batch, logits, labels, dense_weight, options);
  const Ranges ranges(sizes.samples, loss_work(inputs.batch));
  std::vector<LossPartial> partials(ranges.count());
  ranges.run([&](int64_t range, int64_t begin, int64_t end) {
    Scratch<T> scratch(inputs.batch, /*whole=*/false);
    kernels<T>().loss_forward(args, begin, end, scratch.data(), reduced ? nullptr : losses,
                              static_cast<T*>(saved.data_ptr()), &partials[range]);
  });

  double sum = 0, weight = 0;
  for (const LossPartial& partial : partials) {
    if (partial.bad_sample >= 0) {
      refuse_label(loss_name(options.importance), labels, partial.bad_sample, sizes.classes);
    }
    sum += partial.loss;
    weight += partial.weight;
  }
  // As in cross_entropy, the mean of nothing is 0 / 0.
  if (reduced) *losses = T(options.reduction == kMean ? sum / weight : sum);
  *static_cast<T*>(saved_weight.data_ptr()) = T(weight);
  return {loss, saved_weight, saved};
}

std::tuple<Tensor, Tensor, Tensor> transition_loss(Tensor logits, Tensor noisy_labels,
                                                   OptionalTensor weights, Tensor parts,
                                                   OptionalTensor support, OptionalTensor slack,
                                                   OptionalTensor class_weight, int64_t importance,
                                                   double max_importance, int64_t reduction,
                                                   int64_t ignore_index, double smoothing) {
  const LossOptions options{importance, max_importance, reduction, ignore_index, smoothing};
  const Sizes sizes =
      check_transition_loss(logits, noisy_labels, weights, parts, slack, class_weight, options);
  return parts.scalar_type() == ScalarType::Double
             ? forward<double>(sizes, logits, noisy_labels, weights, parts, support, slack,
                               class_weight, options)
             : forward<float>(sizes, logits, noisy_labels, weights, parts, support, slack,
                              class_weight, options);
}

template <class T>
FourTensors backward(const Sizes& sizes, const Tensor& grad_loss, const Tensor& logits,
                     const Tensor& labels, const OptionalTensor& weights, const Tensor& parts,
                     const OptionalTensor& support, const OptionalTensor& slack,
                     const OptionalTensor& class_weight, const Tensor& saved_weight,
                     const Tensor& saved, const LossOptions& options, const Needs& needs) {
  BatchInputs<T> inputs(sizes, weights, parts, slack);
  // Slack is what revision trains at every step; parts and weights want every entry's own gradient.
  std::optional<Decision<T>> decision;
  if (needs.slack && !needs.weights && !needs.parts) {
    decision.emplace(inputs.batch, support, /*for_row_sums=*/false);
  }
  const OptionalTensor dense_weight = contiguous(class_weight);
  const LossArgs<T> args = loss_args(inputs.batch, logits, labels, dense_weight, options);
  const double work = needs.transition() ? loss_work(inputs.batch) : column_work(inputs.batch);
  const T scale =
      options.reduction == kMean ? T(1) / *static_cast<const T*>(saved_weight.data_ptr()) : T(1);
  // A gradient that was expanded from one number has stride zero.
  const int64_t grad_stride = options.reduction == kNone ? grad_loss.stride(0) : 0;
  return backward_ranges(logits, parts, slack, inputs.batch, needs, work,
                         [&](int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads) {
                           kernels<T>().loss_backward(
                               args, begin, end, scratch,
                               static_cast<const T*>(grad_loss.data_ptr()), grad_stride, scale,
                               static_cast<const T*>(saved.data_ptr()), grads);
                         });
}

FourTensors transition_loss_backward(Tensor grad_loss, Tensor logits, Tensor noisy_labels,
                                     OptionalTensor weights, Tensor parts, OptionalTensor support,
                                     OptionalTensor slack, OptionalTensor class_weight,
                                     Tensor saved_weight, Tensor saved_column, int64_t importance,
                                     double max_importance, int64_t reduction, int64_t ignore_index,
                                     double smoothing, bool need_logits, bool need_weights,
                                     bool need_parts, bool need_slack) {
  const LossOptions options{importance, max_importance, reduction, ignore_index, smoothing};
  const Sizes sizes =
      check_transition_loss(logits, noisy_labels, weights, parts, slack, class_weight, options);
  check_transition_loss_backward(sizes, grad_loss, parts, saved_weight, options);
  check_backward("transition_loss_backward", "saved_column", saved_column,
                 {sizes.samples, sizes.classes}, parts.scalar_type());
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  return parts.scalar_type() == ScalarType::Double
             ? backward<double>(sizes, grad_loss, logits, noisy_labels, weights, parts, support,
                                slack, class_weight, saved_weight, saved_column, options, needs)
             : backward<float>(sizes, grad_loss, logits, noisy_labels, weights, parts, support,
                               slack, class_weight, saved_weight, saved_column, options, needs);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("transition_loss", TORCH_BOX(&transition_loss));
  m.impl("transition_loss_backward", TORCH_BOX(&transition_loss_backward));
}

}  // namespace ptd
