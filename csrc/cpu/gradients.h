// Gradient outputs of an operator. Gradients of slack and parts are sums over samples: every range
// of samples has its own, and they are added in order, so the result does not depend on timing.
#pragma once

#include <cstring>
#include <tuple>

#include "inputs.h"

namespace ptd {

using FourTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

struct Needs {
  bool logits, weights, parts, slack;
};

template <class T>
class GradientOutputs {
 public:
  GradientOutputs(const Tensor& logits, const Tensor& parts, const OptionalTensor& slack,
                  const Batch<T>& batch, const Needs& needs)
      : batch_(batch), needs_(needs) {
    const int64_t n = batch.samples, c = batch.classes, r = batch.parts;
    const ScalarType dtype = parts.scalar_type();
    const auto none = [&] { return empty({0}, dtype, logits); };
    logits_ = needs.logits ? empty({n, c}, logits.scalar_type(), logits) : none();
    weights_ = needs.weights ? empty({n, r}, dtype, logits) : none();
    // A column is contiguous, as in the parts themselves.
    columns_ = !needs.parts       ? none()
               : parts.dim() == 3 ? empty_strided({r, c, c}, {c, 1, r * c}, dtype, logits)
                                  : empty_strided({c, c}, {1, c}, dtype, logits);
    // In the layout of the slack, so that an optimiser's update goes straight through memory.
    slack_by_column_ = needs.slack && is_column_layout(*slack);
    slack_ = !needs.slack       ? none()
             : slack_by_column_ ? empty_strided({c, c}, {1, c}, dtype, logits)
                                : empty({c, c}, dtype, logits);
  }

  // How many ranges may have sums of their own. Together these stay below the size of the inputs,
  // unless they are small.
  int64_t most_ranges() const {
    constexpr int64_t kSmall = int64_t(1) << 18;  // numbers
    const int64_t c = batch_.classes, r = batch_.parts;
    const int64_t allowed = (batch_.samples * (c + r) + c * c * r) / 2;
    return needs_.parts || needs_.slack
               ? 1 + (allowed > kSmall ? allowed : kSmall) / sums_of_a_range()
               : INT64_MAX;
  }

  void start(int64_t ranges) {
    const int64_t size = ranges * sums_of_a_range();
    if (size == 0) return;
    memory_.emplace(Buffer::bytes_for<T>(size));
    sums_ = memory_->template take<T>(size);
    std::memset(sums_, 0, sizeof(T) * size);
  }

  Gradients<T> of_range(int64_t range) {
    Gradients<T> grads{};
    if (needs_.logits) grads.logits = matrix_of(logits_);
    if (needs_.weights) grads.weights = matrix_of(weights_);
    T* own = sums_ + range * sums_of_a_range();
    if (needs_.parts) grads.columns = own;
    if (needs_.slack) {
      grads.slack = own + columns_.numel();
      grads.slack_rows = grads.slack + slack_.numel();
    }
    return grads;
  }

  FourTensors finish(int64_t ranges) {
    const int64_t size = sums_of_a_range(), classes = batch_.classes;
    for (int64_t range = 1; range < ranges; ++range) {
      for (int64_t at = 0; at < size; ++at) sums_[at] += sums_[range * size + at];
    }
    const Gradients<T> total = of_range(0);
    if (needs_.parts) {
      std::memcpy(columns_.data_ptr(), total.columns, sizeof(T) * columns_.numel());
    }
    if (needs_.slack) {
      if (batch_.decided) {
        kernels<T>().finish_decided_slack(*batch_.decided, classes, total.slack_rows, total.slack);
      }
      T* out = static_cast<T*>(slack_.data_ptr());
      if (slack_by_column_) {
        std::memcpy(out, total.slack, sizeof(T) * slack_.numel());
      } else {
        transpose_square<T>(total.slack, classes, 1, classes, out);
      }
    }
    return {logits_, weights_, columns_, slack_};
  }

 private:
  int64_t sums_of_a_range() const {
    return (needs_.parts ? columns_.numel() : 0) +
           (needs_.slack ? slack_.numel() + batch_.classes : 0);
  }

  const Batch<T>& batch_;
  Needs needs_;
  Tensor logits_, weights_, columns_, slack_;
  bool slack_by_column_;
  std::optional<Buffer> memory_;
  T* sums_ = nullptr;  // [ranges]: parts by column, slack by column, slack_rows
};

// Runs body(begin, end, scratch, grads) over all samples and returns the four gradients.
template <class T, class Body>
FourTensors backward_ranges(const Tensor& logits, const Tensor& parts, const OptionalTensor& slack,
                            const Batch<T>& batch, const Needs& needs, double work,
                            const Body& body) {
  GradientOutputs<T> outputs(logits, parts, slack, batch, needs);
  const Ranges ranges(batch.samples, work, outputs.most_ranges());
  outputs.start(ranges.count());
  ranges.run([&](int64_t range, int64_t begin, int64_t end) {
    Scratch<T> scratch(batch, /*whole=*/true);
    body(begin, end, scratch.data(), outputs.of_range(range));
  });
  return outputs.finish(ranges.count());
}

}  // namespace ptd
