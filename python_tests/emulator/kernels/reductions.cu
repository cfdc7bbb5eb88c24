// Whole algorithms as the project's kernels use them. Compiles under nvcc and NVRTC too.
#include "common/launch.h"

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffff, value, offset);
  }
  return value;
}

// The sum over the block, in thread 0.
template <typename T>
__device__ __forceinline__ T block_sum(T value) {
  __shared__ T partial[32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  value = warp_sum(value);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  if (warp == 0) value = warp_sum(lane < blockDim.x / 32 ? partial[lane] : T(0));
  return value;
}

// One launch for a sum in a fixed order: each block leaves a partial sum, and the block that draws
// the last ticket adds them up. It resets the ticket for the next launch.
template <typename T>
__global__ void __launch_bounds__(1024) sum_last_block(const T* __restrict__ x,  // [n]
                                                       T* partial,               // [gridDim.x]
                                                       unsigned* ticket,         // [1], zero
                                                       T* y,                     // [1]
                                                       int64_t n) {
  __shared__ bool is_last;
  T value = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    value += __ldg(x + i);
  }
  value = block_sum(value);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = value;
    __threadfence();
    is_last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  value = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) value += partial[i];
  value = block_sum(value);
  if (threadIdx.x == 0) y[0] = value;
}

// Doubles every element: a thread each and nothing else, to measure speed.
__global__ void twice(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

#ifndef __CUDACC_RTC__

template <typename T>
static void launch_sum(const T* x, T* partial, unsigned* ticket, T* y, int64_t n, int64_t blocks,
                       int64_t threads) {
  PTD_LAUNCH((sum_last_block<T>), static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0,
             nullptr, x, partial, ticket, y, n);
}

extern "C" void sum_float(const float* x, float* partial, unsigned* ticket, float* y, int64_t n,
                          int64_t blocks, int64_t threads) {
  launch_sum(x, partial, ticket, y, n, blocks, threads);
}

extern "C" void sum_double(const double* x, double* partial, unsigned* ticket, double* y, int64_t n,
                           int64_t blocks, int64_t threads) {
  launch_sum(x, partial, ticket, y, n, blocks, threads);
}

extern "C" void launch_twice(const float* x, float* y, int64_t n) {
  PTD_LAUNCH(twice, static_cast<unsigned>((n + 255) / 256), 256, 0, nullptr, x, y, n);
}

#endif
