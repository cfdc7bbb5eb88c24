#include "../check.h"
#include "../layout.h"
#include "noisy_posterior.h"
#include "on_device.h"

namespace ptd {
namespace {

constexpr const char* kOp = "noisy_posterior";

using FourTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

struct Needs {
  bool logits, weights, parts, slack;
};

Sizes check(const Tensor& logits, const OptionalTensor& weights, const Tensor& parts,
            const OptionalTensor& slack) {
  const Sizes sizes = check_batch(kOp, logits, weights, parts, slack);
  if (sizes.parts > kMostPosteriorParts) {
    refuse("noisy_posterior: a GPU takes at most " + std::to_string(kMostPosteriorParts) +
           " parts; got " + std::to_string(sizes.parts) + ".");
  }
  return sizes;
}

// T(x) of a batch with the memory its pointers refer to.
template <class T>
struct BatchInputs {
  OptionalTensor weights, slack;
  Tensor columns;
  TransitionBatch<T> batch;

  BatchInputs(const Sizes& sizes, const OptionalTensor& given_weights, const Tensor& parts,
              const OptionalTensor& given_slack)
      : columns(parts_by_column(parts)) {
    if (given_weights) weights = torch::stable::contiguous(*given_weights);
    if (given_slack) slack = by_column(*given_slack);
    batch = {weights ? static_cast<const T*>(weights->data_ptr()) : nullptr,
             static_cast<const T*>(columns.data_ptr()),
             slack ? static_cast<const T*>(slack->data_ptr()) : nullptr,
             sizes.samples,
             int(sizes.classes),
             int(sizes.parts)};
  }
};

// run.operator()<Z, T>() with the type of the logits and the one it is accumulated in.
template <class Run>
auto with_types(const Tensor& logits, const Run& run) {
  switch (logits.scalar_type()) {
    case ScalarType::Double:
      return run.template operator()<double, double>();
    case ScalarType::Half:
      return run.template operator()<Half, float>();
    case ScalarType::BFloat16:
      return run.template operator()<BFloat16, float>();
    default:
      return run.template operator()<float, float>();
  }
}

std::tuple<Tensor, Tensor> noisy_posterior(Tensor logits, OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack) {
  const Sizes sizes = check(logits, weights, parts, slack);
  const ScalarType dtype = parts.scalar_type();
  Tensor posterior = empty({sizes.samples, sizes.classes}, dtype, logits);
  Tensor row_sums =
      slack ? empty({sizes.samples, sizes.classes}, dtype, logits) : empty({0}, dtype, logits);
  if (sizes.samples == 0) return {posterior, row_sums};

  const OnDevice device(logits);
  const Tensor rows = torch::stable::contiguous(logits);
  const Tensor scratch =
      empty({noisy_posterior_scratch(sizes.samples, sizes.classes)}, dtype, logits);
  with_types(logits, [&]<class Z, class T>() {
    const BatchInputs<T> inputs(sizes, weights, parts, slack);
    check_launch(
        kOp, launch_noisy_posterior<Z, T>(inputs.batch, static_cast<const Z*>(rows.data_ptr()),
                                          static_cast<T*>(posterior.data_ptr()),
                                          static_cast<T*>(row_sums.data_ptr()),
                                          static_cast<T*>(scratch.data_ptr()), device.stream()));
  });
  return {posterior, row_sums};
}

// Gradients in the layouts of their tensors; empty where one is not wanted.
FourTensors empty_gradients(const Sizes& sizes, const Tensor& logits, const Tensor& parts,
                            const OptionalTensor& slack, const Needs& needs) {
  const int64_t n = sizes.samples, c = sizes.classes, r = sizes.parts;
  const ScalarType dtype = parts.scalar_type();
  const auto none = [&] { return empty({0}, dtype, logits); };
  return {needs.logits ? empty({n, c}, logits.scalar_type(), logits) : none(),
          needs.weights ? empty({n, r}, dtype, logits) : none(),
          !needs.parts       ? none()
          : parts.dim() == 3 ? empty_strided({r, c, c}, {c, 1, r * c}, dtype, logits)
                             : empty_strided({c, c}, {1, c}, dtype, logits),
          !needs.slack               ? none()
          : is_column_layout(*slack) ? empty_strided({c, c}, {1, c}, dtype, logits)
                                     : empty({c, c}, dtype, logits)};
}

FourTensors noisy_posterior_backward(Tensor grad, Tensor logits, OptionalTensor weights,
                                     Tensor parts, OptionalTensor slack, Tensor saved_row_sum,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const Sizes sizes = check(logits, weights, parts, slack);
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  const ScalarType dtype = parts.scalar_type();
  FourTensors result = empty_gradients(sizes, logits, parts, slack, needs);
  if (sizes.samples == 0 && !needs.parts && !needs.slack) return result;

  const auto& [grad_logits, grad_weights, grad_parts, grad_slack] = result;
  const auto pointer = [](bool needed, const Tensor& t) { return needed ? t.data_ptr() : nullptr; };
  void* const to_logits = pointer(needs.logits, grad_logits);
  void* const to_weights = pointer(needs.weights, grad_weights);
  void* const to_parts = pointer(needs.parts, grad_parts);
  void* const to_slack = pointer(needs.slack, grad_slack);
  const int64_t slack_row_stride = needs.slack ? grad_slack.stride(0) : 0;
  const int64_t slack_stride = needs.slack ? grad_slack.stride(1) : 0;

  const OnDevice device(logits);
  const Tensor rows = torch::stable::contiguous(logits), grads = torch::stable::contiguous(grad);
  with_types(logits, [&]<class Z, class T>() {
    const BatchInputs<T> inputs(sizes, weights, parts, slack);
    const Tensor scratch = empty({noisy_posterior_backward_scratch(inputs.batch)}, dtype, logits);
    const PosteriorGradients<Z, T> to{static_cast<Z*>(to_logits), static_cast<T*>(to_weights),
                                      static_cast<T*>(to_parts),  static_cast<T*>(to_slack),
                                      slack_row_stride,           slack_stride};
    check_launch(kOp, launch_noisy_posterior_backward<Z, T>(
                          inputs.batch, static_cast<const Z*>(rows.data_ptr()),
                          static_cast<const T*>(grads.data_ptr()),
                          static_cast<const T*>(saved_row_sum.data_ptr()), to,
                          static_cast<T*>(scratch.data_ptr()), device.stream()));
  });
  return result;
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("noisy_posterior", TORCH_BOX(&noisy_posterior));
  m.impl("noisy_posterior_backward", TORCH_BOX(&noisy_posterior_backward));
}

}  // namespace ptd
