// The launch plan of the kernels of column/kernels.cuh, made once per call. Host code.
#pragma once

#include "common/device.h"
#include "common/tuning.h"

namespace ptd {

// The most classes that a GPU takes: the registers of a block hold a sample's.
template <class T>
constexpr int64_t kMostClasses = int64_t(kBlockPerSampleThreads) * kBlockPerSampleItems<T>;

// The mapping of samples to threads, from the sizes alone: sums come out the same every time.
struct ColumnPlan {
  enum Mapping { kThreadPerSample, kWarpPerSample, kBlockPerSample } mapping;
  dim3 grid;
  unsigned threads = kColumnThreads;
  size_t shared = 0;  // bytes

  ColumnPlan(int64_t samples, int64_t classes, int64_t parts, size_t element) {
    const size_t budget = shared_memory_budget(kColumnThreads);
    const size_t column = size_t(parts * classes) * element;
    const size_t all_columns = size_t(classes) * (column + element);
    if (classes <= kThreadPerSampleClasses && element == 4 && all_columns <= budget) {
      mapping = kThreadPerSample;
      grid = dim3(blocks_for(samples, kColumnThreads));
      shared = all_columns;
    } else if (classes <= kWarpPerSampleClasses && column <= budget) {
      mapping = kWarpPerSample;
      grid = dim3(blocks_for(samples, kLabelChunk), unsigned(classes + 1));
      shared = column;
    } else {
      const int64_t items = element == 4 ? kBlockPerSampleItems<float> : kBlockPerSampleItems<double>;
      const int64_t most = int64_t(kBlocksPerMultiprocessor) * device_properties().multiprocessors;
      mapping = kBlockPerSample;
      grid = dim3(blocks_for(samples < most ? samples : most, 1));
      threads = whole_warps(ceil_div(classes, items));
    }
  }

  int64_t blocks() const { return int64_t(grid.x) * grid.y; }
};

}  // namespace ptd
