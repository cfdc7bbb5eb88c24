// The tensor arguments of the kernels that read one column of T(x) per sample.
#pragma once

#include "column/column_launchers.h"
#include "common/transition_glue.h"
#include "row_sums/row_sums_glue.h"

namespace ptd {

// The part of a Device (csrc/transition_loss.h) that the losses and clean_posterior share.
struct ColumnDevice {
  // The registers of a block must hold all classes of a sample.
  static void check(const char* op, const Tensor& logits) {
    const bool is_double = logits.scalar_type() == ScalarType::Double;
    const int64_t max_classes = is_double ? kMaxClasses<double> : kMaxClasses<float>;
    if (logits.size(1) <= max_classes) return;
    raise_error(std::string(op) + ": logits must have at most " + std::to_string(max_classes) +
                " classes of " + dtype_text(logits.scalar_type()) + " on a GPU; got " +
                std::to_string(logits.size(1)) + ".");
  }

  // With slack the row sums are saved. Without slack nothing is: computing the column again is
  // cheaper than reading it back.
  static bool saves(const OptionalTensor& slack) { return slack.has_value(); }
};

// A batch with the memory its views refer to, and its launch plan.
template <class S>
struct ColumnInputs {
  using T = Accumulation<S>;

  TransitionInputs<T> transition;
  ColumnBatch<S> batch;
  ColumnPlan plan;

  // `row_sums` are read by the kernels, so a forward operator writes them first.
  template <class Tensors>
  ColumnInputs(const Sizes& sizes, const Tensors& tensors, const Tensor& row_sums,
               int64_t ignore_index, double smoothing)
      : transition(sizes, tensors.weights, tensors.parts, tensors.slack),
        batch{},
        plan(ColumnPlan::of<T>(sizes.samples, sizes.classes, sizes.parts)) {
    batch.logits = rows_of<S>(tensors.logits);
    batch.labels = labels_of(tensors.labels, ignore_index);
    batch.transition = transition.view;
    if (tensors.slack) batch.row_sums = pointer<const T>(row_sums);
    batch.smoothing = T(smoothing);
    batch.smoothing_floor = T(smoothing / double(sizes.classes));
  }
};

}  // namespace ptd
