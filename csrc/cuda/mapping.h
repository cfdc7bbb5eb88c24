// Which threads work on what, for the kernels of a LabelBatch: chosen by the sizes and the layouts
// alone, so that sums come out the same every time.
#pragma once

#include "blocks.h"
#include "grouped.cuh"
#include "wide.cuh"

namespace ptd {

// Blocks that keep a large GPU busy: eight of 128 threads on each of 80 to 132 multiprocessors.
constexpr int64_t kEnoughBlocks = 768;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline bool is_aligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// A grouped launch: C * chunks blocks.
struct GroupedPlan {
  int chunks, stretch;
  bool vector;  // rows are whole vectors of four
  unsigned blocks;

  template <class S>
  explicit GroupedPlan(const LabelBatch<S>& batch) {
    // A power of two, so that blocks which follow each other on a multiprocessor, 80 or 108 or 132
    // blocks apart, tend to have the same chunk, and find its labels in L1.
    int64_t wanted = 1;
    while (wanted * batch.classes < kEnoughBlocks) wanted *= 2;
    const int64_t each = ceil_div(batch.samples, wanted * kGroupedWarps);
    const int64_t shortest = kWarp;
    const int64_t length = each < shortest ? shortest : each;
    stretch = static_cast<int>(length < kLongestStretch ? ceil_div(length, kWarp) * kWarp
                                                        : kLongestStretch);
    const int64_t needed = ceil_div(batch.samples, int64_t(stretch) * kGroupedWarps);
    chunks = static_cast<int>(needed > 1 ? needed : 1);
    blocks = static_cast<unsigned>(chunks) * static_cast<unsigned>(batch.classes);
    vector = batch.classes % 4 == 0 && is_aligned(batch.columns, 16) && batch.logits.stride == 1 &&
             batch.logits.row_stride % 4 == 0 && is_aligned(batch.logits.data, 4 * sizeof(S));
  }
};

// Doubles of more than 32 classes need more registers than a warp per sample has.
template <class S>
bool is_grouped(const LabelBatch<S>& batch) {
  return batch.classes <= (sizeof(Accumulation<S>) == 4 ? kGroupedMaxClasses : kWarp);
}

// run.template operator()<V, kVector>()
template <class S, class Run>
void with_grouped(const LabelBatch<S>& batch, const GroupedPlan& plan, const Run& run) {
  if (batch.classes <= kWarp) return run.template operator()<1, false>();
  if constexpr (sizeof(Accumulation<S>) == 4) {
    if (plan.vector) return run.template operator()<4, true>();
    return run.template operator()<4, false>();
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
