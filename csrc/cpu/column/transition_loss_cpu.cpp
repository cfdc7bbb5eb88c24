#include "transition_loss.h"

#include <torch/csrc/stable/library.h>

#include "column/loss_args.h"
#include "gradients/gradients.h"

namespace ptd {
namespace {

template <class T>
void forward(const Sizes& sizes, const LossTensors& tensors, const LossOptions& options,
             const LossResults& results) {
  const bool reduced = options.reduction != kNone;
  T* losses = static_cast<T*>(results.loss.data_ptr());
  BatchInputs<T> inputs(sizes, tensors.weights, tensors.parts, tensors.slack,
                        columns_read(tensors.slack), &tensors.labels);
  T* saved = static_cast<T*>(results.saved_column.data_ptr());
  row_sums_by_sign(inputs.batch, saved);
  const OptionalTensor dense_weight = contiguous(tensors.class_weight);
  const LossArgs<T> args =
      loss_args(inputs.batch, tensors.logits, tensors.labels, dense_weight, options);
  const Ranges ranges(sizes.samples, loss_work(inputs.batch));
  std::vector<LossPartial> partials(ranges.count());
  ranges.run([&](int64_t range, int64_t begin, int64_t end) {
    Scratch<T> scratch(inputs.batch, /*whole=*/options.save_gradient);
    Batch<T> own = inputs.batch;
    const auto columns = inputs.own_columns(begin, end, own);
    kernels<T>().loss_forward(with_batch(args, own), begin, end, scratch.data(),
                              reduced ? nullptr : losses, saved, options.save_gradient,
                              &partials[range]);
  });

  double sum = 0, weight = 0;
  for (const LossPartial& partial : partials) {
    if (partial.bad_sample >= 0) {
      raise_label_error(loss_name(options.importance), tensors.labels, partial.bad_sample,
                        sizes.classes);
    }
    sum += partial.loss;
    weight += partial.weight;
  }
  // As in cross_entropy, the mean of nothing is 0 / 0.
  if (reduced) *losses = T(options.reduction == kMean ? sum / weight : sum);
  *static_cast<T*>(results.saved_weight.data_ptr()) = T(weight);
}

template <class T>
FourTensors backward(const Sizes& sizes, const Tensor& grad_loss, const LossTensors& tensors,
                     const Tensor& saved_weight, const Tensor& saved_column,
                     const LossOptions& options, const Needs& needs) {
  const T scale =
      options.reduction == kMean ? T(1) / *static_cast<const T*>(saved_weight.data_ptr()) : T(1);
  // A gradient that was expanded from one number has stride zero.
  const int64_t grad_stride = options.reduction == kNone ? grad_loss.stride(0) : 0;
  const T* grad = static_cast<const T*>(grad_loss.data_ptr());
  const T* saved = static_cast<const T*>(saved_column.data_ptr());
  if (options.save_gradient) {
    const GradientTensors gradients(sizes, tensors.logits, tensors.parts, tensors.slack, needs);
    const Matrix out = matrix_of(gradients.logits);
    const Ranges ranges(sizes.samples, double(sizes.classes));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      std::vector<T> row(sizes.classes);
      kernels<T>().scale_rows(saved, sizes.classes, begin, end, grad, grad_stride, scale,
                              row.data(), out);
    });
    return gradients.tuple();
  }
  BatchInputs<T> inputs(sizes, tensors.weights, tensors.parts, tensors.slack,
                        columns_read(tensors.slack, needs), &tensors.labels);
  // Sign tables serve slack alone, which revision trains at every step: the gradients of parts and
  // weights need dL/dM entry by entry.
  const bool by_sign =
      needs.slack && !needs.weights && !needs.parts && SignTables<T>::pay(inputs.batch);
  inputs.batch.has_row_sums = by_sign;
  const OptionalTensor dense_weight = contiguous(tensors.class_weight);
  const LossArgs<T> args =
      loss_args(inputs.batch, tensors.logits, tensors.labels, dense_weight, options);
  const double work = needs.transition() ? loss_work(inputs.batch) : column_work(inputs.batch);
  return backward_ranges(
      tensors.logits, tensors.parts, tensors.slack, inputs, needs, work, by_sign,
      [&](const Batch<T>& own, int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads) {
        kernels<T>().loss_backward(with_batch(args, own), begin, end, scratch, grad, grad_stride,
                                   scale, saved, grads);
      });
}

struct TransitionLossCpu {
  static void check(const char*, const Tensor&) {}
  static bool saves(const OptionalTensor&) { return true; }

  static void forward(const Sizes& sizes, const LossTensors& tensors, const LossOptions& options,
                      const LossResults& results) {
    const auto run = tensors.parts.scalar_type() == ScalarType::Double ? ptd::forward<double>
                                                                       : ptd::forward<float>;
    run(sizes, tensors, options, results);
  }

  static FourTensors backward(const Sizes& sizes, const Tensor& grad_loss,
                              const LossTensors& tensors, const Tensor& saved_weight,
                              const Tensor& saved_column, const LossOptions& options,
                              const Needs& needs) {
    const auto run = tensors.parts.scalar_type() == ScalarType::Double ? ptd::backward<double>
                                                                       : ptd::backward<float>;
    return run(sizes, grad_loss, tensors, saved_weight, saved_column, options, needs);
  }
};

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("transition_loss", TORCH_BOX(&transition_loss<TransitionLossCpu>));
  m.impl("transition_loss_backward", TORCH_BOX(&transition_loss_backward<TransitionLossCpu>));
}

}  // namespace ptd
