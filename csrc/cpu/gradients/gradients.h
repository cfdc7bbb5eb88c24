// Gradient outputs of an operator. Gradients of slack and parts are sums over samples: every range
// of samples has its own partial sums, which are added in order, so that the result does not depend
// on thread timing.
#pragma once

#include <algorithm>
#include <cstring>

#include "gradient_tensors.h"
#include "row_sums/row_sums.h"

namespace ptd {

template <class T>
class GradientOutputs {
 public:
  GradientOutputs(const Tensor& logits, const Tensor& parts, const OptionalTensor& slack,
                  const Batch<T>& batch, const Needs& needs)
      : batch_(batch),
        needs_(needs),
        tensors_({batch.samples, batch.classes, batch.parts}, logits, parts, slack, needs) {}

  // The largest number of ranges with partial sums of their own. Together these sums stay smaller
  // than the inputs, or below kSmall.
  int64_t max_ranges() const {
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
      T* out = static_cast<T*>(tensors_.slack.data_ptr());
      if (is_column_layout(tensors_.slack)) {
        std::memcpy(out, total.slack, sizeof(T) * tensors_.slack.numel());
      } else {
        const PartsView<T> rows{total.slack, 1, classes, 0, classes, 1};
        kernels<T>().lay_out_columns(rows, 0, classes, nullptr, out);
      }
    }
    return tensors_.tuple();
  }

 private:
  int64_t sums_of_a_range() const {
    return (needs_.parts ? tensors_.parts.numel() : 0) +
           (needs_.slack ? tensors_.slack.numel() : 0);
  }

  const Batch<T>& batch_;
  Needs needs_;
  GradientTensors tensors_;
  std::optional<Buffer> memory_;
  T* sums_ = nullptr;  // [ranges]: parts by column, slack by column
};

// Runs body(batch, begin, end, scratch, grads, row_sums) over all samples and returns the four
// gradients. With `by_sign`, sign tables compute the row sums, [end - begin, C], which are nullptr
// otherwise, and add the slack gradient through them.
template <class T, class Body>
FourTensors backward_ranges(const Tensor& logits, const Tensor& parts, const OptionalTensor& slack,
                            const BatchInputs<T>& inputs, const Needs& needs, double work,
                            bool by_sign, const Body& body) {
  const Batch<T>& batch = inputs.batch;
  const int64_t classes = batch.classes;
  GradientOutputs<T> outputs(logits, parts, slack, batch, needs);
  const auto run = [&](const Ranges& ranges, int64_t first, const T* row_sums, T* row_grad) {
    ranges.run([&](int64_t range, int64_t begin, int64_t end) {
      Scratch<T> scratch(batch, /*whole=*/true,
                         /*revised=*/slack && (needs.weights || needs.parts));
      Batch<T> own = batch;
      const auto columns = inputs.own_columns(begin, end, own);
      Gradients<T> grads = outputs.of_range(range);
      grads.row_grad = row_grad ? row_grad + begin * classes : nullptr;
      body(own, first + begin, first + end, scratch.data(), grads,
           row_sums ? row_sums + begin * classes : nullptr);
    });
  };
  const int64_t at_a_time = by_sign ? std::min(kSignSamples, batch.samples) : batch.samples;
  const Ranges ranges(at_a_time, work, outputs.max_ranges());
  outputs.start(ranges.count());
  if (!by_sign) {
    run(ranges, 0, nullptr, nullptr);
    return outputs.finish(ranges.count());
  }
  SignTables<T> signs(batch, /*keep_signs=*/needs.slack);
  Buffer memory(2 * Buffer::bytes_for<T>(at_a_time * classes));
  T* row_sums = memory.take<T>(at_a_time * classes);
  T* row_grad = memory.take<T>(at_a_time * classes);
  for (int64_t first = 0; first < batch.samples; first += at_a_time) {
    const int64_t count = std::min(at_a_time, batch.samples - first);
    signs.row_sums(first, count, row_sums);
    run(Ranges(count, work, ranges.count()), first, row_sums, needs.slack ? row_grad : nullptr);
    if (needs.slack) signs.subtract(count, row_grad, outputs.of_range(0).slack);
  }
  return outputs.finish(ranges.count());
}

}  // namespace ptd
