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

  explicit SignTables(const Batch<T>& batch)
      : batch_(batch),
        rows_(batch.classes,
              double(batch.classes) * double(batch.parts) * (1.0 + double(batch.samples) / 8)),
        tables_(rows_.count()),
        memory_(rows_.count()) {
    std::vector<T> row(batch.parts);
    kernels<T>().weight_bounds(batch, row.data(), &bounds_);
  }

  void row_sums(T* sums) {  // [N, C]
    rows_.run([&](int64_t range, int64_t begin, int64_t end) {
      T* scratch = take(range, begin, end);
      if (scratch) kernels<T>().row_sums_by_sign(batch_, bounds_, &tables_[range], scratch, sums);
    });
  }

  // Subtracts from grad_slack the gradient through the row sums of samples [first, first + count).
  // The tables are filled at the first call.
  void subtract(int64_t first, int64_t count, const T* row_grad, T* grad_slack) {
    rows_.run([&](int64_t range, int64_t begin, int64_t end) {
      const bool filled = memory_[range].has_value();
      T* scratch = take(range, begin, end);
      if (!scratch) return;
      if (!filled) kernels<T>().fill_sign_table(batch_, bounds_, &tables_[range]);
      kernels<T>().slack_gradient_by_sign(batch_, tables_[range], first, count, row_grad, scratch,
                                          grad_slack);
    });
  }

 private:
  // Allocates the memory of a range, scratch and table, at the first call. Returns the scratch, or
  // nullptr for a range without rows.
  T* take(int64_t range, int64_t begin, int64_t end) {
    const int64_t rows = end - begin, classes = batch_.classes, parts = batch_.parts;
    if (rows == 0) return nullptr;
    const int64_t words = classes * (rows / 2 + 1);  // of at least two lanes
    const int64_t scratch = Kernels<T>::sign_scratch_size(batch_);
    if (!memory_[range]) {
      memory_[range].emplace(Buffer::bytes_for<T>(scratch) + Buffer::bytes_for<T>(rows * parts) +
                             Buffer::bytes_for<T>(rows) + Buffer::bytes_for<int32_t>(rows) +
                             Buffer::bytes_for<UnknownSign>(rows * classes) +
                             Buffer::bytes_for<uint32_t>(words));
      Buffer& memory = *memory_[range];
      memory.take<T>(scratch);
      tables_[range] = {begin,
                        end,
                        memory.take<T>(rows * parts),
                        memory.take<T>(rows),
                        memory.take<int32_t>(rows),
                        memory.take<UnknownSign>(rows * classes),
                        memory.take<uint32_t>(words)};
    }
    return reinterpret_cast<T*>(memory_[range]->data());
  }

  const Batch<T>& batch_;
  Ranges rows_;
  WeightBounds bounds_;
  std::vector<SignTable<T>> tables_;
  std::vector<std::optional<Buffer>> memory_;
};

// Writes the row sums if sign tables are faster, and sets has_row_sums for the forward kernels.
template <class T>
void row_sums_by_sign(Batch<T>& batch, T* sums) {  // [N, C]
  if (!SignTables<T>::pay(batch)) return;
  SignTables<T>(batch).row_sums(sums);
  batch.has_row_sums = true;
}

}  // namespace ptd
