// Builds what decided.h describes, where it can pay.
#pragma once

#include <optional>
#include <vector>

#include "kept_support.h"

namespace ptd {

// What is decided for one batch, with its memory.
template <class T>
class Decision {
 public:
  // Points batch.decided to the result, or leaves it where every entry has to be evaluated for
  // every sample.
  Decision(Batch<T>& batch, bool for_row_sums) {
    constexpr int64_t kFewestSamples = 8;  // deciding costs about as much as a few of them
    if (!batch.slack || batch.samples < kFewestSamples || batch.classes < kFewestClassesToDecide) {
      return;
    }
    support_ = kept_support(batch);
    if (!support_->pays()) return;
    std::vector<T> row(batch.parts);
    WeightBounds bounds;
    kernels<T>().weight_bounds(batch, row.data(), &bounds);
    if (!bounds.usable) return;
    decide(batch, bounds, for_row_sums);

    int64_t undecided = 0;
    for (int64_t i = 0; i < batch.classes; ++i) undecided += decided_.multiply_adds[i];
    if (double(undecided) > kMostNonzeros * transition_work(batch)) return;
    batch.decided = &decided_;
    batch.block = kWideBlock;
  }
  Decision(const Decision&) = delete;
  Decision& operator=(const Decision&) = delete;

 private:
  void decide(const Batch<T>& batch, const WeightBounds& bounds, bool for_row_sums) {
    const int64_t classes = batch.classes, parts = batch.parts;
    decided_.support = support_->template view<T>(classes);
    const int64_t entries = support_->entries;
    const int64_t table = for_row_sums ? parts * classes : 0;
    memory_.emplace(Buffer::bytes_for<T>(table) + Buffer::bytes_for<T>(classes) +
                    Buffer::bytes_for<T>(classes * classes) + 2 * Buffer::bytes_for<T>(entries) +
                    Buffer::bytes_for<int32_t>(classes) + Buffer::bytes_for<int32_t>(entries) +
                    Buffer::bytes_for<int64_t>(classes));
    decided_.linear = for_row_sums ? memory_->take<T>(table) : nullptr;
    decided_.constant = memory_->take<T>(classes);
    decided_.never = memory_->take<T>(classes * classes);
    decided_.share = memory_->take<T>(entries);
    decided_.entry_slack = memory_->take<T>(entries);
    decided_.count = memory_->take<int32_t>(classes);
    decided_.entry = memory_->take<int32_t>(entries);
    decided_.multiply_adds = memory_->take<int64_t>(classes);
    const double work = double(support_->nonzeros) / double(classes) + 2 * double(classes);
    const Ranges rows(classes, work);
    rows.run([&](int64_t, int64_t begin, int64_t end) {
      std::vector<T> row(parts);
      kernels<T>().decide(batch, bounds, begin, end, row.data(), &decided_);
    });
  }

  std::optional<KeptSupport> support_;
  std::optional<Buffer> memory_;
  Decided<T> decided_{};
};

}  // namespace ptd
