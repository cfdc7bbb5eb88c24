// Row sums of T(x) + slack, and the gradient of slack through them, by sign tables. Each thread has
// a table for its rows.
#pragma once

#include <vector>

#include "inputs.h"

namespace ptd {

template <class T>
class SignTables {
 public:
  // True if tables are faster. With few classes T(x) fits in registers, and a table costs as much
  // as several samples.
  static bool pay(const Batch<T>& batch) {
    return batch.slack && batch.classes >= 32 && batch.classes <= INT32_MAX && batch.samples >= 8;
  }

  // With `keep_signs` the signs that row_sums finds are kept for `subtract`.
  SignTables(const Batch<T>& batch, bool keep_signs)
      : batch_(batch),
        keep_signs_(keep_signs),
        rows_(batch.classes,
              double(batch.classes) * double(batch.parts) * (1.0 + double(batch.samples) / 8)),
        ranges_(rows_.count()) {
    std::vector<T> row(batch.parts);
    kernels<T>().weight_bounds(batch, row.data(), &bounds_);
  }

  // Row sums of samples [first, first + count), at most kSignSamples if the signs are kept. The
  // first call fills the tables.
  void row_sums(int64_t first, int64_t count, T* sums) {  // [count, C]
    rows_.run([&](int64_t index, int64_t begin, int64_t end) {
      if (begin == end) return;
      Range& range = ranges_[index];
      if (!range.memory) fill(range, begin, end);
      kernels<T>().row_sums_by_sign(batch_, range.table, first, count, range.scratch, sums);
    });
  }

  // Subtracts from grad_slack the gradient through the row sums of the last call of row_sums.
  void subtract(int64_t count, const T* row_grad, T* grad_slack) {
    rows_.run([&](int64_t index, int64_t begin, int64_t end) {
      if (begin == end) return;
      const Range& range = ranges_[index];
      kernels<T>().slack_gradient_by_sign(batch_, range.table, count, row_grad, range.scratch,
                                          grad_slack);
    });
  }

 private:
  struct Range {
    SignTable<T> table;
    T* scratch;
    std::optional<Buffer> memory, signs;
  };

  void fill(Range& range, int64_t begin, int64_t end) {
    const int64_t rows = end - begin, classes = batch_.classes, parts = batch_.parts;
    const int64_t words = classes * (rows / 2 + 1);  // of at least two lanes
    const int64_t scratch = Kernels<T>::sign_scratch_size(batch_);
    range.memory.emplace(Buffer::bytes_for<T>(scratch) + Buffer::bytes_for<T>(rows * parts) +
                         Buffer::bytes_for<T>(rows) + Buffer::bytes_for<int32_t>(rows) +
                         Buffer::bytes_for<UnknownSign>(rows * classes) +
                         Buffer::bytes_for<uint32_t>(words));
    Buffer& memory = *range.memory;
    range.scratch = memory.take<T>(scratch);
    range.table = {begin,
                   end,
                   memory.take<T>(rows * parts),
                   memory.take<T>(rows),
                   memory.take<int32_t>(rows),
                   memory.take<UnknownSign>(rows * classes),
                   memory.take<uint32_t>(words),
                   /*signs=*/nullptr};
    kernels<T>().fill_sign_table(batch_, bounds_, &range.table);
    if (!keep_signs_) return;
    int64_t unknown = 0;
    for (int64_t row = 0; row < rows; ++row) unknown += range.table.count[row];
    const int64_t signs = unknown * kSignSamples / kernels<T>().lanes;
    range.signs.emplace(Buffer::bytes_for<uint16_t>(signs));
    range.table.signs = range.signs->template take<uint16_t>(signs);
  }

  const Batch<T>& batch_;
  bool keep_signs_;
  Ranges rows_;
  WeightBounds bounds_;
  std::vector<Range> ranges_;
};

// Writes the row sums if sign tables are faster, and sets has_row_sums for the forward kernels.
template <class T>
void row_sums_by_sign(Batch<T>& batch, T* sums) {  // [N, C]
  if (!SignTables<T>::pay(batch)) return;
  SignTables<T>(batch, /*keep_signs=*/false).row_sums(0, batch.samples, sums);
  batch.has_row_sums = true;
}

}  // namespace ptd
