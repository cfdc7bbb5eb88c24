// Bounds: each kernel takes how far it goes wrong, zero for its correct twin.
#include "common/launch.h"

constexpr unsigned kThreads = 128;

static unsigned blocks_for(int64_t n) {
  return static_cast<unsigned>((n + kThreads - 1) / kThreads);
}

// y[i] = x[i + read_off], and one more or fewer element written.
__global__ void copy(const float* x, float* y, int64_t n, int64_t read_off, int64_t write_extra) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const float value = i < n ? x[i + read_off] : 0.0f;
  if (i < n + write_extra) y[i] = value;
}

extern "C" void launch_copy(const float* x, float* y, int64_t n, int64_t read_off,
                            int64_t write_extra) {
  if (n == 0) return;
  PTD_LAUNCH(copy, blocks_for(n + write_extra), kThreads, 0, nullptr, x, y, n, read_off,
             write_extra);
}

// The same through dynamic shared memory of `kThreads + shared_slack` floats.
__global__ void copy_shared(const float* x, float* y, int64_t n) {
  PTD_DYNAMIC_SHARED(float, tile);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) y[i] = tile[threadIdx.x];
}

extern "C" void launch_copy_shared(const float* x, float* y, int64_t n, int64_t shared_slack) {
  PTD_LAUNCH(copy_shared, blocks_for(n), kThreads, (kThreads + shared_slack) * sizeof(float),
             nullptr, x, y, n);
}

__global__ void fixed_array(const int* index, int* y) {
  __shared__ int table[8];
  if (threadIdx.x < 8) table[threadIdx.x] = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = table[index[threadIdx.x]];
}

extern "C" void launch_fixed_array(const int* index, int* y, int64_t n) {
  PTD_LAUNCH(fixed_array, 1, static_cast<unsigned>(n), 0, nullptr, index, y);
}

__global__ void copy_vectors(const float* x, float* y) {
  reinterpret_cast<float4*>(y)[threadIdx.x] = reinterpret_cast<const float4*>(x)[threadIdx.x];
}

extern "C" void launch_copy_vectors(const float* x, float* y, int64_t n, int64_t offset) {
  PTD_LAUNCH(copy_vectors, 1, static_cast<unsigned>(n / 4), 0, nullptr, x + offset, y);
}

__global__ void offset_product(const int* sizes, int64_t* y, int64_t wide) {
  y[0] = wide ? int64_t{sizes[0]} * sizes[1] : sizes[0] * sizes[1];
}

extern "C" void launch_offset_product(const int* sizes, int64_t* y, int64_t wide) {
  PTD_LAUNCH(offset_product, 1, 1, 0, nullptr, sizes, y, wide);
}

__device__ int64_t deep(int64_t depth, volatile char* above) {
  volatile char frame[1024];
  frame[0] = above[0];
  return depth == 0 ? 0 : 1 + deep(depth - 1, frame);
}

__global__ void use_stack(int64_t* y, int64_t depth) {
  char first = 1;
  y[threadIdx.x] = deep(depth, &first);
}

extern "C" void launch_use_stack(int64_t* y, int64_t n, int64_t depth) {
  PTD_LAUNCH(use_stack, 1, static_cast<unsigned>(n), 0, nullptr, y, depth);
}

// Any launch configuration, and a kernel that does nothing.
__global__ void nothing() {}

extern "C" void launch_nothing(int64_t grid, int64_t block, int64_t shared, int64_t raise_limit) {
  if (raise_limit) {
    cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(raise_limit));
  }
  PTD_LAUNCH(nothing, static_cast<unsigned>(grid), static_cast<unsigned>(block), shared, nullptr);
}
