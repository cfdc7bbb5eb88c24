// Training runs transition_loss_with_gradients, whose backward pass is a multiplication. Inference
// runs transition_loss; so does training that needs gradients of weights or parts, which
// transition_loss_backward computes.
#include "transition_loss.h"

#include <torch/csrc/stable/library.h>

#include "column/loss_args.h"
#include "gradients/gradients.h"

namespace ptd {
namespace {

using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

// The total weight of the samples that count. Raises for a label that is out of range.
template <class T>
double total_weight(const LossArgs<T>& args, const Tensor& labels) {
  double weight = 0;
  for (int64_t n = 0; n < args.batch.samples; ++n) {
    const int64_t label = label_at(args.labels, n);
    if (label == args.ignore_index) continue;
    if (label < 0 || label >= args.batch.classes) {
      raise_label_error(loss_name(args.importance), labels, n, args.batch.classes);
    }
    weight += args.class_weight ? double(args.class_weight[label]) : 1.0;
  }
  return weight;
}

// The forward pass of training: the loss, and its gradients for grad_loss = 1.
template <class T>
ThreeTensors loss_with_gradients(const Sizes& sizes, const LossTensors& tensors,
                                 const LossOptions& options, bool need_slack) {
  const ScalarType dtype = tensors.parts.scalar_type();
  const bool reduced = options.reduction != kNone;
  const Tensor loss =
      reduced ? empty({}, dtype, tensors.logits) : empty({sizes.samples}, dtype, tensors.logits);
  T* losses = static_cast<T*>(loss.data_ptr());
  BatchInputs<T> inputs(sizes, tensors.weights, tensors.parts, tensors.slack,
                        columns_read(tensors.slack), &tensors.labels);
  const OptionalTensor dense_weight = contiguous(tensors.class_weight);
  const LossArgs<T> args =
      loss_args(inputs.batch, tensors.logits, tensors.labels, dense_weight, options);
  const double weight = total_weight(args, tensors.labels);
  const T scale = options.reduction == kMean ? T(1) / T(weight) : T(1);
  const T one(1);
  // The sum of each range, at the index of its first block.
  std::vector<double> sums((sizes.samples + kBlock - 1) / kBlock);
  inputs.batch.has_row_sums = SignTables<T>::pay(inputs.batch);
  // The gradient of the logits has the type of the parts: grad_loss is still to be multiplied in.
  const auto [grad_logits, none, nothing, grad_slack] = backward_ranges(
      tensors.parts, tensors.parts, tensors.slack, inputs, {true, false, false, need_slack},
      loss_work(inputs.batch), inputs.batch.has_row_sums,
      [&](const Batch<T>& own, int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads,
          const T* row_sums) {
        if (begin == end) return;
        kernels<T>().loss_with_gradients(with_batch(args, own), begin, end, scratch, &one, 0, scale,
                                         row_sums, grads, reduced ? nullptr : losses,
                                         &sums[begin / kBlock]);
      });
  double sum = 0;
  for (const double part : sums) sum += part;
  // As in cross_entropy, the mean of nothing is 0 / 0.
  if (reduced) *losses = T(options.reduction == kMean ? sum / weight : sum);
  return {loss, grad_logits, grad_slack};
}

// The loss without gradients, and what the backward pass needs.
template <class T>
void loss_alone(const Sizes& sizes, const LossTensors& tensors, const LossOptions& options,
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
    Scratch<T> scratch(inputs.batch, /*whole=*/false);
    Batch<T> own = inputs.batch;
    const auto columns = inputs.own_columns(begin, end, own);
    kernels<T>().loss_alone(with_batch(args, own), begin, end, scratch.data(),
                            reduced ? nullptr : losses, saved, &partials[range]);
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
  return backward_ranges(tensors.logits, tensors.parts, tensors.slack, inputs, needs, work, by_sign,
                         [&](const Batch<T>& own, int64_t begin, int64_t end, T* scratch,
                             const Gradients<T>& grads, const T* row_sums) {
                           double loss;
                           kernels<T>().loss_with_gradients(
                               with_batch(args, own), begin, end, scratch, grad, grad_stride, scale,
                               row_sums ? row_sums : saved + begin * sizes.classes, grads,
                               /*losses=*/nullptr, &loss);
                         });
}

ThreeTensors transition_loss_with_gradients(
    Tensor logits, Tensor noisy_labels, OptionalTensor weights, Tensor parts, OptionalTensor slack,
    OptionalTensor class_weight, int64_t importance, std::optional<double> max_importance,
    int64_t reduction, int64_t ignore_index, double smoothing, bool need_slack) {
  const LossOptions options{importance, max_importance.value_or(INFINITY), reduction, ignore_index,
                            smoothing};
  const LossTensors tensors{logits, noisy_labels, weights, parts, slack, class_weight};
  const Sizes sizes = check_transition_loss(tensors, options);
  if (need_slack && reduction == kNone) {
    raise_error(
        "transition_loss_with_gradients: need_slack must be False without a reduction; got True.");
  }
  return parts.scalar_type() == ScalarType::Double
             ? loss_with_gradients<double>(sizes, tensors, options, need_slack)
             : loss_with_gradients<float>(sizes, tensors, options, need_slack);
}

struct TransitionLossCpu {
  static void check(const char*, const Tensor&) {}
  static bool saves(const OptionalTensor&) { return true; }

  static void forward(const Sizes& sizes, const LossTensors& tensors, const LossOptions& options,
                      const LossResults& results) {
    const auto run =
        tensors.parts.scalar_type() == ScalarType::Double ? loss_alone<double> : loss_alone<float>;
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
  m.impl("transition_loss_with_gradients", TORCH_BOX(&transition_loss_with_gradients));
}

}  // namespace ptd
