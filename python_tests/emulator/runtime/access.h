// Every access of a thread to memory passes here before it happens.
#pragma once

#include <cstddef>

#include "race.h"

namespace cuda_emulator {

// Fails if the current thread may not touch these bytes. `code` is the place in the kernel. Atomic
// and volatile accesses are strong: threads may use them to tell each other something.
void on_access(const void* address, size_t bytes, Touch touch, const void* code, bool strong);

}  // namespace cuda_emulator
