// The samples of a chunk that have one of a few neighbouring labels, in the order of their labels,
// listed by all threads of a block.
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

// The labels of a chunk, on their way; kDense says that they are neighbours.
template <bool kDense, class Label>
struct ChunkLabels {
  static constexpr int kSteps = kLongestChunk / kGroupedThreads;
  Label label[kSteps];
  int count;

  __device__ __forceinline__ ChunkLabels(const LabelView& view, int64_t start, int count)
      : count(count) {
    const auto* from = static_cast<const Label*>(view.data) + start * (kDense ? 1 : view.stride);
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      label[t].low = 0;
      if (is_there(t)) label[t] = from[kDense ? at(t) : at(t) * view.stride];
    }
  }
  __device__ __forceinline__ static int at(int t) {
    return t * kGroupedThreads + static_cast<int>(threadIdx.x);
  }
  __device__ __forceinline__ bool is_there(int t) const { return at(t) < count; }
  // Whether it is one of `size` from `first` on.
  __device__ __forceinline__ bool is_within(int t, int first, int size) const {
    return is_there(t) && label[t].high == 0 && label[t].low - unsigned(first) < unsigned(size);
  }

  // Finds those of `labels` classes from `first` on and, if first is zero, those that are no class.
  // found_one(position) by all lanes of the warp for each.
  template <class FoundOne>
  __device__ __forceinline__ void find(int classes, int first, int labels,
                                       FoundLabels* found,  // shared
                                       const FoundOne& found_one) const {
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      if (t * kGroupedThreads >= count) break;
      bool listed = is_within(t, first, labels);
      unsigned slot = label[t].low - unsigned(first);
      if (first == 0 && is_there(t) && !is_within(t, 0, classes)) {
        listed = true;
        slot = kRestSlot;
      }
      FoundLabels words;
      words.listed = __ballot_sync(0xffffffffu, listed);
#pragma unroll
      for (int b = 0; b < 3; ++b) words.slot[b] = __ballot_sync(0xffffffffu, (slot >> b & 1) != 0);
      if (lane_id() == 0) found[t * kGroupedWarps + warp_id()] = words;
#pragma unroll 1
      for (unsigned left = words.listed; left; left &= left - 1) {
        found_one(kWarp * (t * kGroupedWarps + warp_id()) + __ffs(left) - 1);
      }
    }
  }
};

// Lists what was found among `count` labels, with each slot's samples filled up to a multiple of K,
// and leaves in counts[kGroupedSlots] how many times K there are. By all threads: four warps have a
// slot, and each lane of these a word. Barriers before and after are left to the caller.
template <int K>
__device__ __forceinline__ void list_labels(const FoundLabels* found, int count,
                                            int* counts,  // shared, [kGroupedSlots + 1]
                                            uint16_t* list) {
  constexpr int kWords = kLongestChunk / kWarp / kWarp;
  static_assert(kWords * kGroupedSlots == kGroupedWarps);
  const int own = warp_id() / kWords, own_word = warp_id() % kWords;
  unsigned word = 0;
  int mine = 0, before = 0;
#pragma unroll
  for (int q = 0; q < kWords; ++q) {
    const int t = kWarp * q + lane_id();
    const unsigned in_own = kWarp * t < count ? found[t].in_slot(own) : 0u;
    const int in_word = __popc(in_own);
    if (q < own_word) before += in_word;
    if (q == own_word) word = in_own;
    mine += in_word;
  }
  int up_to = mine;
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, up_to, offset);
    if (lane_id() >= offset) up_to += below;
  }
  if (own_word == 0 && lane_id() == kWarp - 1) counts[own] = up_to;
  __syncthreads();
  // Lane s has slot s.
  const int in_slot = lane_id() < kGroupedSlots ? counts[lane_id()] : 0;
  int items = (in_slot + K - 1) / K;
#pragma unroll
  for (int offset = 1; offset < kGroupedSlots; offset *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, items, offset);
    if (lane_id() >= offset) items += below;
  }
  if (threadIdx.x == kGroupedSlots - 1) counts[kGroupedSlots] = items;
  const int start = K * __shfl_sync(0xffffffffu, items - (in_slot + K - 1) / K, own);
  const int last = start + __shfl_sync(0xffffffffu, in_slot, own) - 1;
  int at = start + up_to - mine + before;
#pragma unroll 1
  for (unsigned left = word; left; left &= left - 1, ++at) {
    const int position = kWarp * (kWarp * own_word + lane_id()) + __ffs(left) - 1;
    const int bits = own << ListEntry::kPositionBits | position;
    list[at] = static_cast<uint16_t>(bits);
    if (at < last) continue;
#pragma unroll 1
    for (int filler = at + 1; filler % K; ++filler)
      list[filler] = static_cast<uint16_t>(bits | 0x8000);
  }
}

}  // namespace ptd
