// The samples of a chunk that have one of a few neighbouring labels, listed by label, in no
// particular order: threads draw places in a label's list as they come. So no result may depend on
// a sample's place.
#pragma once

#include "global_memory.cuh"
#include "grouped_layout.h"
#include "label_batch.cuh"
#include "reduce.cuh"

namespace ptd {

// Labels in halves of 32 bits.
struct alignas(8) LongLabel {
  unsigned low, high;
};
struct ShortLabel {
  unsigned low;
  static constexpr unsigned high = 0;  // a negative one's low half is no class either
};

// In shared memory.
struct LabelList {
  unsigned* counts;     // [kGroupedSlots], of what is listed
  uint16_t* positions;  // [slots, length], in the chunk
  unsigned* listed;     // [length / 32]: a bit for each sample of the chunk
  unsigned* drawn;      // the next item to draw, if there is one
  int length;
  unsigned warps;  // that take items; the last warps have none

  // Called by all threads, before a barrier that comes before any sample is added.
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x < kGroupedSlots) counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) *drawn = warps;  // each has one to begin with
  }

  __device__ __forceinline__ void add(int slot, int position) const {
    positions[slot * length + atomicAdd(counts + slot, 1u)] = static_cast<uint16_t>(position);
  }

  // All that is listed of the chunk's `samples`, in their order; returns how many that are. Called
  // by a whole warp.
  __device__ __forceinline__ unsigned write_in_order(int samples, uint16_t* to) const {  // shared
    constexpr int kWords = kLongestChunk / kWarp / kWarp;
    unsigned words[kWords], mine = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int at = kWords * lane_id() + w;
      words[w] = kWarp * at < samples ? listed[at] : 0;
      mine += __popc(words[w]);
    }
    unsigned up_to = mine;
#pragma unroll
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const unsigned below = __shfl_up_sync(0xffffffffu, up_to, offset);
      if (lane_id() >= offset) up_to += below;
    }
    uint16_t* next = to + (up_to - mine);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int before_first = kWarp * (kWords * lane_id() + w) - 1;
#pragma unroll 1
      for (unsigned left = words[w]; left; left &= left - 1) {
        *next++ = static_cast<uint16_t>(before_first + __ffs(static_cast<int>(left)));
      }
    }
    __syncwarp();
    return __shfl_sync(0xffffffffu, up_to, kWarp - 1);
  }
};

// The sample of a lane. K samples of a slot are an item, of a warp; the last one of a slot is
// filled up by the slot's first sample. All in one register.
template <int K>
struct ListedSample {
  unsigned bits;

  static constexpr int kPositionBits = 12, kSlotAt = kPositionBits, kFillsAt = kSlotAt + 4;
  static constexpr int kItemsAt = kFillsAt + 1;
  static_assert(kLongestChunk == 1 << kPositionBits && kGroupedSlots < 1 << 4);
  static_assert(kLongestChunk / K + kGroupedSlots < 1 << (32 - kItemsAt));

  // Of a warp's first item, or none. The last of those that take items tend to go first: they have
  // one where there are fewer than warps. Warps that take none get item 2^32 - 1 or so, which does
  // not exist.
  __device__ __forceinline__ explicit ListedSample(const LabelList& list)
      : ListedSample(list, list.warps - 1u - unsigned(warp_id())) {}

  __device__ __forceinline__ ListedSample(const LabelList& list, unsigned item) {
    // Lane l has slot l % 8.
    static_assert(kGroupedSlots == 8);
    const unsigned lane = opaque(static_cast<unsigned>(lane_id()));  // what comes of it is not kept
    const int own_slot = static_cast<int>(lane % kGroupedSlots);
    const unsigned items = (list.counts[own_slot] + K - 1) / K;
    unsigned up_to = items;
#pragma unroll
    for (int offset = 1; offset < kGroupedSlots; offset *= 2) {
      const unsigned below = __shfl_up_sync(0xffffffffu, up_to, offset, kGroupedSlots);
      if (own_slot >= offset) up_to += below;
    }
    const unsigned earlier = __ballot_sync(0xffffffffu, up_to <= item) % (1u << kGroupedSlots);
    const int slot = __popc(earlier);
    const unsigned before = __shfl_sync(0xffffffffu, up_to - items, slot);
    const unsigned all = __shfl_sync(0xffffffffu, up_to, kGroupedSlots - 1);
    bits = all << kItemsAt | unsigned(slot) << kSlotAt;
    if (!exists()) return;
    const unsigned place = K * (item - before) + lane / (kWarp / K);
    const bool beyond = place >= list.counts[slot];
    bits |=
        unsigned(beyond) << kFillsAt | list.positions[slot * list.length + (beyond ? 0 : place)];
  }

  __device__ __forceinline__ bool exists() const { return slot() < kGroupedSlots; }
  __device__ __forceinline__ int position() const { return static_cast<int>(bits % kLongestChunk); }
  __device__ __forceinline__ int slot() const { return static_cast<int>(bits >> kSlotAt & 15); }
  __device__ __forceinline__ bool fills() const { return bits >> kFillsAt & 1; }
  // Draws the item after those that warps have, if there is one: whoever is done first has it.
  __device__ __forceinline__ bool draw(const LabelList& list) {
    const unsigned items = bits >> kItemsAt;
    if (items <= list.warps) return false;
    unsigned item = 0;
    if (lane_id() == 0) item = atomicAdd(list.drawn, 1u);
    item = __shfl_sync(0xffffffffu, item, 0);
    if (item >= items) return false;
    *this = ListedSample(list, item);
    return true;
  }
};

// The labels of a chunk, on their way; kDense says that they are neighbours.
template <bool kDense, class Label>
struct ChunkLabels {
  static constexpr int kSteps = kLongestChunk / kGroupedThreads;
  Label label[kSteps];

  __device__ __forceinline__ void load(const LabelView& view, int64_t start, int count) {
    const int64_t stride = kDense ? 1 : view.stride;
    const auto* const from = opaque(static_cast<const Label*>(view.data) +
                                    (start + static_cast<int>(threadIdx.x)) * stride);
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      if (at(t) < count) label[t] = read_once(from + t * kGroupedThreads * stride);
    }
  }
  __device__ __forceinline__ static int at(int t) {
    return t * kGroupedThreads + static_cast<int>(threadIdx.x);
  }

  // Lists those of `labels` classes from `first` on and, if first is zero, those that are no class
  // in a slot of their own, the last.
  __device__ __forceinline__ void list(int count, int classes, int first, int labels,
                                       const LabelList& to) const {
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      if (t * kGroupedThreads >= count) break;
      const bool is_there = at(t) < count;
      const unsigned slot = label[t].low - unsigned(first);
      const bool listed = is_there && label[t].high == 0 && slot < unsigned(labels);
      const bool is_class = label[t].high == 0 && label[t].low < unsigned(classes);
      const bool is_rest = is_there && first == 0 && !is_class;
      const unsigned word = __ballot_sync(0xffffffffu, listed || is_rest);
      if (lane_id() == 0 && is_there) to.listed[unsigned(at(t)) / kWarp] = word;
      if (listed || is_rest) to.add(is_rest ? labels : int(slot), at(t));
    }
  }
};

}  // namespace ptd
