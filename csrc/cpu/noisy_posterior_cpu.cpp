#include <torch/csrc/stable/library.h>

#include "gradients.h"

namespace ptd {
namespace {

template <class T>
std::tuple<Tensor, Tensor> forward(const Sizes& sizes, const Tensor& logits,
                                   const OptionalTensor& weights, const Tensor& parts,
                                   const OptionalTensor& slack) {
  const ScalarType dtype = parts.scalar_type();
  Tensor posterior = empty({sizes.samples, sizes.classes}, dtype, logits);
  Tensor saved =
      slack ? empty({sizes.samples, sizes.classes}, dtype, logits) : empty({0}, dtype, logits);
  const BatchInputs<T> inputs(sizes, weights, parts, slack);
  const Matrix rows = matrix_of(logits);
  const Ranges ranges(sizes.samples, 2 * transition_work(inputs.batch));
  ranges.run([&](int64_t, int64_t begin, int64_t end) {
    Scratch<T> scratch(inputs.batch, /*whole=*/true);
    kernels<T>().noisy_posterior(inputs.batch, rows, begin, end, scratch.data(),
                                 static_cast<T*>(posterior.data_ptr()),
                                 static_cast<T*>(saved.data_ptr()));
  });
  return {posterior, saved};
}

std::tuple<Tensor, Tensor> noisy_posterior(Tensor logits, OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack) {
  const Sizes sizes = check_batch("noisy_posterior", logits, weights, parts, slack);
  return parts.scalar_type() == ScalarType::Double
             ? forward<double>(sizes, logits, weights, parts, slack)
             : forward<float>(sizes, logits, weights, parts, slack);
}

template <class T>
FourTensors backward(const Sizes& sizes, const Tensor& grad, const Tensor& logits,
                     const OptionalTensor& weights, const Tensor& parts,
                     const OptionalTensor& slack, const Tensor& saved, const Needs& needs) {
  const BatchInputs<T> inputs(sizes, weights, parts, slack);
  const Matrix rows = matrix_of(logits);
  const Tensor dense_grad = torch::stable::contiguous(grad);
  return backward_ranges(
      logits, parts, slack, inputs.batch, needs, 2 * transition_work(inputs.batch),
      [&](int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads) {
        kernels<T>().noisy_posterior_backward(inputs.batch, rows, begin, end, scratch,
                                              static_cast<const T*>(dense_grad.data_ptr()),
                                              static_cast<const T*>(saved.data_ptr()), grads);
      });
}

FourTensors noisy_posterior_backward(Tensor grad, Tensor logits, OptionalTensor weights,
                                     Tensor parts, OptionalTensor slack, Tensor saved_row_sum,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const Sizes sizes = check_batch("noisy_posterior", logits, weights, parts, slack);
  check_backward("noisy_posterior_backward", "grad", grad, {sizes.samples, sizes.classes},
                 parts.scalar_type());
  if (slack) {
    check_backward("noisy_posterior_backward", "saved_row_sum", saved_row_sum,
                   {sizes.samples, sizes.classes}, parts.scalar_type());
  }
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  return parts.scalar_type() == ScalarType::Double
             ? backward<double>(sizes, grad, logits, weights, parts, slack, saved_row_sum, needs)
             : backward<float>(sizes, grad, logits, weights, parts, slack, saved_row_sum, needs);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("noisy_posterior", TORCH_BOX(&noisy_posterior));
  m.impl("noisy_posterior_backward", TORCH_BOX(&noisy_posterior_backward));
}

}  // namespace ptd
