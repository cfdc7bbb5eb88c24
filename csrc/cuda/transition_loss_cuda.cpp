#include "../transition_loss.h"

#include "label_inputs.h"
#include "transition_loss.h"

namespace ptd {
namespace {

template <class T>
LossRule<T> rule_of(const OptionalTensor& class_weight, const LossOptions& options) {
  LossRule<T> rule{};
  if (class_weight) {
    rule.class_weight = pointer<T>(*class_weight);
    rule.class_weight_stride = class_weight->stride(0);
  }
  rule.importance = options.importance;
  rule.max_importance = T(options.max_importance);
  return rule;
}

// `support` is for CPU kernels.
std::tuple<Tensor, Tensor, Tensor> transition_loss(Tensor logits, Tensor noisy_labels,
                                                   OptionalTensor weights, Tensor parts,
                                                   OptionalTensor, OptionalTensor slack,
                                                   OptionalTensor class_weight, int64_t importance,
                                                   double max_importance, int64_t reduction,
                                                   int64_t ignore_index, double smoothing) {
  const LossOptions options{importance, max_importance, reduction, ignore_index, smoothing};
  const Sizes sizes =
      check_transition_loss(logits, noisy_labels, weights, parts, slack, class_weight, options);
  const char* op = loss_name(importance);
  check_classes(op, logits);

  const ScalarType dtype = parts.scalar_type();
  const bool reduced = reduction != kNone;
  const Tensor loss = reduced ? empty({}, dtype, logits) : empty({sizes.samples}, dtype, logits);
  const Tensor saved_weight = empty({}, dtype, logits);
  const Tensor saved = empty_saved(sizes, logits, parts, slack);
  if (sizes.samples == 0 && !reduced) return {loss, saved_weight, saved};  // nothing to write
  const OnDevice device(logits);
  with_storage(logits, [&]<class S>() {
    using T = Accumulation<S>;
    const LabelInputs<S> inputs(sizes, logits, noisy_labels, weights, parts, slack, saved,
                                ignore_index, smoothing);
    const int64_t bytes = reduced ? transition_loss_workspace(inputs.batch) : 0;
    const Tensor workspace = empty({bytes / int64_t(sizeof(double))}, ScalarType::Double, logits);
    const RowSumTensors<T> row_sums(transition_loss_scratch(inputs.batch), parts);
    LossOutputs<T> out{};
    (reduced ? out.loss : out.losses) = pointer<T>(loss);
    out.total_weight = pointer<T>(saved_weight);
    out.mean = reduction == kMean;
    check_launch(
        op, launch_transition_loss(inputs.batch, rule_of<T>(class_weight, options), out,
                                   pointer<void>(workspace), row_sums.scratch, device.stream()));
  });
  return {loss, saved_weight, saved};
}

FourTensors transition_loss_backward(Tensor grad_loss, Tensor logits, Tensor noisy_labels,
                                     OptionalTensor weights, Tensor parts, OptionalTensor,
                                     OptionalTensor slack, OptionalTensor class_weight,
                                     Tensor saved_weight, Tensor saved_column, int64_t importance,
                                     double max_importance, int64_t reduction, int64_t ignore_index,
                                     double smoothing, bool need_logits, bool need_weights,
                                     bool need_parts, bool need_slack) {
  const LossOptions options{importance, max_importance, reduction, ignore_index, smoothing};
  const Sizes sizes =
      check_transition_loss(logits, noisy_labels, weights, parts, slack, class_weight, options);
  const char* op = loss_name(importance);
  check_classes(op, logits);

  check_transition_loss_backward(sizes, grad_loss, parts, saved_weight, options);
  if (slack) {
    check_backward("transition_loss_backward", "saved_column", saved_column,
                   {sizes.samples, sizes.classes}, parts.scalar_type());
  }
  const Tensor row_sums = torch::stable::contiguous(saved_column);
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  const OnDevice device(logits);
  return with_storage(logits, [&]<class S>() {
    using T = Accumulation<S>;
    const LabelInputs<S> inputs(sizes, logits, noisy_labels, weights, parts, slack, row_sums,
                                ignore_index, smoothing);
    LossGradients<S> grads{};
    grads.grad_loss = pointer<T>(grad_loss);
    // A gradient that was expanded from one number has stride zero.
    grads.grad_stride = reduction == kNone ? grad_loss.stride(0) : 0;
    if (reduction == kMean) grads.total_weight = pointer<T>(saved_weight);
    return backward_through_column(
        op, sizes, logits, parts, slack, inputs.batch, needs, device.stream(),
        [&](S* grad_logits, const ColumnGradient<T>& column) {
          grads.logits = grad_logits;
          grads.column = column;
          return launch_transition_loss_backward(inputs.batch, rule_of<T>(class_weight, options),
                                                 grads, device.stream());
        });
  });
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("transition_loss", TORCH_BOX(&transition_loss));
  m.impl("transition_loss_backward", TORCH_BOX(&transition_loss_backward));
}

}  // namespace ptd
