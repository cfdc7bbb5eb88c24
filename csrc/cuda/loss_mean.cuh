// The sum or mean of a batch's losses in the launch that computes them, in a fixed order.
//
// Each block draws a ticket, and leaves the sum of its losses and of their weights. The block that
// draws the last ticket adds these up: each thread every so many, in the order of their numbers,
// and then threads by a butterfly. All others have started by then, and none of them waits for
// another, so it may wait for what they leave. Sums that have not been left yet are told by their
// bits: no fence is needed, and tickets can be drawn while sums are still on their way.
//
// As in cross_entropy, the mean of nothing is 0 / 0.
#pragma once

#include "reduce.cuh"
#include "transition_loss_args.h"

namespace ptd {

template <class T>
__device__ __forceinline__ void write_loss(const LossOutputs<T>& out, double loss, double weight) {
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
};

// What a block leaves has all bits set until it does. Each of the two is there or not, by itself.
__device__ __forceinline__ bool is_left(double sum) { return __double_as_longlong(sum) != -1; }
// A sum as it is, but for the bits of a NaN: these may be any, and must neither be all set nor
// differ with the block that adds it up.
__device__ __forceinline__ double with_one_nan(double sum) {
  return sum == sum ? sum : __longlong_as_double(0x7ff8000000000000ll);
}
// Called by one thread, with one NaN.
__device__ __forceinline__ void leave_loss(double* partials, unsigned block, double loss) {
  *const_cast<volatile double*>(partials + 2 * block) = loss;
}
__device__ __forceinline__ void leave_weight(double* partials, unsigned block, double weight) {
  *const_cast<volatile double*>(partials + 2 * block + 1) = weight;
}

// What the blocks leave that a thread adds up: `first`, first + step, and so on, some at once.
struct BlocksOfThread {
  static constexpr int kAtOnce = 4;
  const double* partials;
  unsigned first, step;
  LossSums of[kAtOnce];

  __device__ __forceinline__ BlocksOfThread(const double* partials, unsigned first, unsigned step)
      : partials(partials), first(first), step(step) {}

  __device__ __forceinline__ unsigned block(unsigned at) const { return first + at * step; }
  // Asks for those from the thread's `start`th on, but for what this block leaves: zero.
  __device__ __forceinline__ void ask(unsigned start) {
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      const unsigned b = block(start + a);
      of[a] = {};
      if (b >= blocks_of_grid() || b == block_of_grid()) continue;
      const volatile double* from = partials + 2 * b;  // not from this multiprocessor's cache
      of[a] = {from[0], from[1]};
    }
  }
  __device__ __forceinline__ bool are_left() const {
    bool left = true;
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) left = left && is_left(of[a].loss) && is_left(of[a].weight);
    return left;
  }

  // Waits for all. `own` is what this block would leave.
  __device__ __forceinline__ LossSums sum(const LossSums& own) {
    LossSums sums{};
#pragma unroll 1
    for (unsigned start = 0; block(start) < blocks_of_grid(); start += kAtOnce) {
      do ask(start);
      while (!are_left());
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        sums.add(block(start + a) == block_of_grid() ? own : of[a]);
      }
    }
    return sums;
  }
};

// The losses of sum(), in the thread that has this block's among them, with the same additions: as
// many as can be are done before that is known.
struct BlocksAroundOwn {
  BlocksOfThread blocks;
  double before = 0.0;  // of losses of the blocks before this one
  unsigned start = 0;   // of what is held; what is in `before` is zero there

  // When all are left.
  __device__ __forceinline__ void hold() {
#pragma unroll 1
    while (true) {
      blocks.ask(start);
#pragma unroll
      for (int a = 0; a < BlocksOfThread::kAtOnce; ++a) {
        if (blocks.block(start + a) > block_of_grid()) continue;
        before += blocks.of[a].loss;
        blocks.of[a].loss = 0.0;
      }
      if (blocks.block(start + BlocksOfThread::kAtOnce) > block_of_grid()) return;
      start += BlocksOfThread::kAtOnce;
    }
  }
  __device__ __forceinline__ double sum(double own) {
    double sum = before + own;
#pragma unroll 1
    while (true) {
#pragma unroll
      for (int a = 0; a < BlocksOfThread::kAtOnce; ++a) sum += blocks.of[a].loss;
      start += BlocksOfThread::kAtOnce;
      if (blocks.block(start) >= blocks_of_grid()) return sum;
      blocks.ask(start);
    }
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

// x / y, given 1 / y.
__device__ __forceinline__ double quotient(double x, double y, double inverse) {
  const double near = x * inverse, nearer = fma(fma(-near, y, x), inverse, near);
  return nearer == nearer ? nearer : x / y;  // infinities, and y = 0
}

// A block's part in the sum or mean, by one of its warps: as much as can be done before its losses
// are there, and the rest.
template <class T>
class WarpMean {
 public:
  __device__ __forceinline__ explicit WarpMean(const LossOutputs<T>& out)
      : out(out), around{BlocksOfThread(out.partials, lane_id(), kWarp)} {}

  // `weight` is the block's, in all lanes; the block that draws the last ticket is_last.
  __device__ __forceinline__ void begin(bool is_last, double weight) {
    adds_up = is_last || blocks_of_grid() == 1;
    has_own = block_of_grid() % kWarp == unsigned(lane_id());
    weight = with_one_nan(weight);
    if (!adds_up) {
      if (has_own) leave_weight(out.partials, block_of_grid(), weight);
      return;
    }
    LossSums sums = around.blocks.sum({0.0, weight});
    __syncwarp();
    // What a lane receives in this butterfly has nothing of its own in it.
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      received[k] = __shfl_xor_sync(0xffffffffu, sums.loss, kWarp / 2 >> k);
      sums.loss += received[k];
    }
    weight = with_one_nan(lanes_sum<kWarp>(sums.weight));
    if (!has_own) return;
    *out.total_weight = T(weight);
    divisor = out.mean ? weight : 1.0;
    inverse = 1.0 / divisor;
    around.hold();
  }

  // `loss` is the block's, a share of it in every lane.
  __device__ __forceinline__ void finish(double loss) {
    loss = with_one_nan(lanes_sum<kWarp>(loss));
    if (!has_own) return;
    if (!adds_up) return leave_loss(out.partials, block_of_grid(), loss);
    loss = around.sum(loss);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) loss += received[k];
    *out.loss = T(with_one_nan(quotient(loss, divisor, inverse)));
  }

 private:
  static constexpr int kSteps = 5;
  static_assert(1 << kSteps == kWarp);
  const LossOutputs<T>& out;
  BlocksAroundOwn around;
  bool adds_up;             // this block
  bool has_own;             // this lane, its block
  double received[kSteps];  // of losses
  double divisor, inverse;
};

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
  LossSums sums = sum_block(seen, scratch);
  sums = {with_one_nan(sums.loss), with_one_nan(sums.weight)};
  if (threadIdx.x == 0) {
    if (blocks == 1) {
      write_loss(out, sums.loss, sums.weight);
    } else if (is_last) {
      own = sums;
    } else {
      leave_loss(out.partials, block, sums.loss);
      leave_weight(out.partials, block, sums.weight);
    }
  }
  if (!is_last) return;
  __syncthreads();
  sums = BlocksOfThread(out.partials, threadIdx.x, blockDim.x).sum(own);
  sums = sum_block(sums, scratch);
  if (threadIdx.x == 0) write_loss(out, sums.loss, sums.weight);
}

}  // namespace ptd
