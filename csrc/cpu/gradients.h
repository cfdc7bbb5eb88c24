// Gradient outputs of an operator. Gradients of slack and parts are sums over samples: every range
// of samples has its own, and they are added in order, so the result does not depend on timing.
#pragma once

#include <cstring>

#include "../gradient_tensors.h"
#include "inputs.h"

namespace ptd {

template <class T>
class GradientOutputs {
 public:
  GradientOutputs(const Tensor& logits, const Tensor& parts, const OptionalTensor& slack,
                  const Batch<T>& batch, const Needs& needs)
      : batch_(batch),
        needs_(needs),
        tensors_({batch.samples, batch.classes, batch.parts}, logits, parts, slack, needs) {}

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
    if (needs_.logits) grads.logits = matrix_of(tensors_.logits);
    if (needs_.weights) grads.weights = matrix_of(tensors_.weights);
    T* own = sums_ + range * sums_of_a_range();
    if (needs_.parts) grads.columns = own;
    if (needs_.slack) {
      grads.slack = own + tensors_.parts.numel();
      grads.slack_rows = grads.slack + tensors_.slack.numel();
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
      std::memcpy(tensors_.parts.data_ptr(), total.columns, sizeof(T) * tensors_.parts.numel());
    }
    if (needs_.slack) {
      if (batch_.decided) {
        kernels<T>().finish_decided_slack(*batch_.decided, classes, total.slack_rows, total.slack);
      }
      T* out = static_cast<T*>(tensors_.slack.data_ptr());
      if (is_column_layout(tensors_.slack)) {
        std::memcpy(out, total.slack, sizeof(T) * tensors_.slack.numel());
      } else {
        transpose_square<T>(total.slack, classes, 1, classes, out);
      }
    }
    return tensors_.tuple();
  }

 private:
  int64_t sums_of_a_range() const {
    return (needs_.parts ? tensors_.parts.numel() : 0) +
           (needs_.slack ? tensors_.slack.numel() + batch_.classes : 0);
  }

  const Batch<T>& batch_;
  Needs needs_;
  GradientTensors tensors_;
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
