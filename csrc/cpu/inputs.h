// Tensors as the CPU kernels take them, and the division of work among threads.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <optional>
#include <vector>

#include "buffer.h"
#include "check.h"
#include "kernels.h"
#include "layout.h"

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

// Ranges of samples: at most one per thread, and few enough that each is worth starting a thread.
// The division depends on the sizes and the number of threads alone, so that sums are reproducible.
class Ranges {
 public:
  // `work` is in multiply-adds per sample; `max_count` limits the number of ranges, which are
  // multiples of `block` samples.
  Ranges(int64_t samples, double work, int64_t max_count = INT64_MAX, int64_t block = kBlock)
      : samples_(samples) {
    constexpr double kWorthAThread = 300e3;  // multiply-adds, about eight microseconds
    const double worth = double(samples) * work / kWorthAThread;
    int64_t count = torch::stable::get_num_threads();
    if (double(count) > worth) count = worth < 1 ? 1 : int64_t(worth);
    if (count > max_count) count = max_count;
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

// A copy of the parts in column layout, with the columns of some labels or of all classes.
template <class T>
class LaidOutColumns {
 public:
  explicit LaidOutColumns(const PartsView<T>& parts) : parts_(parts), columns_(parts.classes) {}

  // Restricts the copy to the columns of labels [begin, end).
  void choose(const Labels& labels, int64_t begin, int64_t end) {
    index_.assign(parts_.classes, -1);
    columns_ = 0;
    for (int64_t n = begin; n < end; ++n) {
      const int64_t label = label_at(labels, n);
      if (label < 0 || label >= parts_.classes || index_[label] >= 0) continue;
      index_[label] = columns_++;
    }
  }

  const int32_t* index() const { return index_.empty() ? nullptr : index_.data(); }

  const T* lay_out(int64_t max_threads = INT64_MAX) {
    const int64_t rows = parts_.count * parts_.classes;
    memory_.emplace(Buffer::bytes_for<T>(columns_ * rows));
    T* out = memory_->template take<T>(columns_ * rows);
    const Ranges ranges(rows, double(parts_.classes), max_threads);
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      kernels<T>().lay_out_columns(parts_, begin, end, index(), out);
    });
    return out;
  }

 private:
  PartsView<T> parts_;
  int32_t columns_;
  std::vector<int32_t> index_;
  std::optional<Buffer> memory_;
};

// The columns of the parts that an operator reads.
enum class ColumnsRead { none, of_labels, all };

// T(x) of a batch with the memory its views refer to. Nothing is cached between calls, so that
// writes to the parts in place take effect.
template <class T>
class BatchInputs {
 public:
  Batch<T> batch;

  BatchInputs(const Sizes& sizes, const OptionalTensor& weights, const Tensor& parts,
              const OptionalTensor& slack, ColumnsRead read, const Tensor* labels = nullptr)
      : view_{static_cast<const T*>(parts.data_ptr()), sizes.parts,      sizes.classes,
              parts.dim() == 3 ? parts.stride(0) : 0,  parts.stride(-2), parts.stride(-1)} {
    batch.samples = sizes.samples;
    batch.classes = sizes.classes;
    batch.parts = sizes.parts;
    if (weights) batch.weights = matrix_of(*weights);
    batch.columns = view_.data;
    batch.slack = slack ? static_cast<const T*>(slack->data_ptr()) : nullptr;
    if (slack && !is_column_layout(*slack)) {
      slack_columns_.emplace(
          PartsView<T>{batch.slack, 1, sizes.classes, 0, slack->stride(0), slack->stride(1)});
      batch.slack = slack_columns_->lay_out();
    }
    if (is_column_layout(parts) || read == ColumnsRead::none) return;
    if (read == ColumnsRead::of_labels) labels_ = labels_of(*labels);
    // Reading data that another core has just written is slow: if the parts are small, each thread
    // copies the columns of its own labels.
    constexpr int64_t kFewNumbers = int64_t(1) << 19;
    own_columns_ = labels_ && parts.numel() <= kFewNumbers;
    if (own_columns_) return;
    columns_.emplace(view_);
    if (labels_) columns_->choose(*labels_, 0, sizes.samples);
    batch.columns = columns_->lay_out();
    batch.column_index = columns_->index();
  }
  BatchInputs(const BatchInputs&) = delete;
  BatchInputs& operator=(const BatchInputs&) = delete;

  // Points `own` to the columns of labels [begin, end), if each thread copies its own. The result
  // owns those columns.
  std::optional<LaidOutColumns<T>> own_columns(int64_t begin, int64_t end, Batch<T>& own) const {
    if (!own_columns_) return {};
    LaidOutColumns<T> columns(view_);
    columns.choose(*labels_, begin, end);
    own.columns = columns.lay_out(/*max_threads=*/1);
    own.column_index = columns.index();
    return columns;
  }

 private:
  PartsView<T> view_;
  std::optional<Labels> labels_;
  bool own_columns_ = false;
  std::optional<LaidOutColumns<T>> columns_, slack_columns_;
};

// The scratch of one thread, on the stack at the paper's sizes, as large as scratch_size says.
template <class T>
class Scratch {
 public:
  Scratch(const Batch<T>& batch, bool whole, bool revised = false) {
    const int64_t size = Kernels<T>::scratch_size(batch, whole, revised);
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
  return column_work(batch) + (batch.slack && !batch.has_row_sums ? transition_work(batch) : 0);
}

}  // namespace ptd
