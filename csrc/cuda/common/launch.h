// Macros for the constructs that nvcc, NVRTC and the emulator write differently.
//
// A kernel file includes this header and no other CUDA header; it then compiles
//   - under nvcc, for a GPU;
//   - under NVRTC, which has neither host code nor the standard headers;
//   - under g++ with -DPTD_CUDA_EMULATOR, to run on the CPU (python_tests/emulator).
// Launchers sit behind `#ifndef __CUDACC_RTC__`, or in another file.
//
// The dynamic shared memory of the block as `float* tile`, aligned to 16 bytes:
//   PTD_DYNAMIC_SHARED(float, tile);
// A launch; a kernel with commas in its name goes in parentheses:
//   PTD_LAUNCH((softmax<float, 4>), grid, block, shared_bytes, stream, logits, out, n);
#pragma once

#if defined(PTD_CUDA_EMULATOR)

#include <cstdint>

#include "cuda_emulator.h"

#define PTD_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::cuda_emulator::dynamic_shared())

#define PTD_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)    \
  ::cuda_emulator::launch(#kernel, kernel, grid, block, shared_bytes, \
                          stream __VA_OPT__(, ) __VA_ARGS__)

#else

#if defined(__CUDACC_RTC__)
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
#else
#include <cuda_runtime.h>

#include <cstdint>
#endif

// All kernels of a file share one array of bytes: nvcc requires every `extern __shared__` of one
// name to have one type. It is aligned to sixteen bytes, the widest vector access.
#define PTD_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char ptd_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(ptd_dynamic_shared)

#define PTD_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)

#endif
