// Launches of the kernels of column/kernels.cuh. Host code.
#pragma once

#include "column/kernels.cuh"
#include "column/plan.h"

namespace ptd {

template <class S, class Op>
cudaError_t launch_column(const ColumnPlan& plan, const ColumnBatch<S>& batch, const Op& op,
                          cudaStream_t stream) {
  switch (plan.mapping) {
    case ColumnPlan::kThreadPerSample:
      if constexpr (sizeof(Accumulation<S>) == 4) {
        PTD_LAUNCH((column_thread_per_sample<S, Op>), plan.grid, plan.threads, plan.shared, stream,
                   batch, op, plan.block_samples);
      }
      break;
    case ColumnPlan::kWarpPerSample:
      PTD_LAUNCH((column_warp_per_sample<S, Op>), plan.grid, plan.threads, plan.shared, stream,
                 batch, op);
      break;
    case ColumnPlan::kBlockPerSample:
      PTD_LAUNCH((column_block_per_sample<S, Op>), plan.grid, plan.threads, 0, stream, batch, op);
      break;
  }
  return cudaGetLastError();
}

}  // namespace ptd
