// Which threads work on what, for the kernels of a LabelBatch: chosen by the sizes and the layouts
// alone, so that sums come out the same every time.
#pragma once

#include "blocks.h"
#include "grouped.cuh"
#include "wide.cuh"

namespace ptd {

// A grouped launch.
struct GroupedPlan {
  GroupedLayout layout;
  bool vector;  // rows are whole vectors of four
  dim3 grid;
  size_t bytes;

  template <class S>
  explicit GroupedPlan(const LabelBatch<S>& batch)
      : layout(grouped_layout(batch.samples, batch.classes, batch.parts,
                              int(sizeof(Accumulation<S>)))),
        vector(batch.classes % 4 == 0 && is_aligned(batch.columns, 16) &&
               batch.logits.stride == 1 && batch.logits.row_stride % 4 == 0 &&
               is_aligned(batch.logits.data, 4 * sizeof(S)) &&
               (!batch.slack || is_aligned(batch.row_sums, 16))),
        grid(static_cast<unsigned>(layout.chunks), static_cast<unsigned>(batch.classes)),
        bytes(dynamic_bytes(layout)) {}

  int64_t blocks() const { return int64_t(grid.x) * grid.y; }
};

// Doubles of more than 32 classes need more registers than a warp per sample has.
template <class S>
bool is_grouped(const LabelBatch<S>& batch) {
  const int most = sizeof(Accumulation<S>) == 4 ? kGroupedMaxClasses : kWarp;
  return batch.classes <= most;
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
