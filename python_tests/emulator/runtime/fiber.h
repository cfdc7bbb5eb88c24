// A fiber: a stack, and the point on it at which it was last left.
#pragma once

#include <cstddef>

// Elsewhere, or to try it, the portable and slow way.
#if defined(CUDA_EMULATOR_UCONTEXT) || !(defined(__x86_64__) || defined(__aarch64__))
#undef CUDA_EMULATOR_UCONTEXT
#define CUDA_EMULATOR_UCONTEXT 1
#include <ucontext.h>
#endif

namespace cuda_emulator {

class Fiber {
 public:
  // The next switch to this fiber calls `entry` on the given stack; `entry` must never return.
  void prepare(char* stack, size_t bytes, void (*entry)());

  // Leaves `from`, the running fiber, and continues `to`.
  static void switch_between(Fiber& from, Fiber& to);

 private:
#if defined(CUDA_EMULATOR_UCONTEXT)
  ucontext_t context_;
#else
  void* stack_pointer_ = nullptr;
#endif
};

}  // namespace cuda_emulator
