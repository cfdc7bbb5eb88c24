// clean_posterior: P(Y | x, noisy label) = softmax(z + log u), where u is the label's column of
// T(x), and its gradients.
#pragma once

#include <tuple>

#include "check.h"
#include "gradient_tensors.h"
#include "math/loss_terms.h"

namespace ptd {

// The arguments of the forward operator.
struct CleanPosteriorTensors {
  const Tensor& logits;           // [N, C]
  const Tensor& labels;           // [N]
  const OptionalTensor& weights;  // [N, R]
  const Tensor& parts;            // [R, C, C] or [C, C]
  const OptionalTensor& slack;    // [C, C]
  int64_t ignore_index;
  double smoothing;
};

inline Sizes check_clean_posterior(const CleanPosteriorTensors& tensors) {
  const char* op = "clean_posterior";
  const Sizes sizes =
      check_batch(op, tensors.logits, tensors.weights, tensors.parts, tensors.slack);
  check_labels(op, tensors.labels, tensors.logits);
  return sizes;
}

// Device::check(op, logits)  raises for sizes that the device cannot take
// Device::saves(slack)       true if saved_column, [N, C], is kept for the backward operator
// Device::forward(sizes, tensors, posterior, saved_column) and
// Device::backward(sizes, grad, tensors, saved_column, needs) run the kernels; grad is contiguous.
template <class Device>
std::tuple<Tensor, Tensor> clean_posterior(Tensor logits, Tensor noisy_labels,
                                           OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack, int64_t ignore_index,
                                           double smoothing) {
  const CleanPosteriorTensors tensors{logits, noisy_labels, weights,  parts,
                                      slack,  ignore_index, smoothing};
  const Sizes sizes = check_clean_posterior(tensors);
  Device::check("clean_posterior", logits);
  const ScalarType dtype = parts.scalar_type();
  const Tensor posterior = empty({sizes.samples, sizes.classes}, dtype, logits);
  const Tensor saved = empty_saved(sizes, logits, dtype, Device::saves(slack));
  if (sizes.samples > 0) Device::forward(sizes, tensors, posterior, saved);
  return {posterior, saved};
}

template <class Device>
FourTensors clean_posterior_backward(Tensor grad, Tensor logits, Tensor noisy_labels,
                                     OptionalTensor weights, Tensor parts, OptionalTensor slack,
                                     Tensor saved_column, int64_t ignore_index, double smoothing,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const char* op = "clean_posterior_backward";
  const CleanPosteriorTensors tensors{logits, noisy_labels, weights,  parts,
                                      slack,  ignore_index, smoothing};
  const Sizes sizes = check_clean_posterior(tensors);
  Device::check("clean_posterior", logits);
  const ScalarType dtype = parts.scalar_type();
  check_backward(op, "grad", grad, {sizes.samples, sizes.classes}, dtype, logits);
  if (Device::saves(slack)) {
    check_backward(op, "saved_column", saved_column, {sizes.samples, sizes.classes}, dtype, logits);
  }
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  return Device::backward(sizes, torch::stable::contiguous(grad), tensors, saved_column, needs);
}

}  // namespace ptd
