// Blocks of one grid hand values over in global memory; each kernel stands beside broken twins.
#include "common/launch.h"

enum class Handover : int64_t {
  fence_of_one,  // after a barrier
  fence_of_all,  // before a barrier
  early_ticket,  // the last block but one takes itself for the last
  no_fence,
  no_barrier,      // before the fence of one thread
  no_barrier_all,  // after the fences of all threads
};

// Sums in one launch: every thread leaves a value, and the block with the last ticket adds up the
// grid's, in order.
__global__ void sum_of_blocks(const float* x, float* values, unsigned* ticket, float* y,
                              Handover handover) {
  using enum Handover;
  __shared__ bool is_last;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = 2 * x[i];
  const bool all_fence = handover == fence_of_all || handover == no_barrier_all;
  if (all_fence) __threadfence();
  if (handover != no_barrier && handover != no_barrier_all) __syncthreads();
  if (threadIdx.x == 0) {
    if (!all_fence && handover != no_fence) __threadfence();
    const unsigned last = gridDim.x - (handover == early_ticket ? 2 : 1);
    is_last = atomicAdd(ticket, 1u) == last;
  }
  __syncthreads();
  if (!is_last || threadIdx.x > 0) return;
  float sum = 0;
  for (unsigned k = 0; k < gridDim.x * blockDim.x; ++k) sum += values[k];
  *y = sum;
  *ticket = 0;
}

extern "C" void launch_sum_of_blocks(const float* x, float* values, unsigned* ticket, float* y,
                                     int64_t blocks, int64_t threads, int64_t handover) {
  PTD_LAUNCH(sum_of_blocks, static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0,
             nullptr, x, values, ticket, y, static_cast<Handover>(handover));
}

// The lanes of a warp leave values, and its first lane publishes them after __syncwarp.
__global__ void sum_of_warps(float* values, unsigned* ticket, float* y, int64_t broken) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = static_cast<float>(i);
  if (!broken) __syncwarp();
  if (threadIdx.x % 32 > 0) return;
  __threadfence();
  if (atomicAdd(ticket, 1u) + 1 < gridDim.x * blockDim.x / 32) return;
  float sum = 0;
  for (unsigned k = 0; k < gridDim.x * blockDim.x; ++k) sum += values[k];
  *y = sum;
}

extern "C" void launch_sum_of_warps(float* values, unsigned* ticket, float* y, int64_t broken) {
  PTD_LAUNCH(sum_of_warps, 5, 64, 0, nullptr, values, ticket, y, broken);
}

// Thread 0 waits until all threads of the block have counted themselves, which orders no other
// accesses, and fences. It does so again after a barrier, but for the twin.
__global__ void sum_of_counted(float* values, unsigned* ticket, float* y, int64_t broken) {
  __shared__ unsigned count;
  __shared__ bool is_last;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  atomicAdd(&count, 1u);
  if (threadIdx.x == 0) {
    while (atomicAdd(&count, 0u) < blockDim.x) {
    }
    __threadfence();
  }
  if (!broken) __syncthreads();
  if (threadIdx.x == 0) {
    if (!broken) __threadfence();
    is_last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x > 0) return;
  float sum = 0;
  for (unsigned k = 0; k < gridDim.x * blockDim.x; ++k) sum += values[k];
  *y = sum;
}

extern "C" void launch_sum_of_counted(float* values, unsigned* ticket, float* y, int64_t broken) {
  PTD_LAUNCH(sum_of_counted, 5, 40, 0, nullptr, values, ticket, y, broken);
}

// Counts blocks; the twin adds without an atomic.
__global__ void count_blocks(unsigned* count, int64_t broken) {
  if (threadIdx.x > 0) return;
  if (broken) {
    *count += 1;
  } else {
    atomicAdd(count, 1u);
  }
}

extern "C" void launch_count_blocks(unsigned* count, int64_t blocks, int64_t broken) {
  PTD_LAUNCH(count_blocks, static_cast<unsigned>(blocks), 32, 0, nullptr, count, broken);
}

// The same, with a first block that sets the counter which the others may have reached already.
__global__ void reset_and_count(unsigned* count) {
  if (blockIdx.x == 0) {
    *count = 0;
  } else {
    atomicAdd(count, 1u);
  }
}

extern "C" void launch_reset_and_count(unsigned* count, int64_t blocks) {
  PTD_LAUNCH(reset_and_count, static_cast<unsigned>(blocks), 1, 0, nullptr, count);
}

// Every block writes its element; in the twin the last two write the same, and the same value.
__global__ void write_elements(uint8_t* y, int64_t broken) {
  const unsigned last = gridDim.x - (broken ? 2 : 1);
  y[blockIdx.x < last ? blockIdx.x : last] = 7;
}

extern "C" void launch_write_elements(uint8_t* y, int64_t blocks, int64_t broken) {
  PTD_LAUNCH(write_elements, static_cast<unsigned>(blocks), 1, 0, nullptr, y, broken);
}

// Block 0 leaves a value and then a flag; block 1 waits for the flag and takes the value.
__global__ void hand_over(int* value, volatile int* flag, int* y, int64_t broken) {
  if (blockIdx.x == 0) {
    *value = 42;
    if (!broken) __threadfence();
    *flag = 1;
  } else {
    while (*flag != 1) __threadfence();
    *y = *value;
    *flag = 0;
  }
}

extern "C" void launch_hand_over(int* value, int* flag, int* y, int64_t broken) {
  PTD_LAUNCH(hand_over, 2, 1, 0, nullptr, value, flag, y, broken);
}

// A barrier of the whole grid, twice: blocks wait until all have come, which needs all of them to
// be resident. Each then writes where another has read before the barrier.
__global__ void rotate_twice(int* x, unsigned* arrived, int64_t broken) {
  for (unsigned pass = 1; pass <= 2; ++pass) {
    const int value = x[(blockIdx.x + 1) % gridDim.x];
    for (unsigned half = 0; half < 2; ++half) {
      if (!(broken && half == 0)) __threadfence();
      atomicAdd(arrived, 1u);
      const unsigned all = (2 * pass - 1 + half) * gridDim.x;
      while (atomicAdd(arrived, 0u) < all) {
      }
      if (half == 0) x[blockIdx.x] = value;
    }
  }
}

extern "C" void launch_rotate_twice(int* x, unsigned* arrived, int64_t blocks, int64_t broken) {
  PTD_LAUNCH(rotate_twice, static_cast<unsigned>(blocks), 1, 0, nullptr, x, arrived, broken);
}
