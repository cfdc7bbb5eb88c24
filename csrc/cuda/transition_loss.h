// Launchers of the transition losses. S is the type of the logits: float, double, Half or BFloat16.
#pragma once

#include "row_sums_table.h"
#include "transition_loss_args.h"

namespace ptd {

// Bytes of workspace that the reduction of a loss needs; where it is none, there is no reduction to
// do beyond a block.
template <class S>
int64_t transition_loss_workspace(const LabelBatch<S>& batch);

// Numbers of scratch that the forward launcher needs, for row sums.
template <class S>
RowSumSizes transition_loss_scratch(const LabelBatch<S>& batch);

// N = 0 is allowed. `out.partials` and `out.ticket` are set by the launcher, from `workspace`. With
// slack batch.row_sums is written.
template <class S>
cudaError_t launch_transition_loss(const LabelBatch<S>& batch,
                                   const LossRule<Accumulation<S>>& rule,
                                   LossOutputs<Accumulation<S>> out, void* workspace,
                                   const RowSumScratch<Accumulation<S>>& scratch,
                                   cudaStream_t stream);

// With slack batch.row_sums is read.
template <class S>
cudaError_t launch_transition_loss_backward(const LabelBatch<S>& batch,
                                            const LossRule<Accumulation<S>>& rule,
                                            const LossGradients<S>& grads, cudaStream_t stream);

// The most classes that a GPU takes: a block's registers hold a sample's.
constexpr int64_t kMostLossClasses = 6144, kMostLossClassesDouble = 2048;

}  // namespace ptd
