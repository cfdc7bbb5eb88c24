// The part of the CUDA runtime that launchers call, and the launch itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "vectors.h"

using cudaStream_t = struct CUstream_st*;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorLaunchFailure = 719 };

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

// As in CUDA: the error of an earlier launch stays until it is asked for.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDevice(int* device);
// The values of a V100.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream);

namespace cuda_emulator {

struct Call {
  const char* kernel;            // as written at the launch
  const void* function;          // its address, for its full name
  void (*invoke)(void* params);  // calls it with the launch's parameters
  void* params;
  size_t params_bytes;
  const void* shared;  // an address inside the static shared memory of the kernel's library
};

// The code around the launches takes its memory from torch. These calls tell the emulator of bytes
// that it has allocated, which are filled with NaN, and of those that a kernel is handed: it may
// touch no others, and write only to what was allocated.
void allocated(void* begin, size_t bytes);
void watch(void* begin, size_t bytes);

void run(const Call& call, dim3 grid, dim3 block, size_t shared_bytes);
cudaError_t set_max_dynamic_shared(const void* function, int bytes);

// Says which library's segment a kernel's static shared memory is in. Taking its address also makes
// the system allocate the segment, which it otherwise does at first use.
static thread_local char static_shared_anchor;

template <typename... Params, typename... Args>
void launch(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t, Args&&... args) {
  struct Bound {
    void (*kernel)(Params...);
    std::tuple<Params...> params;
  } bound{kernel, std::tuple<Params...>(std::forward<Args>(args)...)};
  const auto invoke = [](void* p) {
    auto* b = static_cast<Bound*>(p);
    std::apply(b->kernel, b->params);
  };
  run({name, reinterpret_cast<const void*>(kernel), invoke, &bound, sizeof(bound),
       &static_shared_anchor},
      grid, block, shared_bytes);
}

}  // namespace cuda_emulator

template <typename... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute, int bytes) {
  return cuda_emulator::set_max_dynamic_shared(reinterpret_cast<const void*>(kernel), bytes);
}
