// Faults of a kernel, turned into reports while this object lives.
#pragma once

#include <signal.h>

namespace cuda_emulator {

// The instruction that a signal interrupted, from the last argument of its handler.
const void* interrupted_code(const void* context);

class FaultGuard {
 public:
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;

 private:
  stack_t old_stack_;
  struct sigaction old_segv_, old_bus_, old_fpe_;
};

}  // namespace cuda_emulator
