#include "../gradient_tensors.h"
#include "../layout.h"
#include "noisy_posterior.h"
#include "on_device.h"

namespace ptd {
namespace {

constexpr const char* kOp = "noisy_posterior";

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
  OptionalTensor weights, columns, slack, rows, slack_rows;
  TransitionBatch<T> batch;

  // `transition`: whether gradients of more than the logits are wanted.
  BatchInputs(const Sizes& sizes, const OptionalTensor& given_weights, const Tensor& parts,
              const OptionalTensor& given_slack, bool forward, bool transition = false)
      : batch{} {
    if (given_weights) weights = torch::stable::contiguous(*given_weights);
    batch.weights = data(weights);
    batch.slack = data(given_slack);
    batch.samples = sizes.samples;
    batch.classes = int(sizes.classes);
    batch.parts = int(sizes.parts);
    const PartsLayout layout = noisy_posterior_layout(batch, forward, transition);
    if (layout.columns) {
      columns = parts_by_column(parts);
      if (given_slack) slack = by_column(*given_slack);
    }
    if (layout.rows) {
      rows = torch::stable::contiguous(parts);
      if (given_slack) slack_rows = torch::stable::contiguous(*given_slack);
    }
    batch.columns = data(columns);
    batch.slack = data(slack);
    batch.rows = data(rows);
    batch.slack_rows = data(slack_rows);
  }

  static const T* data(const OptionalTensor& tensor) {
    return tensor ? pointer<T>(*tensor) : nullptr;
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
  with_types(logits, [&]<class Z, class T>() {
    const BatchInputs<T> inputs(sizes, weights, parts, slack, true);
    const Tensor scratch = empty({noisy_posterior_scratch(inputs.batch)}, dtype, logits);
    check_launch(kOp, launch_noisy_posterior<Z, T>(inputs.batch, pointer<Z>(rows),
                                                   pointer<T>(posterior), pointer<T>(row_sums),
                                                   pointer<T>(scratch), device.stream()));
  });
  return {posterior, row_sums};
}

FourTensors noisy_posterior_backward(Tensor grad, Tensor logits, OptionalTensor weights,
                                     Tensor parts, OptionalTensor slack, Tensor saved_row_sum,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const Sizes sizes = check(logits, weights, parts, slack);
  const auto belongs = [&](const char* name, const Tensor& tensor) {
    check_backward("noisy_posterior_backward", name, tensor, {sizes.samples, sizes.classes},
                   parts.scalar_type());
  };
  belongs("grad", grad);
  if (slack) belongs("saved_row_sum", saved_row_sum);
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  const ScalarType dtype = parts.scalar_type();
  const GradientTensors result(sizes, logits, parts, slack, needs);
  if (sizes.samples == 0 && !needs.parts && !needs.slack) return result.tuple();

  const int64_t slack_row_stride = needs.slack ? result.slack.stride(0) : 0;
  const int64_t slack_stride = needs.slack ? result.slack.stride(1) : 0;

  const OnDevice device(logits);
  const Tensor rows = torch::stable::contiguous(logits), grads = torch::stable::contiguous(grad);
  const Tensor row_sums = torch::stable::contiguous(saved_row_sum);
  with_types(logits, [&]<class Z, class T>() {
    const bool transition = needs.weights || needs.parts || needs.slack;
    const BatchInputs<T> inputs(sizes, weights, parts, slack, false, transition);
    const Tensor scratch = empty({noisy_posterior_backward_scratch(inputs.batch)}, dtype, logits);
    const PosteriorGradients<Z, T> to{needs.logits ? pointer<Z>(result.logits) : nullptr,
                                      needs.weights ? pointer<T>(result.weights) : nullptr,
                                      needs.parts ? pointer<T>(result.parts) : nullptr,
                                      needs.slack ? pointer<T>(result.slack) : nullptr,
                                      slack_row_stride,
                                      slack_stride};
    check_launch(kOp, launch_noisy_posterior_backward<Z, T>(
                          inputs.batch, pointer<Z>(rows), pointer<T>(grads), pointer<T>(row_sums),
                          to, pointer<T>(scratch), device.stream()));
  });
  return result.tuple();
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("noisy_posterior", TORCH_BOX(&noisy_posterior));
  m.impl("noisy_posterior_backward", TORCH_BOX(&noisy_posterior_backward));
}

}  // namespace ptd
