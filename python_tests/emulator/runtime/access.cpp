// The compiler's -fsanitize=thread calls a function of its run-time library before each access to
// memory. This is that library: the calls come here, with address, size and kind.
#include "access.h"

#include "block.h"
#include "global_race.h"
#include "launch.h"
#include "limits.h"
#include "memory.h"
#include "record.h"
#include "report.h"

namespace cuda_emulator {

namespace {

const char* noun(Touch touch) {
  switch (touch) {
    case Touch::read:
      return "read";
    case Touch::write:
      return "write";
    case Touch::atomic:
      return "atomic update";
  }
  return "";
}

[[noreturn]] void fail_access(const char* why, size_t bytes, Touch touch, const void* code,
                              const std::string& place) {
  fail(std::string(why) + noun(touch) + format(" of %zu bytes ", bytes) + place + " " +
       describe_code(code));
}

void on_shared(SharedRegion& region, const void* address, size_t bytes, Touch touch,
               const void* code) {
  const size_t offset = static_cast<const char*>(address) - region.begin;
  if (bytes > region.bytes - offset) {
    fail_access(
        "out of bounds: ", bytes, touch, code,
        format("across the end of %s shared memory (%zu bytes)", region.kind, region.bytes));
  }
  block.maybe_switch();
  races.on_access(region, address, bytes, touch, code);
}

std::string describe_outside(const void* address) {
  const SharedRegion& shared = dynamic_shared_region;
  const auto past = static_cast<const char*>(address) - (shared.begin + shared.bytes);
  if (past >= 0 && past < 0x10000) {
    return format("%td bytes past the end of dynamic shared memory (%zu bytes)", past,
                  shared.bytes);
  }
  return memory.describe_stray(address);
}

}  // namespace

void on_access(const void* address, size_t bytes, Touch touch, const void* code, bool strong) {
  if (!block.running()) return;  // the code around the launch
  count_work(code);
  // Kernels that are not instrumented are handed no array, and only their atomics come here: what
  // these find was not seen being written.
  if (touch == Touch::atomic && memory.empty()) return;
  if (static_shared.contains(address)) return on_shared(static_shared, address, bytes, touch, code);
  if (dynamic_shared_region.contains(address)) {
    return on_shared(dynamic_shared_region, address, bytes, touch, code);
  }
  if (block.on_stack_of_current(address)) return;
  if (const Array* array = memory.find(address, bytes)) {
    if (touch != Touch::read && !array->writable()) {
      fail_access("read-only: ", bytes, touch, code, array->describe(address));
    }
    if (record.mode == Recording::traffic) record.on_access(*array, address, bytes, touch, code);
    block.maybe_switch();
    if (global_races.watching() && array->writable()) {
      global_races.on_access(*array, address, bytes, touch, code, strong);
    }
    return;
  }
  if (current_launch.owns(address)) return;
  if (memory.empty()) return;  // no array has been handed over: memory is not watched
  fail_access("out of bounds: ", bytes, touch, code, describe_outside(address));
}

}  // namespace cuda_emulator

// The call returns to the instruction after it, which may belong to the next line.
#define CALLER (static_cast<const char*>(__builtin_return_address(0)) - 1)

#define READ_AND_WRITE(kind, bytes, strong)                                                \
  void __tsan_##kind##read##bytes(const void* address) {                                   \
    cuda_emulator::on_access(address, bytes, cuda_emulator::Touch::read, CALLER, strong);  \
  }                                                                                        \
  void __tsan_##kind##write##bytes(const void* address) {                                  \
    cuda_emulator::on_access(address, bytes, cuda_emulator::Touch::write, CALLER, strong); \
  }

extern "C" {

READ_AND_WRITE(, 1, false)
READ_AND_WRITE(volatile_, 1, true)
READ_AND_WRITE(, 2, false)
READ_AND_WRITE(volatile_, 2, true)
READ_AND_WRITE(, 4, false)
READ_AND_WRITE(volatile_, 4, true)
READ_AND_WRITE(, 8, false)
READ_AND_WRITE(volatile_, 8, true)
READ_AND_WRITE(, 16, false)
READ_AND_WRITE(volatile_, 16, true)

void __tsan_read_range(const void* address, size_t bytes) {
  cuda_emulator::on_access(address, bytes, cuda_emulator::Touch::read, CALLER, false);
}

void __tsan_write_range(const void* address, size_t bytes) {
  cuda_emulator::on_access(address, bytes, cuda_emulator::Touch::write, CALLER, false);
}

void __tsan_init() {}

// The guard of a static variable in a launcher.
char __tsan_atomic8_load(const volatile char* address, int) {
  return __atomic_load_n(address, __ATOMIC_ACQUIRE);
}
}
