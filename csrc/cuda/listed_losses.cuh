// The losses of the samples that a block lists by label, and its part in their sum or mean.
#pragma once

#include "grouped_block.cuh"
#include "loss_mean.cuh"
#include "transition_loss_sample.cuh"

namespace ptd {

constexpr int kLossWarps = kGroupedWarps - 1;  // that take samples, of a loss forward

// The losses of a block's listed samples, in shared memory by position in the chunk, and their sum.
template <class Block>
struct ListedLosses {
  using T = typename Block::T;
  const Block& block;

  __device__ __forceinline__ T& of(int position) const {
    return reinterpret_cast<T*>(block.shared + block.layout.losses)[position];
  }

  // Called by all threads when theirs are there.
  __device__ __forceinline__ void finish(const LossRule<T>& rule, const LossOutputs<T>& out) const {
    if (out.losses) {
      if (block_of_grid() == 0 && threadIdx.x == 0) *out.total_weight = T(0);
      return;
    }
    // The last warp has no samples: what does not wait for losses is done while others are at work.
    // Losses are added up in the order of the samples, whatever that of their list.
    const bool adds_up = warp_id() == kLossWarps;
    WarpMean<T> mean(out);
    unsigned listed = 0;
    Places places;
    if (adds_up) {
      const bool is_last = lane_id() == 0 && draws_last_ticket(out);
      listed = block.list().write_in_order(block.samples(), order());
      const double weight = lanes_sum<kGroupedSlots>(weight_of_slot(rule));
      places = places_from(lane_id(), listed);
      mean.begin(__any_sync(0xffffffffu, is_last), weight);
    }
    __syncthreads();
    if (adds_up) mean.finish(sum_of_lane(listed, places));
  }

 private:
  // Of some samples, in the chunk; -1 where there is none.
  static constexpr int kAtOnce = 4;
  struct Places {
    int of[kAtOnce];
  };

  __device__ __forceinline__ uint16_t* order() const {
    return reinterpret_cast<uint16_t*>(block.shared + block.layout.order);
  }
  __device__ __forceinline__ Places places_from(unsigned at, unsigned listed) const {
    Places places;
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      places.of[a] = at + a * kWarp < listed ? order()[at + a * kWarp] : -1;
    }
    return places;
  }
  // Of all samples in slot l % 8, for lane l.
  __device__ __forceinline__ double weight_of_slot(const LossRule<T>& rule) const {
    const int slot = lane_id() % kGroupedSlots, label = block.label_of(slot);
    const unsigned samples = block.counts[slot];
    if (samples == 0 || slot >= block.labels() || label < 0) return 0.0;
    return samples * double(class_weight_of(rule, label));
  }
  // Of the samples that write_in_order listed; `places` are a lane's first.
  __device__ __forceinline__ double sum_of_lane(unsigned listed, Places places) const {
    double sum = 0.0;
#pragma unroll 1
    for (unsigned at = lane_id();;) {
      T some[kAtOnce];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) some[a] = places.of[a] < 0 ? T(0) : of(places.of[a]);
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) sum += double(some[a]);
      at += kAtOnce * kWarp;
      if (at >= listed) return sum;
      places = places_from(at, listed);
    }
  }
};

}  // namespace ptd
