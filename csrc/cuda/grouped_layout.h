// How a grouped launch (grouped.cuh) divides samples among blocks, and the dynamic shared memory of
// a block.
#pragma once

#include "blocks.h"

namespace ptd {

constexpr int kGroupedWarps = 8;
constexpr int kGroupedThreads = 32 * kGroupedWarps;
constexpr int kGroupedMaxClasses = 128;
// K, the samples of a warp at once: as many as there are registers for, with E classes in a lane.
template <class T, int E>
constexpr int kGroupedSamples = E == 1 && sizeof(T) == 4 ? 4 : 2;
constexpr int kStagedParts = 32;  // at most
constexpr int kGroupedSteps = 8;  // of 32 labels that a warp looks through

struct GroupedLayout {
  int chunks;  // of samples, with a block each for every label: the grid is [chunks, C]
  int length;  // of a chunk: a multiple of the block's threads
  // Column k of the parts, [staged_parts, pitch] numbers at a time; then the positions in the chunk
  // of the samples with label k, [length] of two bytes.
  int staged_parts, pitch;
  int list;  // in bytes
};

#ifndef __CUDACC_RTC__

// `bytes` of a number.
inline GroupedLayout grouped_layout(int64_t samples, int classes, int parts, int bytes) {
  // Enough blocks for 80 multiprocessors, with four at a time on each. A power of two of chunks, so
  // that blocks which follow each other on a multiprocessor, 80 or 108 or 132 blocks apart, tend to
  // have the same chunk, and find its labels in L1.
  constexpr int64_t kEnoughBlocks = 400, kShortest = kGroupedThreads,
                    kLongest = kGroupedSteps * kGroupedThreads;
  int64_t wanted = 1;
  while (2 * wanted * classes <= kEnoughBlocks) wanted *= 2;
  const int64_t each = ceil_div(ceil_div(samples, wanted), kShortest) * kShortest;
  const int64_t length = each < kShortest ? kShortest : each < kLongest ? each : kLongest;
  const int64_t chunks = ceil_div(samples, length);
  GroupedLayout layout;
  layout.length = static_cast<int>(length);
  layout.chunks = static_cast<int>(chunks > 1 ? chunks : 1);
  layout.pitch = classes <= 32 ? classes : (classes + 3) / 4 * 4;
  // Of the kernels' own: weights, and what the block has in common.
  const int own = kGroupedWarps * kStagedParts * 4 * bytes + 256;
  const int room = kGroupedWarps * kSharedOfWarp - own - 2 * layout.length;
  const int most = room / (layout.pitch * bytes);
  layout.staged_parts = most < kStagedParts ? most : kStagedParts;
  if (layout.staged_parts > parts) layout.staged_parts = parts;
  layout.list = (layout.staged_parts * layout.pitch * bytes + 15) / 16 * 16;
  return layout;
}

inline size_t dynamic_bytes(const GroupedLayout& layout) {
  return static_cast<size_t>(layout.list) + 2 * static_cast<size_t>(layout.length);
}

#endif

}  // namespace ptd
