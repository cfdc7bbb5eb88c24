// The launcher of row sums of the revised matrix, for the kernels that read one column of it. T is
// float or double; the batch's logits are not read.
#pragma once

#include "label_batch.h"
#include "row_sums_table.h"

namespace ptd {

// Numbers of scratch that the launcher needs.
template <class S>
RowSumSizes row_sum_sizes(const LabelBatch<S>& batch) {
  return row_sum_sizes<Accumulation<S>>(batch.samples, batch.classes, batch.parts);
}

// Writes batch.row_sums.
template <class T>
cudaError_t launch_row_sums(const LabelBatch<T>& batch, const RowSumScratch<T>& scratch,
                            cudaStream_t stream);

}  // namespace ptd
