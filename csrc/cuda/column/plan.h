// The launch plan of the kernels of column/kernels.cuh, made once per call. Host code.
#pragma once

#include "common/device.h"
#include "common/tuning.h"

namespace ptd {

// The maximum number of classes of the kernels: the registers of a block hold all classes of a
// sample.
template <class T>
constexpr int64_t kMaxClasses = int64_t(kBlockPerSampleThreads) * kBlockPerSampleItems<T>;

// The mapping of samples to threads. It depends on the sizes and the device alone, so that sums are
// reproducible on a device.
struct ColumnPlan {
  enum Mapping { kThreadPerSample, kWarpPerSample, kBlockPerSample } mapping;
  dim3 grid;
  unsigned threads;
  size_t shared;      // bytes
  int block_samples;  // of a block with a thread per sample

  // T is the accumulation type, float or double.
  template <class T>
  static ColumnPlan of(int64_t samples, int64_t classes, int64_t parts) {
    const size_t budget = shared_memory_budget(kColumnThreads);
    const size_t column = size_t(parts * classes) * sizeof(T);
    const size_t all_columns = size_t(classes) * (column + sizeof(T));
    // The classes of a sample do not fit in a thread's registers as doubles.
    if (sizeof(T) == 4 && classes <= kThreadPerSampleClasses && all_columns <= budget) {
      // A small batch is spread over the multiprocessors, a warp to each at least.
      const int64_t spread = ceil_div(samples, device_properties().multiprocessors);
      const int block_samples = int(whole_warps(spread, kColumnThreads));
      const dim3 grid(blocks_for(samples, block_samples));
      return {kThreadPerSample, grid, kColumnThreads, all_columns, block_samples};
    }
    if (classes <= 32 * kWarpPerSampleItems<T> && column <= budget) {
      const dim3 grid(blocks_for(samples, kLabelChunk), unsigned(classes + 1));
      return {kWarpPerSample, grid, kColumnThreads, column, 0};
    }
    const DeviceProperties& device = device_properties();
    const unsigned threads = whole_warps(ceil_div(classes, kBlockPerSampleItems<T>));
    const int64_t resident = int64_t(device.multiprocessors) * (device.threads / int(threads));
    return {kBlockPerSample, dim3(blocks_for(samples < resident ? samples : resident, 1)), threads,
            0, 0};
  }

  int64_t blocks() const { return int64_t(grid.x) * grid.y; }
};

}  // namespace ptd
