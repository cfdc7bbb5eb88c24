// Launchers of clean_posterior. S is the type of the logits: float, double, Half or BFloat16.
#pragma once

#include "clean_posterior_args.h"
#include "row_sums_table.h"

namespace ptd {

// Numbers of scratch that the forward launcher needs, for row sums.
template <class S>
RowSumSizes clean_posterior_scratch(const LabelBatch<S>& batch);

// With slack batch.row_sums is written.
template <class S>
cudaError_t launch_clean_posterior(const LabelBatch<S>& batch,
                                   Accumulation<S>* posterior,  // [N, C]
                                   const RowSumScratch<Accumulation<S>>& scratch,
                                   cudaStream_t stream);

// With slack batch.row_sums is read.
template <class S>
cudaError_t launch_clean_posterior_backward(const LabelBatch<S>& batch,
                                            const CleanPosteriorGradients<S>& grads,
                                            cudaStream_t stream);

}  // namespace ptd
