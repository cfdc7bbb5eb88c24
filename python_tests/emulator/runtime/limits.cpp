#include "limits.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "block.h"
#include "fault.h"
#include "launch.h"
#include "report.h"

namespace cuda_emulator {

Limits limits;
int64_t work_left = 0;

namespace {

constexpr int kSignal = SIGVTALRM;   // pytest-timeout uses SIGALRM, profilers SIGPROF
constexpr long kAgain = 20'000'000;  // ns

volatile sig_atomic_t time_is_up = 0;

std::string explain() {
  if (time_is_up) return format("still running after %g s of CPU time ", limits.seconds);
  return format("still running after %lld accesses, barriers, shuffles, votes and fences ",
                static_cast<long long>(limits.work));
}

// A kernel that calls the runtime fails there, at the next count. For others the signal comes
// again, until it meets the kernel itself: in the middle of the runtime, or of a function of the
// system, a thread cannot be left.
void on_time_is_up(int, siginfo_t*, void* context) {
  work_left = 0;
  if (!time_is_up) {
    time_is_up = 1;
    return;
  }
  const void* code = interrupted_code(context);
  if (block.running() && current_launch.owns(code)) fail_limit(code);
}

}  // namespace

void fail_limit(const void* code) { fail(explain() + describe_code(code)); }

void fail_limit(const std::source_location& place) {
  fail(explain() + "(" + describe(place) + ")");
}

LimitGuard::LimitGuard() {
  work_left = limits.work;
  time_is_up = 0;
  struct sigaction action{};
  action.sa_sigaction = on_time_is_up;
  // The handler may leave by switching fibers, so the signal must stay unblocked.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  sigaction(kSignal, &action, &old_action_);
  // The signal must interrupt this thread, not any of the process.
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSignal;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_);
  const auto nanoseconds = static_cast<long>(std::max(limits.seconds * 1e9, 1.0));
  const itimerspec when{{0, kAgain}, {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000}};
  timer_settime(timer_, 0, &when, nullptr);
}

LimitGuard::~LimitGuard() {
  timer_delete(timer_);
  sigaction(kSignal, &old_action_, nullptr);
}

}  // namespace cuda_emulator

// For launches until the next cuda_emulator_configure.
extern "C" void cuda_emulator_set_limits(int64_t work, double seconds) {
  cuda_emulator::limits = {work, seconds};
}
