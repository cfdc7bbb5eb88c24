// How a grouped launch (grouped.cuh) divides samples and labels among blocks, and the dynamic
// shared memory of a block.
#pragma once

#include "blocks.h"

namespace ptd {

constexpr int kGroupedWarps = 32;
constexpr int kGroupedThreads = 32 * kGroupedWarps;
constexpr int kGroupedMaxClasses = 128;
// K, the samples of a warp at once: as many as there are registers for, with E classes in a lane.
template <class T, int E>
constexpr int kGroupedSamples = E == 1 && sizeof(T) == 4 ? 4 : 2;
// That of the losses, forward.
template <class T, int E, bool kVector>
constexpr int kGroupedLossSamples = kVector ? 4 : kGroupedSamples<T, E>;
constexpr int kStagedParts = 32;  // at most

// A block's slots are its labels, at most seven, and one for what is no class.
constexpr int kGroupedLabels = 7, kRestSlot = kGroupedLabels, kGroupedSlots = kGroupedLabels + 1;
constexpr int kLongestChunk = 4096;  // of samples

struct GroupedLayout {
  int chunks, length, last_length;  // of samples; the grid is [chunks, groups of labels]
  int labels;                       // of a group
  int staged_parts;                 // of each at a time: all, or else there is one label
  // The columns are [lanes, pitch] vectors of E numbers: lane l's classes of all staged parts
  // follow each other. A pitch that is odd takes lanes to different banks.
  int pitch;
  int weight_rows;  // a part's weights each: an even number, for two are one vector
  // Where the rest begins, in bytes.
  int weights;  // [warps, weight_rows, K] numbers; before that, which labels there are
  int list;     // of samples, two bytes each
  int seen;     // [2, warps K] doubles: losses and weights
  int bytes;
};

#ifndef __CUDACC_RTC__

// For K samples of a warp at once, and `bytes` of a number.
inline GroupedLayout grouped_layout(int64_t samples, int classes, int parts, int K, int bytes) {
  constexpr int64_t kShortest = 256;     // chunk
  constexpr int kRoom = 64 * 1024 - 64;  // of a block, on the GPUs that have least; some is static
  const int E = classes <= 32 ? 1 : 4;
  const auto up = [](int64_t x) { return static_cast<int>(ceil_div(x, 16) * 16); };
  const auto column_bytes = [&](int rows) {
    return up(ceil_div(classes, E) * (rows | 1) * E * bytes);
  };
  const auto weight_rows = [](int staged) { return (staged + 1) / 2 * 2; };
  const auto weight_bytes = [&](int staged) {
    const int weights = kGroupedWarps * K * weight_rows(staged) * bytes;
    const int found = kLongestChunk / 32 * 16;
    return up(weights > found ? weights : found);
  };
  const auto list_bytes = [&](int length) { return up(2 * (length + kGroupedSlots * (K - 1))); };
  const int seen_bytes = 2 * kGroupedWarps * K * 8;
  GroupedLayout layout;
  // As many labels as there is room for, and then as leave the fewest multiprocessors idle.
  double best = 0;
  for (int labels = kGroupedLabels; labels > 0; --labels) {
    const int64_t groups = ceil_div(classes, labels);
    const int64_t waves = ceil_div(groups * ceil_div(samples, kLongestChunk), kProcessors);
    int64_t chunks = waves * kProcessors / groups;
    if (chunks > ceil_div(samples, kShortest)) chunks = ceil_div(samples, kShortest);
    if (chunks < 1) chunks = 1;
    const int length = static_cast<int>(ceil_div(ceil_div(samples, chunks), 32) * 32);
    if (samples > 0) chunks = ceil_div(samples, length);
    const int room = kRoom - list_bytes(length) - seen_bytes;
    int staged = parts < kStagedParts ? parts : kStagedParts;
    while (column_bytes(labels * staged) + weight_bytes(staged) > room) --staged;
    if (labels > 1 && staged < parts) continue;
    const double busy = double(groups * chunks) / double(ceil_div(groups * chunks, kProcessors));
    if (busy <= best) continue;
    best = busy;
    layout.labels = labels;
    layout.chunks = static_cast<int>(chunks);
    layout.length = length;
    layout.staged_parts = staged;
  }
  layout.last_length = static_cast<int>(samples - int64_t(layout.chunks - 1) * layout.length);
  layout.pitch = layout.labels * layout.staged_parts | 1;
  layout.weight_rows = weight_rows(layout.staged_parts);
  layout.weights = column_bytes(layout.labels * layout.staged_parts);
  layout.list = layout.weights + weight_bytes(layout.staged_parts);
  layout.seen = layout.list + list_bytes(layout.length);
  layout.bytes = layout.seen + seen_bytes;
  return layout;
}

inline int64_t label_groups(const GroupedLayout& layout, int classes) {
  return ceil_div(classes, layout.labels);
}

#endif

}  // namespace ptd
