#include "launch.h"

#include <cstring>
#include <map>
#include <utility>

#include "block.h"
#include "fault.h"
#include "global_race.h"
#include "grid.h"
#include "limits.h"
#include "memory.h"
#include "record.h"
#include "report.h"

uint3 blockDim;
uint3 gridDim;

namespace cuda_emulator {

Launch current_launch;
SharedRegion static_shared;
SharedRegion dynamic_shared_region;

namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr size_t kDefaultShared = 48 * 1024;
constexpr size_t kOptInShared = 96 * 1024;  // of a V100
constexpr int kMultiprocessors = 80;        // of a V100
constexpr int kMultiprocessorThreads = 2048;

cudaError_t last_error = cudaSuccess;
std::map<const void*, size_t> max_dynamic_shared;

bool valid(const Call& call, dim3 grid, dim3 block_size, size_t shared_bytes) {
  const auto allowed = max_dynamic_shared.contains(call.function)
                           ? max_dynamic_shared[call.function]
                           : kDefaultShared;
  const uint64_t threads = uint64_t{block_size.x} * block_size.y * block_size.z;
  if (threads == 0 || threads > kMaxThreads || block_size.z > 64) {
    fail_launch("invalid block " + describe({block_size.x, block_size.y, block_size.z}));
  } else if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 ||
             grid.z > 65535) {
    fail_launch("invalid grid " + describe({grid.x, grid.y, grid.z}));
  } else if (shared_bytes > allowed) {
    fail_launch(
        format("%zu bytes of dynamic shared memory, of which %zu are allowed: raise the "
               "limit with cudaFuncSetAttribute",
               shared_bytes, allowed));
  }
  return !failed();
}

}  // namespace

Launch::Launch(const Call& call, dim3 block)
    : call_(call), block_(block), library_(Library::of(call.function)) {}

void Launch::place_shared(size_t dynamic_bytes, size_t resident) const {
  static_shared.set("static", library_.thread_local_begin, library_.thread_local_bytes);
  dynamic_shared_region.set("dynamic", memory.place_dynamic_shared(dynamic_bytes, resident),
                            dynamic_bytes);
}

std::string Launch::name() const { return kernel_name(call_.kernel, call_.function); }

void Launch::poison_shared() const {
  constexpr int kPoison = 0xff;  // a NaN in every floating type, -1 in every integer
  std::memset(static_shared.begin, kPoison, static_shared.bytes);
  std::memset(dynamic_shared_region.begin, kPoison, dynamic_shared_region.bytes);
}

void run(const Call& call, dim3 grid, dim3 block_size, size_t shared_bytes) {
  if (failed()) return;
  current_launch = Launch(call, block_size);
  if (valid(call, grid, block_size, shared_bytes)) {
    if (record.mode != Recording::off) {
      record.start_launch(current_launch.name(), uint64_t{grid.x} * grid.y * grid.z,
                          current_launch.threads(), shared_bytes);
      if (record.mode == Recording::launches) return;
    }
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block_size.x, block_size.y, block_size.z};
    FaultGuard faults;
    LimitGuard limit;
    run_grid(grid, block_size, shared_bytes);
    if (!failed()) memory.check_margins();
    if (record.mode == Recording::traffic) record.end_launch();
  }
  if (failed()) last_error = cudaErrorLaunchFailure;
}

void* dynamic_shared() { return dynamic_shared_region.begin; }

cudaError_t set_max_dynamic_shared(const void* function, int bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > kOptInShared) {
    return last_error = cudaErrorInvalidValue;
  }
  max_dynamic_shared[function] = bytes;
  return cudaSuccess;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kDefaultShared;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kOptInShared;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(kOptInShared);
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = kMultiprocessorThreads;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t) {
  if (record.mode == Recording::launches) return cudaSuccess;
  const Array* array = memory.find(address, bytes);
  // As long as no array has been handed over, memory is somebody else's and not watched.
  if (!memory.empty() && (!array || !array->writable())) {
    fail_host(format("cudaMemsetAsync of %zu bytes ", bytes) + memory.describe_stray(address));
    return cudaErrorInvalidValue;
  }
  std::memset(address, value, bytes);
  return cudaSuccess;
}

extern "C" void cuda_emulator_configure(uint64_t new_seed, double switch_probability,
                                        int check_initialised) {
  grid_settings = {new_seed, 1};
  limits = {};
  last_error = cudaSuccess;
  block.seed(new_seed, switch_probability);
  races.check_initialised = check_initialised != 0;
}
