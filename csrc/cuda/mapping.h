// Which threads work on what, for the kernels of a LabelBatch: chosen by the sizes and the layouts
// alone, so that sums come out the same every time.
#pragma once

#include "blocks.h"
#include "grouped.cuh"
#include "quartet.cuh"
#include "wide.cuh"

namespace ptd {

// A grouped launch.
struct GroupedPlan {
  bool vector;  // rows are whole vectors of four, and labels and weights neighbours
  GroupedLayout layout;
  dim3 grid;
  size_t bytes;

  // `is_loss`: of the losses, forward.
  template <class S>
  explicit GroupedPlan(const LabelBatch<S>& batch, bool is_loss = false)
      : vector(has_vectors(batch)),
        layout(grouped_layout(batch.samples, batch.classes, batch.parts,
                              samples_of_warp(batch, is_loss), int(sizeof(Accumulation<S>)),
                              is_loss)),
        grid(static_cast<unsigned>(layout.chunks),
             static_cast<unsigned>(label_groups(layout, batch.classes))),
        bytes(static_cast<size_t>(layout.bytes)) {}

  int64_t blocks() const { return int64_t(grid.x) * grid.y; }
  // Whether the losses, forward, are those of quartet.cuh.
  template <class S>
  bool is_quartet(const LabelBatch<S>& batch) const {
    return vector && !batch.slack && batch.parts <= kStagedParts;
  }

 private:
  template <class S>
  static bool has_vectors(const LabelBatch<S>& batch) {
    // For offsets in a chunk to be of 32 bits, in bytes of logits of any type.
    constexpr int64_t kMostStride =
        (int64_t(1) << 31) / kLongestChunk / int64_t(sizeof(Accumulation<S>)) - 1;
    const auto& logits = batch.logits;
    const auto& weights = batch.weights;
    if (batch.classes <= kWarp || batch.classes % 4 != 0 || sizeof(Accumulation<S>) != 4)
      return false;
    return logits.stride == 1 && logits.row_stride % 4 == 0 && logits.row_stride <= kMostStride &&
           is_aligned(logits.data, 4 * sizeof(S)) && is_aligned(batch.columns, 16) &&
           (!batch.slack || is_aligned(batch.row_sums, 16)) && batch.labels.stride == 1 &&
           (!weights.data || (weights.stride == 1 && weights.row_stride <= kMostStride));
  }
  template <class S>
  int samples_of_warp(const LabelBatch<S>& batch, bool is_loss) const {
    using T = Accumulation<S>;
    if (batch.classes <= kWarp) return kGroupedSamples<T, 1>;
    if (!is_loss || !vector) return kGroupedSamples<T, 4>;
    if (is_quartet(batch)) return kQuartet;
    return batch.slack ? kGroupedLossSamples<T, 4, true, true> : kGroupedSamples<T, 4>;
  }
};

// Doubles of more than 32 classes need more registers than a warp per sample has.
template <class S>
bool is_grouped(const LabelBatch<S>& batch) {
  const int most = sizeof(Accumulation<S>) == 4 ? kGroupedMaxClasses : kWarp;
  return batch.classes <= most;
}

// Lets a kernel have more than 48 KB of shared memory. What goes wrong shows in the launch.
template <class Kernel>
void allow_shared(Kernel* kernel, size_t bytes) {
  constexpr size_t kUnasked = 48 * 1024;
  if (bytes <= kUnasked) return;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
}

// run.template operator()<E, kVector, kSlack>()
template <class S, class Run>
void with_grouped(const LabelBatch<S>& batch, const GroupedPlan& plan, const Run& run) {
  const auto with = [&]<int E, bool kVector>() {
    batch.slack ? run.template operator()<E, kVector, true>()
                : run.template operator()<E, kVector, false>();
  };
  if (batch.classes <= kWarp) return with.template operator()<1, false>();
  if constexpr (sizeof(Accumulation<S>) == 4) {
    if (plan.vector) return with.template operator()<4, true>();
    return with.template operator()<4, false>();
  }
}

// run.template operator()<E>(), for more than 32 classes: E in a lane.
template <class Run>
void with_quartet(int classes, const Run& run) {
  static_assert(kGroupedMaxClasses == 4 * kWarp);
  classes <= 2 * kWarp ? run.template operator()<2>() : run.template operator()<4>();
}

// A wide launch: a sample per block.
struct WidePlan {
  unsigned blocks, threads;

  template <class S>
  explicit WidePlan(const LabelBatch<S>& batch) {
    constexpr int64_t kMostBlocks = 1 << 14, kPerThread = kWideClasses<Accumulation<S>>;
    const int64_t wanted = batch.samples < kMostBlocks ? batch.samples : kMostBlocks;
    blocks = static_cast<unsigned>(wanted > 1 ? wanted : 1);
    // Of blocks of one warp, shared memory has no room for 32.
    const unsigned warps = whole_warps(ceil_div(batch.classes, kPerThread));
    threads = kWarp * (warps > 2 ? warps : 2);
  }
};

}  // namespace ptd
