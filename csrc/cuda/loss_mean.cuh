// The sum or mean of a batch's losses in the launch that computes them, in a fixed order.
//
// Each block draws a ticket, and leaves the sum of its losses and of their weights. The block that
// draws the last ticket adds these up, block by block in the order of their numbers. All others
// have started by then, and none of them waits for another, so it may wait for what they leave.
// Sums that have not been left yet are told by their bits: no fence is needed, and tickets can be
// drawn while sums are still on their way.
#pragma once

#include "reduce.cuh"
#include "transition_loss_args.h"

namespace ptd {

template <class T>
__device__ __forceinline__ void write_loss(const LossOutputs<T>& out, double loss, double weight) {
  // As in cross_entropy, the mean of nothing is 0 / 0.
  *out.loss = T(out.mean ? loss / weight : loss);
  *out.total_weight = T(weight);
}

__device__ __forceinline__ unsigned blocks_of_grid() { return gridDim.x * gridDim.y; }
__device__ __forceinline__ unsigned block_of_grid() { return blockIdx.y * gridDim.x + blockIdx.x; }

// Called by one thread of every block. Where losses are not reduced, or there is one block, nobody
// is the last of several.
template <class T>
__device__ __forceinline__ bool draws_last_ticket(const LossOutputs<T>& out) {
  if (out.losses || blocks_of_grid() == 1) return false;
  // The ticket starts one below zero.
  return atomicAdd(out.ticket, 1u) == blocks_of_grid() - 2;
}

// Of the losses that a thread or a block has seen, and of their weights.
struct LossSums {
  double loss, weight;

  __device__ __forceinline__ void add(const LossSums& more) {
    loss += more.loss;
    weight += more.weight;
  }

  // What a block leaves has all bits set until it does. Each of the two is there or not, by itself.
  __device__ __forceinline__ static bool is_left(double sum) {
    return __double_as_longlong(sum) != -1;
  }
  __device__ __forceinline__ void read(const double* partials, unsigned block) {
    const volatile double* from = partials + 2 * block;  // not from this multiprocessor's cache
    loss = from[0];
    weight = from[1];
  }
  __device__ __forceinline__ bool are_left() const { return is_left(loss) && is_left(weight); }
  // The same, but for the bits of a NaN: these may be any, and must neither be all set nor differ
  // with the block that adds it.
  __device__ __forceinline__ LossSums with_one_nan() const {
    const double nan = __longlong_as_double(0x7ff8000000000000ll);
    return {loss == loss ? loss : nan, weight == weight ? weight : nan};
  }
  // Called by one thread, with one NaN.
  __device__ __forceinline__ void leave(double* partials, unsigned block) const {
    volatile double* to = partials + 2 * block;
    to[0] = loss;
    to[1] = weight;
  }
};

// What the blocks leave that a thread adds up: `first`, first + step, and so on, some at once.
struct BlocksOfThread {
  static constexpr int kAtOnce = 4;
  const double* partials;
  unsigned first, step;
  LossSums of[kAtOnce];

  __device__ __forceinline__ BlocksOfThread(const double* partials, unsigned first, unsigned step)
      : partials(partials), first(first), step(step) {}

  // Asks for those from the thread's `start`th on, but for what this block leaves.
  __device__ __forceinline__ void ask(unsigned start) {
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      const unsigned b = first + (start + a) * step;
      of[a] = {};
      if (b < blocks_of_grid() && b != block_of_grid()) of[a].read(partials, b);
    }
  }
  // After ask(0). `own` is what this block would leave.
  __device__ __forceinline__ LossSums sum(const LossSums& own) {
    LossSums sums{};
#pragma unroll 1
    for (unsigned start = 0; first + start * step < blocks_of_grid(); start += kAtOnce) {
      if (start > 0) ask(start);
#pragma unroll 1
      while (!all_left()) ask(start);
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        sums.add(first + (start + a) * step == block_of_grid() ? own : of[a]);
      }
    }
    return sums;
  }

 private:
  __device__ __forceinline__ bool all_left() const {
    bool left = true;
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) left = left && of[a].are_left();
    return left;
  }
};

// Sums over a warp, by one butterfly for both: of losses in lanes 0 to 15, of weights in the
// others.
__device__ __forceinline__ double sum_halves(const LossSums& seen) {
  constexpr int kHalf = kWarp / 2;
  const bool of_weights = lane_id() >= kHalf;
  double sum = of_weights ? seen.weight : seen.loss;
  sum += __shfl_xor_sync(0xffffffffu, of_weights ? seen.loss : seen.weight, kHalf);
  return lanes_sum<kHalf>(sum);
}

// Both, in all lanes.
__device__ __forceinline__ LossSums of_halves(double sum) {
  const double other = __shfl_xor_sync(0xffffffffu, sum, kWarp / 2);
  const bool upper = lane_id() >= kWarp / 2;
  return {upper ? other : sum, upper ? sum : other};
}

__device__ __forceinline__ LossSums sum_warp(const LossSums& seen) {
  return of_halves(sum_halves(seen));
}

// Sums over the block, of at most kWarps warps, in the first warp alone.
template <int kWarps>
__device__ __forceinline__ LossSums sum_block(const LossSums& seen, double (&scratch)[2][kWarps]) {
  constexpr int kHalf = kWarp / 2;
  const int what = lane_id() / kHalf, warps = static_cast<int>(blockDim.x) / kWarp;
  double sum = sum_halves(seen);
  if (lane_id() % kHalf == 0) scratch[what][warp_id()] = sum;
  __syncthreads();
  if (warp_id() > 0) return {};
  sum = 0.0;
#pragma unroll
  for (int w = 0; w < kWarps; w += kHalf) {
    const int warp = w + lane_id() % kHalf;
    if (warp < warps) sum += scratch[what][warp];
  }
  return of_halves(lanes_sum<kHalf>(sum));
}

// Called once by one warp of every block. of_lane() are sums of what the block has seen, a share of
// them in every lane.
template <class T, class OfLane>
__device__ __forceinline__ void finish_loss_by_warp(const LossOutputs<T>& out, bool is_last,
                                                    const OfLane& of_lane) {
  const unsigned blocks = blocks_of_grid(), block = block_of_grid();
  if (out.losses) {
    if (block == 0 && lane_id() == 0) *out.total_weight = T(0);
    return;
  }
  // Those of other blocks are on their way while this one's are formed.
  BlocksOfThread left(out.partials, lane_id(), kWarp);
  if (is_last) left.ask(0);
  const LossSums own = of_lane();
  __syncwarp();
  LossSums sums = sum_warp(own).with_one_nan();
  if (blocks > 1) {
    if (!is_last) {
      if (lane_id() == 0) sums.leave(out.partials, block);
      return;
    }
    sums = left.sum(sums);
    __syncwarp();
    sums = sum_warp(sums);
  }
  if (lane_id() == 0) write_loss(out, sums.loss, sums.weight);
}

// Called once by all threads of every block, with the sums of what each thread has seen.
template <int kWarps, class T>
__device__ __forceinline__ void finish_loss(const LossOutputs<T>& out, const LossSums& seen) {
  const unsigned blocks = blocks_of_grid(), block = block_of_grid();
  if (out.losses) {
    if (block == 0 && threadIdx.x == 0) *out.total_weight = T(0);
    return;
  }
  __shared__ double scratch[2][kWarps];
  __shared__ LossSums own;
  __shared__ bool is_last;
  if (threadIdx.x == blockDim.x - 1) is_last = draws_last_ticket(out);
  LossSums sums = sum_block(seen, scratch).with_one_nan();
  if (threadIdx.x == 0) {
    if (blocks == 1) {
      write_loss(out, sums.loss, sums.weight);
    } else if (is_last) {
      own = sums;
    } else {
      sums.leave(out.partials, block);
    }
  }
  if (!is_last) return;
  __syncthreads();
  BlocksOfThread left(out.partials, threadIdx.x, blockDim.x);
  left.ask(0);
  sums = left.sum(own);
  sums = sum_block(sums, scratch);
  if (threadIdx.x == 0) write_loss(out, sums.loss, sums.weight);
}

}  // namespace ptd
