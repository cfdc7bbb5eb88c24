// The sum or mean of a batch's losses, computed in the same launch as the losses.
//
// Each block writes the sums of its losses and of their weights, makes them visible by a fence, and
// atomically fetches a ticket. The block with the last ticket adds up the sums of all blocks, in an
// order that does not depend on timing: the result is bitwise reproducible, and no block waits for
// another.
//
// As in cross_entropy, the mean of nothing is 0 / 0.
#pragma once

#include "column/batch.h"
#include "common/reductions.cuh"

namespace ptd {

struct LossSums {
  double loss = 0.0, weight = 0.0;
};

// Sums over a block of whole warps. All threads call, and all receive the result.
__device__ __forceinline__ LossSums block_sums(const LossSums& own) {
  __shared__ double scratch[2][kWarp];
  __syncthreads();  // an earlier call's sums have been read
  const double loss = block_sum(own.loss, scratch[0]);
  return {loss, block_sum(own.weight, scratch[1])};
}

// All threads of every block call this once, each with the sums of the samples it has visited.
template <class T>
__device__ __forceinline__ void finish_loss(const LossOutputs<T>& out,
                                            const LossSums& thread_sums) {
  const unsigned blocks = gridDim.x * gridDim.y, block = blockIdx.y * gridDim.x + blockIdx.x;
  if (out.losses) {
    if (block == 0 && threadIdx.x == 0) *out.total_weight = T(0);
    return;
  }
  __shared__ bool is_last;
  LossSums sums = block_sums(thread_sums);
  if (threadIdx.x == 0) {
    out.partials[2 * block] = sums.loss;
    out.partials[2 * block + 1] = sums.weight;
    __threadfence();
    is_last = atomicAdd(out.ticket, 1u) == blocks - 1;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  const volatile double* partials = out.partials;  // written by other blocks: bypass L1
  sums = {};
  for (unsigned b = threadIdx.x; b < blocks; b += blockDim.x) {
    sums.loss += partials[2 * b];
    sums.weight += partials[2 * b + 1];
  }
  sums = block_sums(sums);
  if (threadIdx.x != 0) return;
  *out.loss = T(out.mean ? sums.loss / sums.weight : sums.loss);
  *out.total_weight = T(sums.weight);
}

}  // namespace ptd
