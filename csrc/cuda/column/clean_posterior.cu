// Launchers of clean_posterior; the kernels are in column/kernels.cuh.
#include "column/clean_posterior.cuh"

#include "column/kernels.cuh"

#ifndef __CUDACC_RTC__

#include "column/column_launchers.h"
#include "column/launch_column.h"

namespace ptd {

template <class S>
cudaError_t launch_clean_posterior(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                   Accumulation<S>* posterior, cudaStream_t stream) {
  return launch_column(plan, batch, CleanPosterior<S>{posterior}, stream);
}

template <class S>
cudaError_t launch_clean_posterior_backward(const ColumnPlan& plan, const ColumnBatch<S>& batch,
                                            const PosteriorGradients<S>& grads,
                                            cudaStream_t stream) {
  return launch_column(plan, batch, CleanPosteriorBackward<S>{grads}, stream);
}

#define PTD_INSTANTIATE(S)                                                                 \
  template cudaError_t launch_clean_posterior<S>(const ColumnPlan&, const ColumnBatch<S>&, \
                                                 Accumulation<S>*, cudaStream_t);          \
  template cudaError_t launch_clean_posterior_backward<S>(                                 \
      const ColumnPlan&, const ColumnBatch<S>&, const PosteriorGradients<S>&, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
PTD_INSTANTIATE(Half)
PTD_INSTANTIATE(BFloat16)
#undef PTD_INSTANTIATE

}  // namespace ptd

#endif
