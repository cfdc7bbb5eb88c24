#include "stacks.h"

#include <sys/mman.h>

#include <new>

namespace cuda_emulator {

namespace {

constexpr size_t kGuard = 64 * 1024;  // a whole number of pages on every system

}  // namespace

char* Stacks::take() {
  if (free_.empty()) {
    void* mapping = mmap(nullptr, kGuard + kBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    mprotect(mapping, kGuard, PROT_NONE);
    free_.push_back(static_cast<char*>(mapping) + kGuard);
    all_.push_back(free_.back());
  }
  char* stack = free_.back();
  free_.pop_back();
  return stack;
}

void Stacks::give_back_all() { free_ = all_; }

bool Stacks::is_guard(const void* address) const {
  for (const char* stack : all_) {
    if (static_cast<size_t>(stack - static_cast<const char*>(address)) - 1 < kGuard) return true;
  }
  return false;
}

}  // namespace cuda_emulator
