// The sum or mean of a batch's losses in the launch that computes them, in a fixed order.
//
// Each block leaves the sum of its losses and of their weights. The block that draws the last
// ticket adds these up, block by block in the order of their numbers.
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

// A block leaves its sums. Whether it is the last to do so; called by one thread.
template <class T>
__device__ __forceinline__ bool leave_sums(const LossOutputs<T>& out, unsigned block,
                                           unsigned blocks, double loss, double weight) {
  out.partials[2 * block] = loss;
  out.partials[2 * block + 1] = weight;
  __threadfence();
  return atomicAdd(out.ticket, 1u) == blocks - 1;
}

// Sums over a warp, by one butterfly for both: of losses in lanes 0 to 15, of weights in the
// others.
__device__ __forceinline__ double sum_halves(double loss, double weight) {
  constexpr int kHalf = kWarp / 2;
  const bool of_weights = lane_id() >= kHalf;
  double sum = of_weights ? weight : loss;
  sum += __shfl_xor_sync(0xffffffffu, of_weights ? loss : weight, kHalf);
  return lanes_sum<kHalf>(sum);
}

// Sums over a warp, in lane 0 alone.
__device__ __forceinline__ void sum_warp(double& loss, double& weight) {
  loss = sum_halves(loss, weight);
  weight = __shfl_xor_sync(0xffffffffu, loss, kWarp / 2);
}

// Sums over the block, of at most kWarps warps, in thread 0 alone.
template <int kWarps>
__device__ __forceinline__ void sum_block(double& loss, double& weight,
                                          double (&scratch)[2][kWarps]) {
  constexpr int kHalf = kWarp / 2;
  const int what = lane_id() / kHalf, warps = static_cast<int>(blockDim.x) / kWarp;
  double sum = sum_halves(loss, weight);
  if (lane_id() % kHalf == 0) scratch[what][warp_id()] = sum;
  __syncthreads();
  if (warp_id() > 0) return;
  sum = 0.0;
#pragma unroll
  for (int w = 0; w < kWarps; w += kHalf) {
    const int warp = w + lane_id() % kHalf;
    if (warp < warps) sum += scratch[what][warp];
  }
  loss = lanes_sum<kHalf>(sum);
  weight = __shfl_xor_sync(0xffffffffu, loss, kHalf);
}

// Called once by one warp of every block, with the sums of what each lane has seen.
template <class T>
__device__ __forceinline__ void finish_loss_by_warp(const LossOutputs<T>& out, double loss,
                                                    double weight) {
  constexpr int kAtOnce = 4;
  const unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.y * gridDim.x + blockIdx.x;
  if (out.losses) {
    if (block == 0 && lane_id() == 0) *out.total_weight = T(0);
    return;
  }
  sum_warp(loss, weight);
  if (blocks > 1) {
    const bool is_last = lane_id() == 0 && leave_sums(out, block, blocks, loss, weight);
    if (!__any_sync(0xffffffffu, is_last)) return;
    const volatile double* partials = out.partials;  // of other blocks: not from this one's cache
    loss = weight = 0.0;
#pragma unroll 1
    for (unsigned start = lane_id(); start < blocks; start += kAtOnce * kWarp) {
      double losses[kAtOnce], weights[kAtOnce];  // all are under way at once
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        const unsigned b = start + a * kWarp;
        losses[a] = b < blocks ? partials[2 * b] : 0.0;
        weights[a] = b < blocks ? partials[2 * b + 1] : 0.0;
      }
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        loss += losses[a];
        weight += weights[a];
      }
    }
    sum_warp(loss, weight);
  }
  if (lane_id() == 0) write_loss(out, loss, weight);
}

// Called once by all threads of every block, with the sums of what each thread has seen.
template <int kWarps, class T>
__device__ __forceinline__ void finish_loss(const LossOutputs<T>& out, double loss, double weight) {
  const unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.y * gridDim.x + blockIdx.x;
  if (out.losses) {
    if (block == 0 && threadIdx.x == 0) *out.total_weight = T(0);
    return;
  }
  __shared__ double scratch[2][kWarps];
  __shared__ bool is_last;
  sum_block(loss, weight, scratch);
  if (blocks == 1) {
    if (threadIdx.x == 0) write_loss(out, loss, weight);
    return;
  }
  if (threadIdx.x == 0) is_last = leave_sums(out, block, blocks, loss, weight);
  __syncthreads();
  if (!is_last) return;
  const volatile double* partials = out.partials;  // of other blocks: not from this one's cache
  loss = weight = 0.0;
  for (unsigned b = threadIdx.x; b < blocks; b += blockDim.x) {
    loss += partials[2 * b];
    weight += partials[2 * b + 1];
  }
  sum_block(loss, weight, scratch);
  if (threadIdx.x == 0) write_loss(out, loss, weight);
}

}  // namespace ptd
