// Launchers of the transition losses; the kernels are in column/kernels.cuh.
#include "column/transition_loss.cuh"

#include "column/kernels.cuh"

#ifndef __CUDACC_RTC__

#include "column/column_launchers.h"
#include "column/launch_column.h"

namespace ptd {

template <class S>
cudaError_t launch_transition_loss(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                   const LossRule<Accumulation<S>>& rule,
                                   const LossOutputs<Accumulation<S>>& out, cudaStream_t stream) {
  if (!out.losses) cudaMemsetAsync(out.ticket, 0, sizeof(*out.ticket), stream);
  return launch_column(plan, batch, TransitionLoss<S>{rule, out}, stream);
}

template <class S>
cudaError_t launch_transition_loss_backward(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                            const LossRule<Accumulation<S>>& rule,
                                            const LossGradients<S>& grads, cudaStream_t stream) {
  return launch_column(plan, batch, TransitionLossBackward<S>{rule, grads}, stream);
}

#define PTD_INSTANTIATE(S)                                                        \
  template cudaError_t launch_transition_loss<S>(                                 \
      const ColumnPlan&, const ColumnBatch<S>&, const LossRule<Accumulation<S>>&, \
      const LossOutputs<Accumulation<S>>&, cudaStream_t);                         \
  template cudaError_t launch_transition_loss_backward<S>(                        \
      const ColumnPlan&, const ColumnBatch<S>&, const LossRule<Accumulation<S>>&, \
      const LossGradients<S>&, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
PTD_INSTANTIATE(Half)
PTD_INSTANTIATE(BFloat16)
#undef PTD_INSTANTIATE

}  // namespace ptd

#endif
