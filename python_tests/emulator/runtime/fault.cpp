#include "fault.h"

#include <ucontext.h>

#include <string>

#include "block.h"
#include "memory.h"
#include "report.h"

namespace cuda_emulator {

const void* interrupted_code(const void* context) {
#if defined(__x86_64__)
  const auto* c = static_cast<const ucontext_t*>(context);
  return reinterpret_cast<const void*>(c->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const auto* c = static_cast<const ucontext_t*>(context);
  return reinterpret_cast<const void*>(c->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

namespace {

// Handlers need a stack of their own, for the fault may be that a fiber's stack is full.
alignas(16) char handler_stack[64 * 1024];

void on_fault(int signal, siginfo_t* info, void* context) {
  if (!block.running()) {
    // Not a kernel's: returning repeats the fault, now with the system's own handling.
    ::signal(signal, SIG_DFL);
    return;
  }
  const std::string code = " " + describe_code(interrupted_code(context));
  if (signal == SIGFPE) fail("integer division by zero" + code);
  if (block.overflows_stack(info->si_addr)) fail("stack overflow" + code);
  fail("invalid access " + memory.describe_stray(info->si_addr) + code);
}

}  // namespace

FaultGuard::FaultGuard() {
  stack_t stack{};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof(handler_stack);
  sigaltstack(&stack, &old_stack_);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  // The handler leaves by switching fibers, never by returning, so the signal must stay unblocked.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &old_segv_);
  sigaction(SIGBUS, &action, &old_bus_);
  sigaction(SIGFPE, &action, &old_fpe_);
}

FaultGuard::~FaultGuard() {
  sigaction(SIGSEGV, &old_segv_, nullptr);
  sigaction(SIGBUS, &old_bus_, nullptr);
  sigaction(SIGFPE, &old_fpe_, nullptr);
  sigaltstack(&old_stack_, nullptr);
}

}  // namespace cuda_emulator
