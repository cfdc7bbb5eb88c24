// Tensors as the kernels of a LabelBatch take them.
#pragma once

#include "../check.h"
#include "../gradient_tensors.h"
#include "../layout.h"
#include "on_device.h"
#include "row_sums_table.h"
#include "spread.h"
#include "transition_loss.h"

namespace ptd {

// run.operator()<S>() with the type that the logits are stored in.
template <class Run>
auto with_storage(const Tensor& logits, const Run& run) {
  switch (logits.scalar_type()) {
    case ScalarType::Double:
      return run.template operator()<double>();
    case ScalarType::Half:
      return run.template operator()<Half>();
    case ScalarType::BFloat16:
      return run.template operator()<BFloat16>();
    default:
      return run.template operator()<float>();
  }
}

inline void check_classes(const char* op, const Tensor& logits) {
  const bool is_double = logits.scalar_type() == ScalarType::Double;
  const int64_t most = is_double ? kMostLossClassesDouble : kMostLossClasses;
  if (logits.size(1) <= most) return;
  refuse(std::string(op) + ": a GPU takes at most " + std::to_string(most) + " classes of " +
         dtype_text(logits.scalar_type()) + "; got " + std::to_string(logits.size(1)) + ".");
}

// What the forward operator keeps: row sums [N, C] with slack. Without it the column is cheaper to
// form again than to read back.
inline Tensor empty_saved(const Sizes& sizes, const Tensor& logits, const Tensor& parts,
                          const OptionalTensor& slack) {
  return slack ? empty({sizes.samples, sizes.classes}, parts.scalar_type(), logits)
               : empty({0}, parts.scalar_type(), logits);
}

// Scratch of the row sums with its memory.
template <class T>
struct RowSumTensors {
  Tensor table, weights;
  RowSumScratch<T> scratch;

  RowSumTensors(const RowSumSizes& sizes, const Tensor& parts)
      : table(empty({sizes.table}, parts.scalar_type(), parts)),
        weights(empty({sizes.weights}, parts.scalar_type(), parts)),
        scratch{pointer<T>(table), pointer<T>(weights)} {}
};

// A batch with the memory its views refer to.
template <class S>
struct LabelInputs {
  using T = Accumulation<S>;

  Tensor columns;  // the parts by column: themselves where that is their layout, else a copy
  LabelBatch<S> batch;

  LabelInputs(const Sizes& sizes, const Tensor& logits, const Tensor& labels,
              const OptionalTensor& weights, const Tensor& parts, const OptionalTensor& slack,
              const Tensor& saved, int64_t ignore_index, double smoothing)
      : columns(parts_by_column(parts)), batch{} {
    batch.logits =
        rows_of<const S>(pointer<S>(logits), logits.stride(0), logits.stride(1), sizes.classes);
    batch.labels = {pointer<void>(labels), labels.stride(0),
                    labels.scalar_type() == ScalarType::Long};
    if (weights) {
      batch.weights = rows_of<const T>(pointer<T>(*weights), weights->stride(0), weights->stride(1),
                                       sizes.parts);
    }
    batch.columns = pointer<T>(columns);
    if (slack) {
      batch.slack = pointer<T>(*slack);
      batch.slack_row_stride = slack->stride(0);
      batch.slack_stride = slack->stride(1);
      batch.row_sums = pointer<T>(saved);
    }
    batch.samples = sizes.samples;
    batch.classes = int(sizes.classes);
    batch.parts = int(sizes.parts);
    batch.ignore_index = ignore_index;
    batch.smoothing = T(smoothing);
    batch.smoothing_floor = T(smoothing / double(sizes.classes));
  }
};

// Backward: launch(grad_logits, column) computes the gradient of the logits, and the factors of
// dL/dM where other gradients need them; the rest is the same for every operator on a column.
template <class S, class Launch>
FourTensors backward_through_column(const char* op, const Sizes& sizes, const Tensor& logits,
                                    const Tensor& parts, const OptionalTensor& slack,
                                    const LabelBatch<S>& batch, const Needs& needs,
                                    cudaStream_t stream, const Launch& launch) {
  using T = Accumulation<S>;
  const ScalarType dtype = parts.scalar_type();
  const GradientTensors grads(sizes, logits, parts, slack, needs);
  if (sizes.samples == 0 && !needs.parts && !needs.slack) return grads.tuple();

  ColumnGradient<T> column{};
  Tensor entry, row;
  if (needs.transition()) {
    entry = empty({sizes.samples, sizes.classes}, dtype, logits);
    column.entry = pointer<T>(entry);
    if (slack) {
      row = empty({sizes.samples, sizes.classes}, dtype, logits);
      column.row = pointer<T>(row);
    }
  }
  check_launch(op, launch(needs.logits ? pointer<S>(grads.logits) : nullptr, column));
  if (!needs.transition()) return grads.tuple();

  SpreadOutputs<T> out{};
  if (needs.weights) out.weights = pointer<T>(grads.weights);
  if (needs.parts) out.columns = pointer<T>(grads.parts);
  if (needs.slack) {
    out.slack = pointer<T>(grads.slack);
    out.slack_row_stride = grads.slack.stride(0);
    out.slack_stride = grads.slack.stride(1);
  }
  const LabelBatch<T> wide = without_logits(batch);
  const Tensor scratch = empty({spread_scratch(wide, out)}, dtype, logits);
  check_launch(op, launch_spread(wide, column, out, pointer<T>(scratch), stream));
  return grads.tuple();
}

}  // namespace ptd
