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
template <class T, int E, bool kVector, bool kSlack>
constexpr int kGroupedLossSamples = kVector && kSlack ? 4 : kGroupedSamples<T, E>;
constexpr int kStagedParts = 32;  // whose weights are in shared memory at once, at most

// A block's slots are its labels, at most seven, and one for what is no class.
constexpr int kGroupedLabels = 7, kGroupedSlots = kGroupedLabels + 1;
constexpr int kLongestChunk = 4096;  // of samples

struct GroupedLayout {
  int chunks, length, last_length;  // of samples; the grid is [chunks, groups of labels]
  int labels;                       // of a group
  // Shared memory begins with the weights of each warp's samples: [warps, weight_rows, K] numbers.
  int weight_rows;  // a part's weights each: an even number, for two are one vector
  // Where the rest begins, in bytes.
  int list;    // [labels + 1, length] places of samples in the chunk, two bytes each
  int losses;  // of the chunk's samples, where there is room for them, numbers
  int order;   // listed samples, in the order of the chunk, two bytes each
  int bytes;
};

#ifndef __CUDACC_RTC__

// For K samples of a warp at once, and `bytes` of a number.
inline GroupedLayout grouped_layout(int64_t samples, int classes, int parts, int K, int bytes,
                                    bool has_losses) {
  constexpr int64_t kShortest = 256;  // chunk
  // Of a block, on the GPUs that have least; some is static.
  constexpr int kRoom = 64 * 1024 - 1024;
  // Of a V100's first-level cache, beside that much shared memory: for columns.
  constexpr int64_t kCached = 48 * 1024;
  const auto up = [](int64_t x) { return static_cast<int>(ceil_div(x, 16) * 16); };
  GroupedLayout layout;
  layout.weight_rows = ((parts < kStagedParts ? parts : kStagedParts) + 1) / 2 * 2;
  layout.list = up(int64_t(kGroupedWarps) * layout.weight_rows * K * bytes);
  const auto list_bytes = [&](int labels, int length) { return up((labels + 1) * length * 2); };
  const auto loss_bytes = [&](int length) { return has_losses ? up(length * bytes) : 0; };
  const auto order_bytes = [&](int length) { return has_losses ? up(length * 2) : 0; };
  const auto room_for = [&](int labels, int length) {
    return layout.list + list_bytes(labels, length) + loss_bytes(length) + order_bytes(length);
  };
  // As many labels as there is room for, and then as leave the fewest multiprocessors idle.
  double best = 0;
  for (int labels = kGroupedLabels; labels > 0; --labels) {
    if (labels > 1 && int64_t(labels) * parts * classes * bytes > kCached) continue;
    int longest = kLongestChunk;
    while (room_for(labels, longest) > kRoom) longest -= 32;
    const int64_t groups = ceil_div(classes, labels);
    const int64_t waves = ceil_div(groups * ceil_div(samples, longest), kProcessors);
    int64_t chunks = waves * kProcessors / groups;
    if (chunks > ceil_div(samples, kShortest)) chunks = ceil_div(samples, kShortest);
    if (chunks < 1) chunks = 1;
    const int length = static_cast<int>(ceil_div(ceil_div(samples, chunks), 32) * 32);
    if (samples > 0) chunks = ceil_div(samples, length);
    const double busy = double(groups * chunks) / double(ceil_div(groups * chunks, kProcessors));
    if (busy <= best) continue;
    best = busy;
    layout.labels = labels;
    layout.chunks = static_cast<int>(chunks);
    layout.length = length;
  }
  layout.last_length = static_cast<int>(samples - int64_t(layout.chunks - 1) * layout.length);
  layout.losses = layout.list + list_bytes(layout.labels, layout.length);
  layout.order = layout.losses + loss_bytes(layout.length);
  layout.bytes = layout.order + order_bytes(layout.length);
  return layout;
}

inline int64_t label_groups(const GroupedLayout& layout, int classes) {
  return ceil_div(classes, layout.labels);
}

#endif

}  // namespace ptd
