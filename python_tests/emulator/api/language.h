// Keywords and built-in variables of a kernel.
#pragma once

#include "vectors.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

// Shared memory declared in a kernel is the thread-local segment of the kernel's library: the one
// storage class the linker gathers in a segment of its own, also from templates, so that it can be
// found, poisoned before each block and watched for races.
#define __shared__ static thread_local

inline constexpr int warpSize = 32;

// Declared const, though the runtime sets them at every switch of fibers: a fiber sees its own
// values for its whole life, so the compiler may keep them in registers, and reads of constants
// are not instrumented. Not dim3, whose constructor would make the compiler doubt the constancy.
extern const uint3 threadIdx;
extern const uint3 blockIdx;
extern const uint3 blockDim;
extern const uint3 gridDim;

namespace cuda_emulator {

// Sixteen-byte aligned, as on the device.
void* dynamic_shared();

}  // namespace cuda_emulator
