// The arguments of the kernels that read a label's column: the losses and the clean posterior.
#pragma once

#include "inputs.h"
#include "transition_loss.h"

namespace ptd {

// With slack the row sums need every column. Without slack the forward operator reads the labels'
// columns, and the backward operator reads them only for the gradient of the weights.
inline ColumnsRead columns_read(const OptionalTensor& slack) {
  return slack ? ColumnsRead::all : ColumnsRead::of_labels;
}
inline ColumnsRead columns_read(const OptionalTensor& slack, const Needs& needs) {
  if (slack) return ColumnsRead::all;
  return needs.weights ? ColumnsRead::of_labels : ColumnsRead::none;
}

template <class T>
LossArgs<T> loss_args(const Batch<T>& batch, const Tensor& logits, const Tensor& labels,
                      const OptionalTensor& class_weight, const LossOptions& options) {
  return {batch,
          matrix_of(logits),
          labels_of(labels),
          class_weight ? static_cast<const T*>(class_weight->data_ptr()) : nullptr,
          options.importance,
          T(options.max_importance),
          options.ignore_index,
          T(options.smoothing)};
}

template <class T>
LossArgs<T> with_batch(LossArgs<T> args, const Batch<T>& batch) {
  args.batch = batch;
  return args;
}

[[noreturn]] inline void raise_label_error(const char* op, const Tensor& labels, int64_t sample,
                                           int64_t classes) {
  const int64_t label = label_at(labels_of(labels), sample);
  raise_error(std::string(op) + ": noisy_labels[" + std::to_string(sample) + "] is " +
              std::to_string(label) + "; labels must be from 0 to " + std::to_string(classes - 1) +
              " or ignore_index.");
}

}  // namespace ptd
