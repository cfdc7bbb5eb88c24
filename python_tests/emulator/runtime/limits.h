// Limits on a launch, so that a kernel that never ends fails.
//
// Work is counted where the runtime is called anyway: at accesses, barriers, shuffles, votes and
// fences. A loop without any of these is ended by a timer.
#pragma once

#include <signal.h>
#include <time.h>

#include <cstdint>
#include <source_location>

namespace cuda_emulator {

struct Limits {
  int64_t work = 1'000'000'000;  // some ten seconds
  double seconds = 60;           // CPU time
};

extern Limits limits;

// This much of limits.work remains in this launch.
extern int64_t work_left;

[[noreturn]] void fail_limit(const void* code);
[[noreturn]] void fail_limit(const std::source_location& place);

// Called by the running thread; takes the place in the kernel as an address or as file and line.
template <typename Where>
void count_work(const Where& where) {
  if (--work_left < 0) [[unlikely]] {
    fail_limit(where);
  }
}

// Both limits hold from the beginning to the end of this object.
class LimitGuard {
 public:
  LimitGuard();
  ~LimitGuard();
  LimitGuard(const LimitGuard&) = delete;

 private:
  timer_t timer_;
  struct sigaction old_action_;
};

}  // namespace cuda_emulator
