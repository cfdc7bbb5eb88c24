// Shuffles and votes, right and wrong.
#include "common/launch.h"

constexpr unsigned kFullMask = 0xffffffff;

// Sums of segments of kWidth lanes, left in every lane of the segment.
template <typename T, int kWidth>
__global__ void segment_sum(const T* x, T* y) {
  T sum = x[threadIdx.x];
  for (int offset = kWidth / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(kFullMask, sum, offset, kWidth);
  }
  y[threadIdx.x] = sum;
}

template <typename T>
static void segment_sum_of(const T* x, T* y, int64_t width) {
  switch (width) {
    case 8:
      return PTD_LAUNCH((segment_sum<T, 8>), 1, 64, 0, nullptr, x, y);
    case 16:
      return PTD_LAUNCH((segment_sum<T, 16>), 1, 64, 0, nullptr, x, y);
    case 32:
      return PTD_LAUNCH((segment_sum<T, 32>), 1, 64, 0, nullptr, x, y);
  }
}

extern "C" void segment_sum_float(const float* x, float* y, int64_t width) {
  segment_sum_of(x, y, width);
}

extern "C" void segment_sum_double(const double* x, double* y, int64_t width) {
  segment_sum_of(x, y, width);
}

extern "C" void segment_sum_int64(const long long* x, long long* y, int64_t width) {
  segment_sum_of(x, y, width);
}

// One shuffle of each kind on 32 lanes: y[kind][lane].
__global__ void shuffles(const unsigned* x, unsigned* y, int operand, int width) {
  const unsigned lane = threadIdx.x;
  const unsigned value = x[lane];
  y[lane] = __shfl_sync(kFullMask, value, operand, width);
  y[32 + lane] = __shfl_up_sync(kFullMask, value, operand, width);
  y[64 + lane] = __shfl_down_sync(kFullMask, value, operand, width);
  y[96 + lane] = __shfl_xor_sync(kFullMask, value, operand, width);
}

extern "C" void launch_shuffles(const unsigned* x, unsigned* y, int64_t operand, int64_t width) {
  PTD_LAUNCH(shuffles, 1, 32, 0, nullptr, x, y, static_cast<int>(operand), static_cast<int>(width));
}

// Sums of groups of eight lanes that run apart, each group on its own mask. The twin names all
// lanes, though each group comes to the shuffle a different number of times.
__global__ void divergent_groups(const int* x, int* y, int64_t broken) {
  const unsigned group = threadIdx.x / 8;
  const unsigned mask = broken ? kFullMask : 0xffu << (8 * group);
  int sum = x[threadIdx.x];
  for (unsigned round = 0; round <= group; ++round) {
    for (int offset = 4; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(mask, sum, offset, 8);
    }
  }
  y[threadIdx.x] = sum;
}

extern "C" void launch_divergent_groups(const int* x, int* y, int64_t broken) {
  PTD_LAUNCH(divergent_groups, 1, 32, 0, nullptr, x, y, broken);
}

enum Mistake {
  kNone,
  kBranch,         // only half of the lanes named come to the shuffle
  kExited,         // the other half has returned
  kSelfNotNamed,   // the mask leaves out the caller
  kOutsideMask,    // reads lanes that the mask leaves out
  kActiveMask,     // takes for granted that the warp runs together
  kOtherIntrinsic  // the halves call different functions
};

__global__ void half_sum(const float* x, float* y, int64_t mistake) {
  const unsigned lane = threadIdx.x;
  float value = x[lane];
  if (mistake == kExited && lane >= 16) return;
  if (mistake == kOtherIntrinsic && lane >= 16) {
    value = __any_sync(kFullMask, value > 0) ? value : 0;
  } else if (mistake != kBranch || lane < 16) {
    unsigned mask = kFullMask;
    if (mistake == kSelfNotNamed) mask = 0x0000ffff;
    if (mistake == kOutsideMask) mask = lane < 16 ? 0x0000ffff : 0xffff0000;
    if (mistake == kActiveMask) mask = __activemask();
    value += __shfl_down_sync(mask, value, 16);
  }
  if (lane < 16) y[lane] = value;
}

extern "C" void launch_half_sum(const float* x, float* y, int64_t mistake) {
  PTD_LAUNCH(half_sum, 1, 32, 0, nullptr, x, y, mistake);
}

__global__ void votes(const int* x, unsigned* y) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned mask = lane < 16 ? 0x0000ffff : 0xffff0000;
  const int holds = x[threadIdx.x];
  y[threadIdx.x] = __ballot_sync(mask, holds);
  y[blockDim.x + threadIdx.x] = __any_sync(mask, holds) + 2 * __all_sync(mask, holds);
}

extern "C" void launch_votes(const int* x, unsigned* y, int64_t n) {
  PTD_LAUNCH(votes, 1, static_cast<unsigned>(n), 0, nullptr, x, y);
}

// Lanes that have returned do not hold up a __syncwarp.
__global__ void sync_survivors(int* y) {
  __shared__ int value;
  if (threadIdx.x >= 20) return;
  if (threadIdx.x == 3) value = 7;
  __syncwarp();
  y[threadIdx.x] = value;
}

extern "C" void launch_sync_survivors(int* y) { PTD_LAUNCH(sync_survivors, 1, 32, 0, nullptr, y); }
