#include "../clean_posterior.h"

#include <torch/csrc/stable/library.h>

#include "gradients.h"
#include "loss_args.h"

namespace ptd {
namespace {

LossOptions options_of(int64_t ignore_index, double smoothing) {
  return {kForward, 0.0, kNone, ignore_index, smoothing};
}

template <class T>
std::tuple<Tensor, Tensor> forward(const Sizes& sizes, const Tensor& logits, const Tensor& labels,
                                   const OptionalTensor& weights, const Tensor& parts,
                                   const OptionalTensor& slack, const LossOptions& options) {
  Tensor posterior = empty({sizes.samples, sizes.classes}, parts.scalar_type(), logits);
  Tensor saved = empty({sizes.samples, sizes.classes}, parts.scalar_type(), logits);
  const BatchInputs<T> inputs(sizes, weights, parts, slack);
  const LossArgs<T> args = loss_args(inputs.batch, logits, labels, std::nullopt, options);
  const Ranges ranges(sizes.samples, loss_work(inputs.batch));
  std::vector<LossPartial> partials(ranges.count());
  ranges.run([&](int64_t range, int64_t begin, int64_t end) {
    Scratch<T> scratch(inputs.batch, /*whole=*/false);
    kernels<T>().clean_posterior(args, begin, end, scratch.data(),
                                 static_cast<T*>(posterior.data_ptr()),
                                 static_cast<T*>(saved.data_ptr()), &partials[range]);
  });
  for (const LossPartial& partial : partials) {
    if (partial.bad_sample < 0) continue;
    refuse_label("clean_posterior", labels, partial.bad_sample, sizes.classes);
  }
  return {posterior, saved};
}

std::tuple<Tensor, Tensor> clean_posterior(Tensor logits, Tensor noisy_labels,
                                           OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack, int64_t ignore_index,
                                           double smoothing) {
  const Sizes sizes = check_clean_posterior(logits, noisy_labels, weights, parts, slack);
  const LossOptions options = options_of(ignore_index, smoothing);
  return parts.scalar_type() == ScalarType::Double
             ? forward<double>(sizes, logits, noisy_labels, weights, parts, slack, options)
             : forward<float>(sizes, logits, noisy_labels, weights, parts, slack, options);
}

template <class T>
FourTensors backward(const Sizes& sizes, const Tensor& grad, const Tensor& logits,
                     const Tensor& labels, const OptionalTensor& weights, const Tensor& parts,
                     const OptionalTensor& slack, const Tensor& saved, const LossOptions& options,
                     const Needs& needs) {
  const BatchInputs<T> inputs(sizes, weights, parts, slack);
  const LossArgs<T> args = loss_args(inputs.batch, logits, labels, std::nullopt, options);
  const Tensor dense_grad = torch::stable::contiguous(grad);
  return backward_ranges(logits, parts, slack, inputs.batch, needs, loss_work(inputs.batch),
                         [&](int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads) {
                           kernels<T>().clean_posterior_backward(
                               args, begin, end, scratch,
                               static_cast<const T*>(dense_grad.data_ptr()),
                               static_cast<const T*>(saved.data_ptr()), grads);
                         });
}

FourTensors clean_posterior_backward(Tensor grad, Tensor logits, Tensor noisy_labels,
                                     OptionalTensor weights, Tensor parts, OptionalTensor slack,
                                     Tensor saved_column, int64_t ignore_index, double smoothing,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const Sizes sizes = check_clean_posterior(logits, noisy_labels, weights, parts, slack);
  const LossOptions options = options_of(ignore_index, smoothing);
  for (const auto& [name, tensor] : {std::pair{"grad", grad}, {"saved_column", saved_column}}) {
    check_backward("clean_posterior_backward", name, tensor, {sizes.samples, sizes.classes},
                   parts.scalar_type());
  }
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  return parts.scalar_type() == ScalarType::Double
             ? backward<double>(sizes, grad, logits, noisy_labels, weights, parts, slack,
                                saved_column, options, needs)
             : backward<float>(sizes, grad, logits, noisy_labels, weights, parts, slack,
                               saved_column, options, needs);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("clean_posterior", TORCH_BOX(&clean_posterior));
  m.impl("clean_posterior_backward", TORCH_BOX(&clean_posterior_backward));
}

}  // namespace ptd
