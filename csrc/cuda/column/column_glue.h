// Tensors as the kernels take them that read one column of T(x) per sample.
#pragma once

#include "column/operators.h"
#include "common/transition_glue.h"
#include "row_sums/row_sums_glue.h"

namespace ptd {

// The registers of a block hold a sample's classes.
inline void check_classes(const char* op, const Tensor& logits) {
  const bool is_double = logits.scalar_type() == ScalarType::Double;
  const int64_t most = is_double ? kMostClasses<double> : kMostClasses<float>;
  if (logits.size(1) <= most) return;
  refuse(std::string(op) + ": a GPU takes at most " + std::to_string(most) + " classes of " +
         dtype_text(logits.scalar_type()) + "; got " + std::to_string(logits.size(1)) + ".");
}

// The forward operator saves row sums [N, C] with slack. Without it the column is cheaper to form
// again than to read back.
inline Tensor empty_saved(const Sizes& sizes, const Tensor& parts, const OptionalTensor& slack) {
  return slack ? empty({sizes.samples, sizes.classes}, parts.scalar_type(), parts)
               : empty({0}, parts.scalar_type(), parts);
}

// A batch with the memory its views refer to, and its launch plan.
template <class S>
struct ColumnInputs {
  using T = Accumulation<S>;

  TransitionInputs<T> transition;
  ColumnBatch<S> batch;
  ColumnPlan plan;

  // `row_sums` are read by the kernels, so a forward operator writes them first.
  ColumnInputs(const Sizes& sizes, const Tensor& logits, const Tensor& labels,
               const OptionalTensor& weights, const Tensor& parts, const OptionalTensor& slack,
               const Tensor& row_sums, int64_t ignore_index, double smoothing)
      : transition(sizes, weights, parts, slack),
        batch{},
        plan(sizes.samples, sizes.classes, sizes.parts, sizeof(T)) {
    batch.logits = rows_of<S>(logits);
    batch.labels = labels_of(labels, ignore_index);
    batch.transition = transition.view;
    if (slack) batch.row_sums = pointer<const T>(row_sums);
    batch.smoothing = T(smoothing);
    batch.smoothing_floor = T(smoothing / double(sizes.classes));
  }
};

}  // namespace ptd
