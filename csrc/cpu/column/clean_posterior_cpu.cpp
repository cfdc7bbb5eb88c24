#include "clean_posterior.h"

#include <torch/csrc/stable/library.h>

#include "column/loss_args.h"
#include "gradients/gradients.h"

namespace ptd {
namespace {

LossOptions options_of(const CleanPosteriorTensors& tensors) {
  return {kForward, 0.0, kNone, tensors.ignore_index, tensors.smoothing};
}

template <class T>
void forward(const Sizes& sizes, const CleanPosteriorTensors& tensors, const Tensor& posterior,
             const Tensor& saved_column) {
  BatchInputs<T> inputs(sizes, tensors.weights, tensors.parts, tensors.slack,
                        columns_read(tensors.slack), &tensors.labels);
  row_sums_by_sign(inputs.batch, static_cast<T*>(saved_column.data_ptr()));
  const LossArgs<T> args =
      loss_args(inputs.batch, tensors.logits, tensors.labels, std::nullopt, options_of(tensors));
  const Ranges ranges(sizes.samples, loss_work(inputs.batch));
  std::vector<LossPartial> partials(ranges.count());
  ranges.run([&](int64_t range, int64_t begin, int64_t end) {
    Scratch<T> scratch(inputs.batch, /*whole=*/false);
    Batch<T> own = inputs.batch;
    const auto columns = inputs.own_columns(begin, end, own);
    kernels<T>().clean_posterior(with_batch(args, own), begin, end, scratch.data(),
                                 static_cast<T*>(posterior.data_ptr()),
                                 static_cast<T*>(saved_column.data_ptr()), &partials[range]);
  });
  for (const LossPartial& partial : partials) {
    if (partial.bad_sample < 0) continue;
    raise_label_error("clean_posterior", tensors.labels, partial.bad_sample, sizes.classes);
  }
}

template <class T>
FourTensors backward(const Sizes& sizes, const Tensor& grad, const CleanPosteriorTensors& tensors,
                     const Tensor& saved_column, const Needs& needs) {
  const BatchInputs<T> inputs(sizes, tensors.weights, tensors.parts, tensors.slack,
                              columns_read(tensors.slack, needs), &tensors.labels);
  const LossArgs<T> args =
      loss_args(inputs.batch, tensors.logits, tensors.labels, std::nullopt, options_of(tensors));
  return backward_ranges(
      tensors.logits, tensors.parts, tensors.slack, inputs, needs, loss_work(inputs.batch),
      /*by_sign=*/false,
      [&](const Batch<T>& own, int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads,
          const T*) {
        kernels<T>().clean_posterior_backward(
            with_batch(args, own), begin, end, scratch, static_cast<const T*>(grad.data_ptr()),
            static_cast<const T*>(saved_column.data_ptr()) + begin * sizes.classes, grads);
      });
}

struct CleanPosteriorCpu {
  static void check(const char*, const Tensor&) {}
  static bool saves(const OptionalTensor&) { return true; }

  static void forward(const Sizes& sizes, const CleanPosteriorTensors& tensors,
                      const Tensor& posterior, const Tensor& saved_column) {
    const auto run = tensors.parts.scalar_type() == ScalarType::Double ? ptd::forward<double>
                                                                       : ptd::forward<float>;
    run(sizes, tensors, posterior, saved_column);
  }

  static FourTensors backward(const Sizes& sizes, const Tensor& grad,
                              const CleanPosteriorTensors& tensors, const Tensor& saved_column,
                              const Needs& needs) {
    const auto run = tensors.parts.scalar_type() == ScalarType::Double ? ptd::backward<double>
                                                                       : ptd::backward<float>;
    return run(sizes, grad, tensors, saved_column, needs);
  }
};

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("clean_posterior", TORCH_BOX(&clean_posterior<CleanPosteriorCpu>));
  m.impl("clean_posterior_backward", TORCH_BOX(&clean_posterior_backward<CleanPosteriorCpu>));
}

}  // namespace ptd
