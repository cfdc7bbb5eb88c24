#include "clean_posterior.h"

#include "column/column_glue.h"
#include "gradients/backward.h"

namespace ptd {
namespace {

constexpr const char* kOp = "clean_posterior";

std::tuple<Tensor, Tensor> clean_posterior(Tensor logits, Tensor noisy_labels,
                                           OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack, int64_t ignore_index,
                                           double smoothing) {
  const Sizes sizes = check_clean_posterior(logits, noisy_labels, weights, parts, slack);
  check_classes(kOp, logits);
  const Tensor posterior = empty({sizes.samples, sizes.classes}, parts.scalar_type(), logits);
  const Tensor saved = empty_saved(sizes, parts, slack);
  if (sizes.samples == 0) return {posterior, saved};

  const OnDevice device(logits);
  with_storage(logits, [&]<class S>() {
    using T = Accumulation<S>;
    const ColumnInputs<S> inputs(sizes, logits, noisy_labels, weights, parts, slack, saved,
                                 ignore_index, smoothing);
    if (slack) write_row_sums(kOp, inputs.transition.view, saved, device.stream());
    check_launch(kOp, launch_clean_posterior(inputs.plan, inputs.batch, pointer<T>(posterior),
                                             device.stream()));
  });
  return {posterior, saved};
}

FourTensors clean_posterior_backward(Tensor grad, Tensor logits, Tensor noisy_labels,
                                     OptionalTensor weights, Tensor parts, OptionalTensor slack,
                                     Tensor saved_column, int64_t ignore_index, double smoothing,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const Sizes sizes = check_clean_posterior(logits, noisy_labels, weights, parts, slack);
  check_classes(kOp, logits);
  const auto check = [&](const char* name, const Tensor& tensor) {
    check_backward("clean_posterior_backward", name, tensor, {sizes.samples, sizes.classes},
                   parts.scalar_type());
  };
  check("grad", grad);
  if (slack) check("saved_column", saved_column);
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  const OnDevice device(logits);
  const Tensor dense_grad = torch::stable::contiguous(grad);
  const Tensor row_sums = torch::stable::contiguous(saved_column);
  return with_storage(logits, [&]<class S>() {
    using T = Accumulation<S>;
    const ColumnInputs<S> inputs(sizes, logits, noisy_labels, weights, parts, slack, row_sums,
                                 ignore_index, smoothing);
    return backward_through_matrix<S>(
        kOp, sizes, logits, parts, slack, inputs.transition.view, inputs.batch.labels, {}, needs,
        device.stream(), [&](S* grad_logits, const MatrixGradient<T>& matrix) {
          const PosteriorGradients<S> grads{pointer<const T>(dense_grad), grad_logits, matrix};
          return launch_clean_posterior_backward(inputs.plan, inputs.batch, grads,
                                                 device.stream());
        });
  });
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("clean_posterior", TORCH_BOX(&clean_posterior));
  m.impl("clean_posterior_backward", TORCH_BOX(&clean_posterior_backward));
}

}  // namespace ptd
