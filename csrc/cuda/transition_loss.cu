#include "transition_loss.h"

#include "mapping.h"
#include "spread.h"
#include "transition_loss_kernels.cuh"

namespace ptd {
namespace {

static_assert(kMostLossClasses == kMostClasses<float>);
static_assert(kMostLossClassesDouble == kMostClasses<double>);

// A narrow launch; where it does not fit, bytes is zero.
struct NarrowPlan {
  unsigned blocks;
  size_t bytes = 0;

  template <class S>
  explicit NarrowPlan(const LabelBatch<S>& batch) {
    constexpr int kSharedOfAnyGpu = 48 * 1024 - 2048;  // less the static part
    if (sizeof(Accumulation<S>) != 4 || batch.classes > kNarrowMaxClasses) return;
    if (int64_t(batch.parts) * batch.classes > kSharedOfAnyGpu) return;
    const bool slack = batch.slack != nullptr;
    const int needed = batch.classes <= 10
                           ? NarrowLayout<5>(batch.classes, batch.parts, slack, sizeof(S)).bytes
                           : NarrowLayout<8>(batch.classes, batch.parts, slack, sizeof(S)).bytes;
    if (needed > kSharedOfAnyGpu) return;
    const int64_t wanted = ceil_div(batch.samples, kNarrowBlockSamples);
    blocks = static_cast<unsigned>(wanted > 1 ? wanted : 1);
    bytes = static_cast<size_t>(needed);
  }
};

// run.template operator()<V, kSlack>()
template <class S, class Run>
void with_narrow(const LabelBatch<S>& batch, const Run& run) {
  if (batch.classes <= 10) {
    return batch.slack ? run.template operator()<5, true>() : run.template operator()<5, false>();
  }
  return batch.slack ? run.template operator()<8, true>() : run.template operator()<8, false>();
}

template <class S>
int64_t blocks_of(const LabelBatch<S>& batch) {
  const NarrowPlan narrow(batch);
  if (narrow.bytes) return narrow.blocks;
  return is_grouped(batch) ? GroupedPlan(batch).blocks : WidePlan(batch).blocks;
}

}  // namespace

template <class S>
int64_t transition_loss_workspace(const LabelBatch<S>& batch) {
  const int64_t blocks = blocks_of(batch);
  return blocks > 1 ? int64_t(sizeof(double)) * (2 + 2 * blocks) : 0;
}

template <class S>
cudaError_t launch_transition_loss(const LabelBatch<S>& batch,
                                   const LossRule<Accumulation<S>>& rule,
                                   LossOutputs<Accumulation<S>> out, void* workspace,
                                   cudaStream_t stream) {
  constexpr int kWideV = kWideClasses<Accumulation<S>>;
  if (!out.losses && blocks_of(batch) > 1) {
    out.ticket = static_cast<unsigned*>(workspace);
    out.partials = static_cast<double*>(workspace) + 2;
    const cudaError_t error = cudaMemsetAsync(out.ticket, 0, sizeof(unsigned), stream);
    if (error != cudaSuccess) return error;
  }
  const NarrowPlan narrow(batch);
  if constexpr (sizeof(Accumulation<S>) == 4) {
    if (narrow.bytes) {
      with_narrow(batch, [&]<int V, bool kSlack>() {
        PTD_LAUNCH((transition_loss_narrow<S, V, kSlack>), narrow.blocks, kNarrowThreads,
                   narrow.bytes, stream, batch, rule, out);
      });
      return cudaGetLastError();
    }
  }
  if (batch.slack) {
    const cudaError_t error = launch_row_sums(without_logits(batch), stream);
    if (error != cudaSuccess) return error;
  }
  if (is_grouped(batch)) {
    const GroupedPlan plan(batch);
    with_grouped(batch, plan, [&]<int V, bool kVector>() {
      PTD_LAUNCH((transition_loss_grouped<S, V, kVector>), plan.blocks, kGroupedThreads, 0, stream,
                 batch, rule, out, plan.chunks, plan.stretch);
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
  const NarrowPlan narrow(batch);
  if constexpr (sizeof(Accumulation<S>) == 4) {
    if (narrow.bytes) {
      with_narrow(batch, [&]<int V, bool kSlack>() {
        PTD_LAUNCH((transition_loss_backward_narrow<S, V, kSlack>), narrow.blocks, kNarrowThreads,
                   narrow.bytes, stream, batch, rule, grads);
      });
      return cudaGetLastError();
    }
  }
  if (is_grouped(batch)) {
    const GroupedPlan plan(batch);
    with_grouped(batch, plan, [&]<int V, bool kVector>() {
      PTD_LAUNCH((transition_loss_backward_grouped<S, V, kVector>), plan.blocks, kGroupedThreads, 0,
                 stream, batch, rule, grads, plan.chunks, plan.stretch);
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
  template cudaError_t launch_transition_loss<S>(                                                  \
      const LabelBatch<S>&, const LossRule<Accumulation<S>>&, LossOutputs<Accumulation<S>>, void*, \
      cudaStream_t);                                                                               \
  template cudaError_t launch_transition_loss_backward<S>(const LabelBatch<S>&,                    \
                                                          const LossRule<Accumulation<S>>&,        \
                                                          const LossGradients<S>&, cudaStream_t);

PTD_TRANSITION_LOSS(float)
PTD_TRANSITION_LOSS(double)
PTD_TRANSITION_LOSS(Half)
PTD_TRANSITION_LOSS(BFloat16)

#undef PTD_TRANSITION_LOSS

}  // namespace ptd
