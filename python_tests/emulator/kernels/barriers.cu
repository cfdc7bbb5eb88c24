// Barriers: each kernel beside the twin that lacks or misplaces one.
#include "common/launch.h"

// Writes a block's values in reverse order, through static shared memory.
template <bool kBarrier>
__global__ void reverse(const int* x, int* y) {
  __shared__ int tile[256];
  tile[threadIdx.x] = x[threadIdx.x];
  if constexpr (kBarrier) __syncthreads();
  y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

extern "C" void launch_reverse(const int* x, int* y, int64_t n, int64_t broken) {
  const auto threads = static_cast<unsigned>(n);
  if (broken) {
    PTD_LAUNCH((reverse<false>), 1, threads, 0, nullptr, x, y);
  } else {
    PTD_LAUNCH((reverse<true>), 1, threads, 0, nullptr, x, y);
  }
}

// Shifts a block's values by one, in place. The twin leaves the threads past the end before the
// barrier.
template <bool kEarlyExit>
__global__ void shift(int* x, int64_t n) {
  if (kEarlyExit && threadIdx.x >= n) return;
  const int value = threadIdx.x < n ? x[(threadIdx.x + 1) % n] : 0;
  __syncthreads();
  if (threadIdx.x < n) x[threadIdx.x] = value;
}

extern "C" void launch_shift(int* x, int64_t n, int64_t broken) {
  const auto threads = static_cast<unsigned>((n + 31) / 32 * 32);
  if (broken) {
    PTD_LAUNCH(shift<true>, 1, threads, 0, nullptr, x, n);
  } else {
    PTD_LAUNCH(shift<false>, 1, threads, 0, nullptr, x, n);
  }
}

// Two sides that should meet at one barrier; the twin gives each its own.
template <bool kOneBarrier>
__global__ void meet(int* y) {
  __shared__ int halves[2];
  const int side = threadIdx.x >= blockDim.x / 2;
  if (threadIdx.x % (blockDim.x / 2) == 0) halves[side] = side + 1;
  if constexpr (kOneBarrier) {
    __syncthreads();
  } else if (side) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  y[threadIdx.x] = halves[1 - side];
}

extern "C" void launch_meet(int* y, int64_t broken) {
  if (broken) {
    PTD_LAUNCH(meet<false>, 1, 64, 0, nullptr, y);
  } else {
    PTD_LAUNCH(meet<true>, 1, 64, 0, nullptr, y);
  }
}

// Sums a block's values in a tree; the twin asks for the barrier only of the threads that add.
template <bool kUniform>
__global__ void tree_sum(const float* x, float* y) {
  PTD_DYNAMIC_SHARED(float, partial);
  partial[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
      if constexpr (!kUniform) __syncthreads();
    }
    if constexpr (kUniform) __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}

extern "C" void launch_tree_sum(const float* x, float* y, int64_t blocks, int64_t broken) {
  constexpr unsigned kThreads = 128;
  const auto grid = static_cast<unsigned>(blocks);
  if (broken) {
    PTD_LAUNCH(tree_sum<false>, grid, kThreads, kThreads * sizeof(float), nullptr, x, y);
  } else {
    PTD_LAUNCH(tree_sum<true>, grid, kThreads, kThreads * sizeof(float), nullptr, x, y);
  }
}
