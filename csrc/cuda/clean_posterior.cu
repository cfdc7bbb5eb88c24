#include "clean_posterior.h"

#include "clean_posterior_kernels.cuh"
#include "clean_posterior_narrow_kernels.cuh"
#include "narrow_plan.h"
#include "row_sums.h"
#include "spread.h"

namespace ptd {
namespace {

template <class S>
bool is_narrow(const LabelBatch<S>& batch, const NarrowPlan& plan) {
  return plan.blocks && batch.classes <= kLoneClasses;
}

// Whether the narrow kernels ran.
template <class S>
bool launch_narrow(const LabelBatch<S>& batch, Accumulation<S>* posterior, cudaStream_t stream) {
  if constexpr (sizeof(Accumulation<S>) == 4) {
    const auto plan = NarrowPlan::forward(batch);
    if (!is_narrow(batch, plan)) return false;
    const auto bytes = static_cast<size_t>(plan.layout.bytes);
    if (plan.pairs) {
      PTD_LAUNCH(clean_posterior_pair<S>, plan.blocks, plan.threads, bytes, stream, batch,
                 plan.layout, posterior);
    } else if (batch.slack) {
      PTD_LAUNCH(clean_posterior_lone_slack<S>, plan.blocks, plan.threads, bytes, stream, batch,
                 plan.layout, posterior);
    } else {
      PTD_LAUNCH(clean_posterior_lone<S>, plan.blocks, plan.threads, bytes, stream, batch,
                 plan.layout, posterior);
    }
    return true;
  }
  return false;
}

template <class S>
bool launch_narrow_backward(const LabelBatch<S>& batch, const CleanPosteriorGradients<S>& grads,
                            cudaStream_t stream) {
  if constexpr (sizeof(Accumulation<S>) == 4) {
    const NarrowPlan plan(batch, /*pairs=*/true);
    if (!is_narrow(batch, plan)) return false;
    const auto bytes = static_cast<size_t>(plan.layout.bytes);
    if (batch.slack) {
      PTD_LAUNCH((clean_posterior_backward_pair<S, true>), plan.blocks, plan.threads, bytes, stream,
                 batch, plan.layout, grads);
    } else {
      PTD_LAUNCH((clean_posterior_backward_pair<S, false>), plan.blocks, plan.threads, bytes,
                 stream, batch, plan.layout, grads);
    }
    return true;
  }
  return false;
}

}  // namespace

template <class S>
RowSumSizes clean_posterior_scratch(const LabelBatch<S>& batch) {
  if (!batch.slack || is_narrow(batch, NarrowPlan::forward(batch))) return {};
  return row_sum_sizes(batch);
}

template <class S>
cudaError_t launch_clean_posterior(const LabelBatch<S>& batch, Accumulation<S>* posterior,
                                   const RowSumScratch<Accumulation<S>>& scratch,
                                   cudaStream_t stream) {
  if (batch.samples == 0) return cudaSuccess;
  if (launch_narrow(batch, posterior, stream)) return cudaGetLastError();
  if (batch.slack) {
    const cudaError_t error = launch_row_sums(without_logits(batch), scratch, stream);
    if (error != cudaSuccess) return error;
  }
  if (is_grouped(batch)) {
    const GroupedPlan plan(batch);
    with_grouped(batch, plan, [&]<int E, bool kVector, bool kSlack>() {
      allow_shared(clean_posterior_grouped<S, E, kVector, kSlack>, plan.bytes);
      PTD_LAUNCH((clean_posterior_grouped<S, E, kVector, kSlack>), plan.grid, kGroupedThreads,
                 plan.bytes, stream, batch, plan.layout, posterior);
    });
  } else {
    const WidePlan plan(batch);
    constexpr int kV = kWideClasses<Accumulation<S>>;
    PTD_LAUNCH((clean_posterior_wide<S, kV>), plan.blocks, plan.threads, 0, stream, batch,
               posterior);
  }
  return cudaGetLastError();
}

template <class S>
cudaError_t launch_clean_posterior_backward(const LabelBatch<S>& batch,
                                            const CleanPosteriorGradients<S>& grads,
                                            cudaStream_t stream) {
  if (batch.samples == 0) return cudaSuccess;
  if (launch_narrow_backward(batch, grads, stream)) return cudaGetLastError();
  if (is_grouped(batch)) {
    GroupedPlan plan(batch);
    plan.vector = plan.vector && is_aligned(grads.grad, 16);
    with_grouped(batch, plan, [&]<int E, bool kVector, bool kSlack>() {
      allow_shared(clean_posterior_backward_grouped<S, E, kVector, kSlack>, plan.bytes);
      PTD_LAUNCH((clean_posterior_backward_grouped<S, E, kVector, kSlack>), plan.grid,
                 kGroupedThreads, plan.bytes, stream, batch, plan.layout, grads);
    });
  } else {
    const WidePlan plan(batch);
    constexpr int kV = kWideClasses<Accumulation<S>>;
    PTD_LAUNCH((clean_posterior_backward_wide<S, kV>), plan.blocks, plan.threads, 0, stream, batch,
               grads);
  }
  return cudaGetLastError();
}

#define PTD_CLEAN_POSTERIOR(S)                                                           \
  template RowSumSizes clean_posterior_scratch<S>(const LabelBatch<S>&);                 \
  template cudaError_t launch_clean_posterior<S>(const LabelBatch<S>&, Accumulation<S>*, \
                                                 const RowSumScratch<Accumulation<S>>&,  \
                                                 cudaStream_t);                          \
  template cudaError_t launch_clean_posterior_backward<S>(                               \
      const LabelBatch<S>&, const CleanPosteriorGradients<S>&, cudaStream_t);

PTD_CLEAN_POSTERIOR(float)
PTD_CLEAN_POSTERIOR(double)
PTD_CLEAN_POSTERIOR(Half)
PTD_CLEAN_POSTERIOR(BFloat16)

#undef PTD_CLEAN_POSTERIOR

}  // namespace ptd
