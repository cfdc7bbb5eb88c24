// Races on shared memory within an epoch, each beside its correct twin.
#include "common/launch.h"

// Prefix sums in place; the twin lets a thread write what its neighbour has yet to read.
template <bool kBarrier>
__global__ void prefix_sum(const int* x, int* y) {
  PTD_DYNAMIC_SHARED(int, sums);
  sums[threadIdx.x] = x[threadIdx.x];
  for (unsigned reach = 1; reach < blockDim.x; reach *= 2) {
    __syncthreads();
    const int left = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
    if constexpr (kBarrier) __syncthreads();
    sums[threadIdx.x] += left;
  }
  y[threadIdx.x] = sums[threadIdx.x];
}

extern "C" void launch_prefix_sum(const int* x, int* y, int64_t n, int64_t broken) {
  const auto threads = static_cast<unsigned>(n);
  if (broken) {
    PTD_LAUNCH(prefix_sum<false>, 1, threads, n * sizeof(int), nullptr, x, y);
  } else {
    PTD_LAUNCH(prefix_sum<true>, 1, threads, n * sizeof(int), nullptr, x, y);
  }
}

// Every warp leaves its number; the twin has all of them write to one place.
__global__ void warp_numbers(int* y, int64_t broken) {
  __shared__ int numbers[32];
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) numbers[broken ? 0 : warp] = warp;
  __syncthreads();
  y[threadIdx.x] = numbers[broken ? 0 : warp];
}

extern "C" void launch_warp_numbers(int* y, int64_t n, int64_t broken) {
  PTD_LAUNCH(warp_numbers, 1, static_cast<unsigned>(n), 0, nullptr, y, broken);
}

// Exchanges values within groups of `group` lanes through shared memory, ordered by __syncwarp on
// the group's mask. The twin exchanges across the groups, which no sync orders.
__global__ void exchange(const int* x, int* y, int64_t group, int64_t broken) {
  __shared__ int values[64];
  const unsigned lane = threadIdx.x % 32;
  const unsigned lanes = group == 32 ? 0xffffffffu : (1u << group) - 1;
  const unsigned mask = lanes << (lane / group * group);
  const unsigned partner = threadIdx.x ^ static_cast<unsigned>(broken ? group : group / 2);
  for (int round = 0; round < 3; ++round) {
    __syncwarp(mask);
    values[threadIdx.x] = x[threadIdx.x] + round;
    __syncwarp(mask);
    y[threadIdx.x] = values[partner];
  }
}

extern "C" void launch_exchange(const int* x, int* y, int64_t group, int64_t broken) {
  PTD_LAUNCH(exchange, 1, 64, 0, nullptr, x, y, group, broken);
}

// A histogram with atomics; the twin adds without them.
template <bool kAtomic>
__global__ void histogram(const int* x, unsigned* y) {
  __shared__ unsigned counts[4];
  if (threadIdx.x < 4) counts[threadIdx.x] = 0;
  __syncthreads();
  if constexpr (kAtomic) {
    atomicAdd(&counts[x[threadIdx.x]], 1u);
  } else {
    counts[x[threadIdx.x]] += 1;
  }
  __syncthreads();
  if (threadIdx.x < 4) y[threadIdx.x] = counts[threadIdx.x];
}

extern "C" void launch_histogram(const int* x, unsigned* y, int64_t n, int64_t broken) {
  const auto threads = static_cast<unsigned>(n);
  if (broken) {
    PTD_LAUNCH(histogram<false>, 1, threads, 0, nullptr, x, y);
  } else {
    PTD_LAUNCH(histogram<true>, 1, threads, 0, nullptr, x, y);
  }
}

// Bytes side by side belong to different threads: no race.
__global__ void bytes(const uint8_t* x, uint8_t* y) {
  __shared__ uint8_t tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = tile[threadIdx.x];
}

extern "C" void launch_bytes(const uint8_t* x, uint8_t* y) {
  PTD_LAUNCH(bytes, 1, 64, 0, nullptr, x, y);
}

// Sums a table that thread 0 should have cleared.
__global__ void accumulate(const float* x, float* y, int64_t broken) {
  __shared__ float total;
  if (threadIdx.x == 0) {
    if (!broken) total = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) total += x[i];
    y[blockIdx.x] = total;
  }
}

extern "C" void launch_accumulate(const float* x, float* y, int64_t n, int64_t broken) {
  PTD_LAUNCH(accumulate, 3, static_cast<unsigned>(n), 0, nullptr, x, y, broken);
}
