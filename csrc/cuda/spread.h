// Launchers of what needs sums over samples, or more of T(x) than one column: the gradients of
// slack, parts and weights. T is float or double; the batch's logits are not read.
#pragma once

#include "label_batch.h"

namespace ptd {

// A batch for these launchers.
template <class S>
LabelBatch<Accumulation<S>> without_logits(const LabelBatch<S>& batch) {
  return {{},
          batch.labels,
          batch.weights,
          batch.columns,
          batch.slack,
          batch.slack_row_stride,
          batch.slack_stride,
          batch.row_sums,
          batch.samples,
          batch.classes,
          batch.parts,
          batch.ignore_index,
          batch.smoothing,
          batch.smoothing_floor};
}

// Where gradients go; nullptr where one is not wanted.
template <class T>
struct SpreadOutputs {
  T* weights;  // [N, R]
  T* columns;  // [C, R, C]
  T* slack;    // [C, C]
  int64_t slack_row_stride, slack_stride;
};

// Numbers of scratch that launch_spread needs: bounded, whatever the number of samples.
template <class T>
int64_t spread_scratch(const LabelBatch<T>& batch, const SpreadOutputs<T>& out);

template <class T>
cudaError_t launch_spread(const LabelBatch<T>& batch, const ColumnGradient<T>& grad,
                          const SpreadOutputs<T>& out, T* scratch, cudaStream_t stream);

}  // namespace ptd
