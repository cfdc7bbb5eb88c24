// One thread never comes to an end, in one of several ways.
#include "common/launch.h"

enum class Loop : int64_t { empty, flag, atomic, fence, shuffle, arithmetic };

__global__ void loop_for_ever(volatile int* flag, unsigned* count, float* y, Loop loop) {
  if (blockIdx.x != 1 || threadIdx.x != 2) return;
  const unsigned self = 1u << threadIdx.x;
  switch (loop) {
    case Loop::empty:
      while (true) {
      }
    case Loop::flag:
      while (*flag == 0) {
      }
      break;
    case Loop::atomic:
      while (atomicAdd(count, 0u) == 0) {
      }
      break;
    case Loop::fence:
      while (true) __threadfence();
    case Loop::shuffle:
      while (__shfl_sync(self, 1, 2)) {
      }
      break;
    case Loop::arithmetic:
      for (float x = 2; x > 1; x = sqrtf(x) + 1) *y = x;
      break;
  }
}

extern "C" void launch_loop_for_ever(int* flag, unsigned* count, float* y, int64_t loop) {
  PTD_LAUNCH(loop_for_ever, 3, 4, 0, nullptr, flag, count, y, static_cast<Loop>(loop));
}

// All threads of a block meet at a barrier again and again.
__global__ void meet_for_ever() {
  while (true) __syncthreads();
}

extern "C" void launch_meet_for_ever() { PTD_LAUNCH(meet_for_ever, 1, 4, 0, nullptr); }
