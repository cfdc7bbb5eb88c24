// Tensors as the CPU kernels take them, and their work divided among threads.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <optional>
#include <vector>

#include "../check.h"
#include "../layout.h"
#include "buffer.h"
#include "kernels.h"
#include "transpose.h"

namespace ptd {

inline Matrix matrix_of(const Tensor& tensor) {  // [rows, columns]
  Matrix m;
  m.data = tensor.data_ptr();
  switch (tensor.scalar_type()) {
    case ScalarType::Double:
      m.scalar = Scalar::f64;
      break;
    case ScalarType::Half:
      m.scalar = Scalar::f16;
      break;
    case ScalarType::BFloat16:
      m.scalar = Scalar::bf16;
      break;
    default:
      m.scalar = Scalar::f32;
  }
  m.row_stride = tensor.stride(0);
  m.stride = tensor.stride(1);
  return m;
}

inline Labels labels_of(const Tensor& labels) {
  return {labels.data_ptr(), labels.scalar_type() == ScalarType::Long, labels.stride(0)};
}

inline OptionalTensor contiguous(const OptionalTensor& tensor) {
  if (!tensor) return tensor;
  return torch::stable::contiguous(*tensor);
}

// T(x) of a batch with the memory its views refer to.
template <class T>
struct BatchInputs {
  Tensor columns;  // whose memory is [C, R, C], contiguous
  std::optional<Buffer> slack_columns;
  Batch<T> batch;

  BatchInputs(const Sizes& sizes, const OptionalTensor& weights, const Tensor& parts,
              const OptionalTensor& slack)
      : columns(parts_by_column(parts)) {
    batch.samples = sizes.samples;
    batch.classes = sizes.classes;
    batch.parts = sizes.parts;
    if (weights) batch.weights = matrix_of(*weights);
    batch.columns = static_cast<const T*>(columns.data_ptr());
    batch.slack = slack ? static_cast<const T*>(slack->data_ptr()) : nullptr;
    if (slack && !is_column_layout(*slack)) {
      const int64_t classes = sizes.classes;
      slack_columns.emplace(Buffer::bytes_for<T>(classes * classes));
      T* transposed = slack_columns->template take<T>(classes * classes);
      transpose_square(batch.slack, slack->stride(0), slack->stride(1), classes, transposed);
      batch.slack = transposed;
    }
  }
};

// Ranges of samples, one per thread at most and none smaller than is worth a thread. The division
// depends on the sizes and the number of threads alone, so that sums come out the same every time.
class Ranges {
 public:
  // `work` is in multiply-adds per sample; `most` limits the number of ranges, which are multiples
  // of `block` samples.
  Ranges(int64_t samples, double work, int64_t most = INT64_MAX, int64_t block = kBlock)
      : samples_(samples) {
    constexpr double kWorthAThread = 400e3;  // some ten microseconds
    const double worth = double(samples) * work / kWorthAThread;
    int64_t count = torch::stable::get_num_threads();
    if (double(count) > worth) count = worth < 1 ? 1 : int64_t(worth);
    if (count > most) count = most;
    const int64_t blocks = (samples + block - 1) / block;
    if (count > blocks) count = blocks < 1 ? 1 : blocks;
    count_ = count;
    size_ = (blocks + count - 1) / count * block;
  }

  int64_t count() const { return count_; }

  template <class Body>  // body(range, begin, end)
  void run(const Body& body) const {
    if (count_ == 1) return body(0, int64_t(0), samples_);
    torch::stable::parallel_for(0, count_, 1, [&](int64_t first, int64_t last) {
      for (int64_t range = first; range < last; ++range) {
        const int64_t begin = range * size_, end = begin + size_;
        body(range, begin < samples_ ? begin : samples_, end < samples_ ? end : samples_);
      }
    });
  }

 private:
  int64_t samples_, count_, size_;
};

// Scratch of one thread: on the stack at the paper's sizes. `whole`, or only what the forward of a
// loss needs.
template <class T>
class Scratch {
 public:
  Scratch(const Batch<T>& batch, bool whole) {
    const int64_t size = Kernels<T>::scratch_size(batch, whole);
    if (size > kInline) heap_.emplace(Buffer::bytes_for<T>(size));
  }
  T* data() { return heap_ ? reinterpret_cast<T*>(heap_->data()) : inline_; }

 private:
  static constexpr int64_t kInline = 2048;
  T inline_[kInline];
  std::optional<Buffer> heap_;
};

// Multiply-adds per sample of a pass over one column, or over the whole of T(x).
template <class T>
double column_work(const Batch<T>& batch) {
  return double(batch.classes) * double(batch.parts + 30);  // 30 for exp and the sums
}
template <class T>
double transition_work(const Batch<T>& batch) {
  return double(batch.classes) * double(batch.classes) * double(batch.parts);
}
template <class T>
double loss_work(const Batch<T>& batch) {
  if (batch.decided) return 3 * column_work(batch);
  return column_work(batch) + (batch.slack ? transition_work(batch) : 0);
}

}  // namespace ptd
