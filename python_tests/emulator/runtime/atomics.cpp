#include "../api/atomics.h"

#include <algorithm>
#include <utility>

#include "access.h"
#include "block.h"

namespace {

// Fibers change only where the runtime lets them, so between the check and the store no other
// thread runs.
template <typename T, typename Update>
T update(T* address, const void* code, Update new_value) {
  cuda_emulator::block.maybe_switch();
  cuda_emulator::on_access(address, sizeof(T), cuda_emulator::Touch::atomic, code, true);
  return std::exchange(*address, new_value(*address));
}

}  // namespace

using u64 = cuda_emulator_u64;

#define CALLER (static_cast<const char*>(__builtin_return_address(0)) - 1)

#define ATOMIC(type, name, expression)                                                \
  type name(type* address, type value) {                                              \
    return update(address, CALLER, [value](type old) -> type { return expression; }); \
  }

ATOMIC(int, atomicAdd, static_cast<int>(static_cast<unsigned>(old) + value))
ATOMIC(unsigned, atomicAdd, old + value)
ATOMIC(u64, atomicAdd, old + value)
ATOMIC(float, atomicAdd, old + value)
ATOMIC(double, atomicAdd, old + value)

ATOMIC(int, atomicMin, std::min(old, value))
ATOMIC(unsigned, atomicMin, std::min(old, value))
ATOMIC(u64, atomicMin, std::min(old, value))

ATOMIC(int, atomicMax, std::max(old, value))
ATOMIC(unsigned, atomicMax, std::max(old, value))
ATOMIC(u64, atomicMax, std::max(old, value))

ATOMIC(int, atomicOr, old | value)
ATOMIC(unsigned, atomicOr, old | value)

ATOMIC(unsigned, atomicInc, old >= value ? 0 : old + 1)

#undef ATOMIC

#define ATOMIC_EXCHANGE(type)                                        \
  type atomicExch(type* address, type value) {                       \
    return update(address, CALLER, [value](type) { return value; }); \
  }

ATOMIC_EXCHANGE(int)
ATOMIC_EXCHANGE(unsigned)
ATOMIC_EXCHANGE(u64)
ATOMIC_EXCHANGE(float)

#undef ATOMIC_EXCHANGE

#define ATOMIC_COMPARE(type)                                                       \
  type atomicCAS(type* address, type compare, type value) {                        \
    return update(address, CALLER,                                                 \
                  [=](type old) -> type { return old == compare ? value : old; }); \
  }

ATOMIC_COMPARE(int)
ATOMIC_COMPARE(unsigned)
ATOMIC_COMPARE(u64)

#undef ATOMIC_COMPARE
