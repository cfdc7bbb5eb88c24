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

// Called once by all threads of every block, with the sums of what each thread has seen.
template <class T>
__device__ __forceinline__ void finish_loss(const LossOutputs<T>& out, double loss, double weight) {
  if (out.losses) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *out.total_weight = T(0);
    return;
  }
  __shared__ double scratch[4][kWarp];
  __shared__ bool is_last;
  loss = block_sum(loss, scratch[0]);
  weight = block_sum(weight, scratch[1]);
  if (gridDim.x == 1) {
    if (threadIdx.x == 0) write_loss(out, loss, weight);
    return;
  }
  if (threadIdx.x == 0) {
    out.partials[2 * blockIdx.x] = loss;
    out.partials[2 * blockIdx.x + 1] = weight;
    __threadfence();
    is_last = atomicAdd(out.ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  const volatile double* partials = out.partials;  // of other blocks: not from this one's cache
  loss = weight = 0.0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
    loss += partials[2 * b];
    weight += partials[2 * b + 1];
  }
  loss = block_sum(loss, scratch[2]);
  weight = block_sum(weight, scratch[3]);
  if (threadIdx.x == 0) write_loss(out, loss, weight);
}

}  // namespace ptd
