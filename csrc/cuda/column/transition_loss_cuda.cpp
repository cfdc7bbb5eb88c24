#include "transition_loss.h"

#include "column/column_glue.h"
#include "gradients/backward.h"

namespace ptd {
namespace {

template <class T>
LossRule<T> rule_of(const OptionalTensor& class_weight, const LossOptions& options) {
  LossRule<T> rule{};
  if (class_weight) {
    rule.class_weight = pointer<const T>(*class_weight);
    rule.class_weight_stride = class_weight->stride(0);
  }
  rule.importance = options.importance;
  rule.max_importance = T(options.max_importance);
  return rule;
}

struct TransitionLossCuda : ColumnDevice {
  static void forward(const Sizes& sizes, const LossTensors& tensors, const LossOptions& options,
                      const LossResults& results) {
    const char* op = loss_name(options.importance);
    const bool reduced = options.reduction != kNone;
    if (sizes.samples == 0 && !reduced) {
      Tensor weight = results.saved_weight;
      torch::stable::zero_(weight);
      return;
    }
    const OnDevice device(tensors.logits);
    with_storage(tensors.logits, [&]<class S>() {
      using T = Accumulation<S>;
      ColumnInputs<S> inputs(sizes, tensors, results.saved_column, options.ignore_index,
                             options.smoothing);
      if (tensors.slack) {
        // With few classes the kernel of the loss computes them itself.
        if (inputs.plan.mapping == ColumnPlan::kThreadPerSample && sizes.samples > 0) {
          inputs.batch.row_sums_out = pointer<T>(results.saved_column);
        } else {
          write_row_sums(op, inputs.transition.view, results.saved_column, device.stream());
        }
      }
      LossOutputs<T> out{};
      Tensor workspace;
      if (reduced) {  // two sums of each block, and the ticket
        const int64_t blocks = inputs.plan.blocks();
        workspace = empty({2 * blocks + 1}, ScalarType::Double, tensors.logits);
        out.partials = pointer<double>(workspace);
        out.ticket = reinterpret_cast<unsigned*>(out.partials + 2 * blocks);
      }
      (reduced ? out.loss : out.losses) = pointer<T>(results.loss);
      out.total_weight = pointer<T>(results.saved_weight);
      out.mean = options.reduction == kMean;
      const LossRule<T> rule = rule_of<T>(tensors.class_weight, options);
      check_launch(op,
                   launch_transition_loss(inputs.plan, inputs.batch, rule, out, device.stream()));
    });
  }

  static FourTensors backward(const Sizes& sizes, const Tensor& grad_loss,
                              const LossTensors& tensors, const Tensor& saved_weight,
                              const Tensor& saved_column, const LossOptions& options,
                              const Needs& needs) {
    const OnDevice device(tensors.logits);
    const Tensor row_sums = torch::stable::contiguous(saved_column);
    return with_storage(tensors.logits, [&]<class S>() {
      using T = Accumulation<S>;
      const ColumnInputs<S> inputs(sizes, tensors, row_sums, options.ignore_index,
                                   options.smoothing);
      const LossRule<T> rule = rule_of<T>(tensors.class_weight, options);
      LossGradients<S> grads{};
      grads.grad_loss = pointer<const T>(grad_loss);
      // A gradient that was expanded from one number has stride zero.
      grads.grad_stride = options.reduction == kNone ? grad_loss.stride(0) : 0;
      if (options.reduction == kMean) grads.total_weight = pointer<const T>(saved_weight);
      const auto launch = [&](S* grad_logits, const MatrixGradient<T>& matrix) {
        grads.logits = grad_logits;
        grads.matrix = matrix;
        return launch_transition_loss_backward(inputs.plan, inputs.batch, rule, grads,
                                               device.stream());
      };
      return backward_through_matrix<S>(loss_name(options.importance), sizes, tensors.logits,
                                        tensors.parts, tensors.slack, inputs.transition.view,
                                        inputs.batch.labels, {}, needs, device.stream(), launch);
    });
  }
};

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("transition_loss", TORCH_BOX(&transition_loss<TransitionLossCuda>));
  m.impl("transition_loss_backward", TORCH_BOX(&transition_loss_backward<TransitionLossCuda>));
}

}  // namespace ptd
