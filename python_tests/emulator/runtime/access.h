// Every access of a thread to memory passes here before it happens.
#pragma once

#include <cstddef>

#include "race.h"

namespace cuda_emulator {

// Fails if the current thread may not touch these bytes. `code` is the place in the kernel.
void on_access(const void* address, size_t bytes, Touch touch, const void* code);

}  // namespace cuda_emulator
