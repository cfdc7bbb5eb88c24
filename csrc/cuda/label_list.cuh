// The samples of a chunk that have one of a few neighbouring labels, in the order of their labels:
// half of a block's warps look through the labels, and eight of them list the samples.
#pragma once

#include "grouped_layout.h"
#include "label_batch.cuh"
#include "reduce.cuh"

namespace ptd {

// A listed sample: its position in the chunk, its slot, and whether it only fills up the K samples
// of a warp.
struct ListEntry {
  uint16_t bits;

  static constexpr int kPositionBits = 12;
  static_assert(1 << kPositionBits == kLongestChunk && kGroupedSlots <= 8);

  __device__ __forceinline__ int position() const { return bits & (kLongestChunk - 1); }
  __device__ __forceinline__ int slot() const { return bits >> kPositionBits & 7; }
  __device__ __forceinline__ bool fills() const { return bits >> 15; }
};

// What a warp sees of 32 labels of a chunk, a bit for each: whether they are listed, and the three
// bits of their slot.
struct alignas(16) FoundLabels {
  unsigned listed, slot[3];

  __device__ __forceinline__ unsigned in_slot(int s) const {
    unsigned found = listed;
#pragma unroll
    for (int b = 0; b < 3; ++b) found &= slot[b] ^ (s >> b & 1 ? 0u : ~0u);
    return found;
  }
};

// Labels in halves of 32 bits.
struct alignas(8) LongLabel {
  unsigned low, high;
};
struct ShortLabel {
  unsigned low;
  static constexpr unsigned high = 0;  // a negative one's low half is no class either
};

// The last warps of a block look through labels; the others have time for other work.
constexpr int kFinders = kGroupedWarps / 2, kFirstFinder = kGroupedWarps - kFinders;

__device__ __forceinline__ bool finds_labels() { return warp_id() >= kFirstFinder; }

// The labels of a chunk, on their way, to the warps that look through them; kDense says that they
// are neighbours.
template <bool kDense, class Label>
struct ChunkLabels {
  static constexpr int kAtOnce = kWarp * kFinders, kSteps = kLongestChunk / kAtOnce;
  static constexpr int kBetweenTests = 4;  // of whether there are more: these go side by side
  Label label[kSteps];

  __device__ __forceinline__ void load(const LabelView& view, int64_t start, int count) {
    const auto* from = static_cast<const Label*>(view.data) + start * (kDense ? 1 : view.stride);
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      label[t].low = 0;
      if (at(t) < count) label[t] = from[kDense ? at(t) : at(t) * view.stride];
    }
  }
  __device__ __forceinline__ static int at(int t) {
    return t * kAtOnce + static_cast<int>(threadIdx.x) - kWarp * kFirstFinder;
  }
  // Whether it is one of `size` from `first` on.
  __device__ __forceinline__ bool is_within(int t, int first, int size) const {
    return label[t].high == 0 && label[t].low - unsigned(first) < unsigned(size);
  }

  // Finds those of `labels` classes from `first` on and, if first is zero, those that are no class.
  // visit(position, listed) for all.
  template <class Visit>
  __device__ __forceinline__ void find(int count, int classes, int first, int labels,
                                       FoundLabels* found,  // shared
                                       const Visit& visit) const {
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      if (t % kBetweenTests == 0 && t * kAtOnce >= count) break;
      const bool is_there = at(t) < count;
      bool listed = is_there && is_within(t, first, labels);
      unsigned slot = label[t].low - unsigned(first);
      if (first == 0 && is_there && !is_within(t, 0, classes)) {
        listed = true;
        slot = kRestSlot;
      }
      FoundLabels words;
      words.listed = __ballot_sync(0xffffffffu, listed);
#pragma unroll
      for (int b = 0; b < 3; ++b) words.slot[b] = __ballot_sync(0xffffffffu, (slot & 1u << b) != 0);
      if (lane_id() == 0) found[at(t) / kWarp] = words;
      visit(at(t), listed);
    }
  }
};

// The last of these list, one to a slot.
constexpr int kFirstLister = kGroupedWarps - kGroupedSlots;

__device__ __forceinline__ bool lists_labels() { return warp_id() >= kFirstLister; }

// Lists what was found among `count` labels, by the warps that do, in two steps with a barrier
// between them; those before and after are left to the caller too.
struct LabelList {
  static constexpr int kWords = kLongestChunk / kWarp / kWarp;
  unsigned words[kWords];  // of a lane, of its warp's slot
  int before;              // in the slot, of the lanes before this one

  __device__ __forceinline__ static int slot() { return warp_id() - kFirstLister; }

  __device__ __forceinline__ void count(const FoundLabels* found, int count,
                                        int* counts) {  // shared, [kGroupedSlots + 1]
    FoundLabels all[kWords];
#pragma unroll
    for (int q = 0; q < kWords; ++q) {
      const int t = kWarp * q + lane_id();
      all[q].listed = 0;
      if (kWarp * t < count) all[q] = found[t];
    }
    int mine = 0;
#pragma unroll
    for (int q = 0; q < kWords; ++q) {
      words[q] = all[q].in_slot(slot());
      mine += __popc(words[q]);
    }
    int up_to = mine;
#pragma unroll
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const int below = __shfl_up_sync(0xffffffffu, up_to, offset);
      if (lane_id() >= offset) up_to += below;
    }
    if (lane_id() == kWarp - 1) counts[slot()] = up_to;
    before = up_to - mine;
  }

  // Fills each slot's samples up to a multiple of K, and leaves in counts[kGroupedSlots] how many
  // times K there are.
  template <int K>
  __device__ __forceinline__ void write(int* counts, uint16_t* list) const {
    // Lane s has slot s.
    const int in_slot = lane_id() < kGroupedSlots ? counts[lane_id()] : 0;
    int items = (in_slot + K - 1) / K;
#pragma unroll
    for (int offset = 1; offset < kGroupedSlots; offset *= 2) {
      const int below = __shfl_up_sync(0xffffffffu, items, offset);
      if (lane_id() >= offset) items += below;
    }
    if (slot() == 0 && lane_id() == kGroupedSlots - 1) counts[kGroupedSlots] = items;
    const int start = K * __shfl_sync(0xffffffffu, items - (in_slot + K - 1) / K, slot());
    const int end = start + __shfl_sync(0xffffffffu, in_slot, slot());
    const int bits = slot() << ListEntry::kPositionBits;
    // The chunk's first sample fills up.
    if (lane_id() < (start - end & (K - 1))) {
      list[end + lane_id()] = static_cast<uint16_t>(0x8000 | bits);
    }
    uint16_t* at = list + start + before;
#pragma unroll
    for (int q = 0; q < kWords; ++q) {
      const int before_first = kWarp * (kWarp * q + lane_id()) + bits - 1;
#pragma unroll 1
      for (unsigned left = words[q]; left; left &= left - 1) {
        *at++ = static_cast<uint16_t>(before_first + __ffs(left));
      }
    }
  }
};

}  // namespace ptd
