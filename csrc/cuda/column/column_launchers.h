// Launchers of the losses and of clean_posterior. S is the type of the logits: float, double, Half
// or BFloat16. The plan must be made for the sizes of the batch; with slack batch.row_sums is read.
#pragma once

#include "column/batch.h"
#include "column/plan.h"

namespace ptd {

// N = 0 is allowed: the reduction of nothing is written.
template <class S>
cudaError_t launch_transition_loss(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                   const LossRule<Accumulation<S>>& rule,
                                   const LossOutputs<Accumulation<S>>& out, cudaStream_t stream);

template <class S>
cudaError_t launch_transition_loss_backward(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                            const LossRule<Accumulation<S>>& rule,
                                            const LossGradients<S>& grads, cudaStream_t stream);

template <class S>
cudaError_t launch_clean_posterior(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                   Accumulation<S>* posterior,  // [N, C]
                                   cudaStream_t stream);

template <class S>
cudaError_t launch_clean_posterior_backward(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                            const PosteriorGradients<S>& grads,
                                            cudaStream_t stream);

}  // namespace ptd
