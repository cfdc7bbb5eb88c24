#include "transition_loss.h"

#include "mapping.h"
#include "narrow_plan.h"
#include "row_sums.h"
#include "spread.h"
#include "transition_loss_kernels.cuh"
#include "transition_loss_narrow_kernels.cuh"

namespace ptd {
namespace {

static_assert(kMostLossClasses == kMostClasses<float>);
static_assert(kMostLossClassesDouble == kMostClasses<double>);

template <class S>
int64_t blocks_of(const LabelBatch<S>& batch) {
  const auto narrow = NarrowPlan::forward(batch);
  if (narrow.blocks) return narrow.blocks;
  return is_grouped(batch) ? GroupedPlan(batch, true).blocks() : WidePlan(batch).blocks;
}

}  // namespace

template <class S>
int64_t transition_loss_workspace(const LabelBatch<S>& batch) {
  const int64_t blocks = blocks_of(batch);
  return blocks > 1 ? int64_t(sizeof(double)) * (2 + 2 * blocks) : 0;
}

template <class S>
RowSumSizes transition_loss_scratch(const LabelBatch<S>& batch) {
  if (!batch.slack || NarrowPlan::forward(batch).blocks) return {};
  return row_sum_sizes(batch);
}

template <class S>
cudaError_t launch_transition_loss(const LabelBatch<S>& batch,
                                   const LossRule<Accumulation<S>>& rule,
                                   LossOutputs<Accumulation<S>> out, void* workspace,
                                   const RowSumScratch<Accumulation<S>>& scratch,
                                   cudaStream_t stream) {
  constexpr int kWideV = kWideClasses<Accumulation<S>>;
  if (!out.losses && blocks_of(batch) > 1) {
    out.ticket = static_cast<unsigned*>(workspace);
    out.partials = static_cast<double*>(workspace) + 2;
    const auto bytes = static_cast<size_t>(transition_loss_workspace(batch));
    const cudaError_t error = cudaMemsetAsync(workspace, 0xff, bytes, stream);
    if (error != cudaSuccess) return error;
  }
  const auto narrow = NarrowPlan::forward(batch);
  if constexpr (sizeof(Accumulation<S>) == 4) {
    if (narrow.blocks) {
      const auto bytes = static_cast<size_t>(narrow.layout.bytes);
      if (narrow.pairs) {
        with_pairs(batch, [&]<int V, bool kSlack>() {
          PTD_LAUNCH((transition_loss_pair<S, V, kSlack>), narrow.blocks, narrow.threads, bytes,
                     stream, batch, narrow.layout, rule, out);
        });
      } else if (batch.slack) {
        PTD_LAUNCH(transition_loss_lone_slack<S>, narrow.blocks, narrow.threads, bytes, stream,
                   batch, narrow.layout, rule, out);
      } else {
        PTD_LAUNCH(transition_loss_lone<S>, narrow.blocks, narrow.threads, bytes, stream, batch,
                   narrow.layout, rule, out);
      }
      return cudaGetLastError();
    }
  }
  if (batch.slack) {
    const cudaError_t error = launch_row_sums(without_logits(batch), scratch, stream);
    if (error != cudaSuccess) return error;
  }
  if (is_grouped(batch)) {
    const GroupedPlan plan(batch, true);
    if constexpr (sizeof(Accumulation<S>) == 4) {
      if (plan.is_quartet(batch)) {
        with_quartet(batch.classes, [&]<int E>() {
          allow_shared(transition_loss_quartet<S, E>, plan.bytes);
          PTD_LAUNCH((transition_loss_quartet<S, E>), plan.grid, kGroupedThreads, plan.bytes,
                     stream, batch, plan.layout, rule, out);
        });
        return cudaGetLastError();
      }
    }
    with_grouped(batch, plan, [&]<int E, bool kVector, bool kSlack>() {
      allow_shared(transition_loss_grouped<S, E, kVector, kSlack>, plan.bytes);
      PTD_LAUNCH((transition_loss_grouped<S, E, kVector, kSlack>), plan.grid, kGroupedThreads,
                 plan.bytes, stream, batch, plan.layout, rule, out);
    });
  } else {
    const WidePlan plan(batch);
    PTD_LAUNCH((transition_loss_wide<S, kWideV>), plan.blocks, plan.threads, 0, stream, batch, rule,
               out);
  }
  return cudaGetLastError();
}

template <class S>
cudaError_t launch_transition_loss_backward(const LabelBatch<S>& batch,
                                            const LossRule<Accumulation<S>>& rule,
                                            const LossGradients<S>& grads, cudaStream_t stream) {
  constexpr int kWideV = kWideClasses<Accumulation<S>>;
  if (batch.samples == 0) return cudaSuccess;
  const auto narrow = NarrowPlan::backward(batch);
  if constexpr (sizeof(Accumulation<S>) == 4) {
    if (narrow.blocks) {
      const auto bytes = static_cast<size_t>(narrow.layout.bytes);
      if (narrow.pairs) {
        with_pairs(batch, [&]<int V, bool kSlack>() {
          PTD_LAUNCH((transition_loss_backward_pair<S, V, kSlack>), narrow.blocks, narrow.threads,
                     bytes, stream, batch, narrow.layout, rule, grads);
        });
      } else {
        PTD_LAUNCH(transition_loss_backward_lone<S>, narrow.blocks, narrow.threads, bytes, stream,
                   batch, narrow.layout, rule, grads);
      }
      return cudaGetLastError();
    }
  }
  if (is_grouped(batch)) {
    const GroupedPlan plan(batch);
    with_grouped(batch, plan, [&]<int E, bool kVector, bool kSlack>() {
      allow_shared(transition_loss_backward_grouped<S, E, kVector, kSlack>, plan.bytes);
      PTD_LAUNCH((transition_loss_backward_grouped<S, E, kVector, kSlack>), plan.grid,
                 kGroupedThreads, plan.bytes, stream, batch, plan.layout, rule, grads);
    });
  } else {
    const WidePlan plan(batch);
    PTD_LAUNCH((transition_loss_backward_wide<S, kWideV>), plan.blocks, plan.threads, 0, stream,
               batch, rule, grads);
  }
  return cudaGetLastError();
}

#define PTD_TRANSITION_LOSS(S)                                                                     \
  template int64_t transition_loss_workspace<S>(const LabelBatch<S>&);                             \
  template RowSumSizes transition_loss_scratch<S>(const LabelBatch<S>&);                           \
  template cudaError_t launch_transition_loss<S>(                                                  \
      const LabelBatch<S>&, const LossRule<Accumulation<S>>&, LossOutputs<Accumulation<S>>, void*, \
      const RowSumScratch<Accumulation<S>>&, cudaStream_t);                                        \
  template cudaError_t launch_transition_loss_backward<S>(const LabelBatch<S>&,                    \
                                                          const LossRule<Accumulation<S>>&,        \
                                                          const LossGradients<S>&, cudaStream_t);

PTD_TRANSITION_LOSS(float)
PTD_TRANSITION_LOSS(double)
PTD_TRANSITION_LOSS(Half)
PTD_TRANSITION_LOSS(BFloat16)

#undef PTD_TRANSITION_LOSS

}  // namespace ptd
