// Builds what support.h and decided.h describe, where it can pay.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "inputs.h"

namespace ptd {

// Below this, T(x) fits into a few registers and evaluating all of it beats any list.
constexpr int64_t kFewestClassesToDecide = 32;
// A list costs an index per non-zero, and its memory: beyond this share of non-zeros it loses.
constexpr double kMostNonzeros = 0.25;

// Orders the entries of a row by their number of non-zeros: loops over these then end where the
// processor expects it.
template <class T>
void sort_row(Support<T>& support, int64_t i) {
  const int32_t begin = support.row_first[i], end = support.row_first[i + 1];
  if (begin == end) return;
  const int32_t offset = support.first[begin];
  const auto count = [&](int32_t e) { return support.first[e + 1] - support.first[e]; };
  std::vector<int32_t> order(end - begin);
  for (int32_t e = begin; e < end; ++e) order[e - begin] = e;
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return count(a) < count(b); });
  std::vector<int32_t> first, column, part;
  std::vector<T> low, high, value;
  for (const int32_t e : order) {
    first.push_back(offset + int32_t(part.size()));
    column.push_back(support.column[e]);
    low.push_back(support.low[e]);
    high.push_back(support.high[e]);
    for (int32_t z = support.first[e]; z < support.first[e] + count(e); ++z) {
      part.push_back(support.part[z]);
      value.push_back(support.value[z]);
    }
  }
  std::copy(first.begin(), first.end(), support.first + begin);
  std::copy(column.begin(), column.end(), support.column + begin);
  std::copy(low.begin(), low.end(), support.low + begin);
  std::copy(high.begin(), high.end(), support.high + begin);
  std::copy(part.begin(), part.end(), support.part + offset);
  std::copy(value.begin(), value.end(), support.value + offset);
}

// The support as one tensor of bytes, empty where it would not pay.
template <class T>
Tensor make_support(const Batch<T>& batch) {
  const Tensor none = Buffer(0).tensor();
  const int64_t classes = batch.classes;
  const double dense = double(classes) * double(classes) * double(batch.parts);
  if (classes < kFewestClassesToDecide || dense > double(INT32_MAX)) return none;

  const Ranges rows(classes, double(classes * batch.parts));
  std::vector<int32_t> entries(classes, 0), nonzeros(classes, 0), usable(rows.count(), 0);
  rows.run([&](int64_t range, int64_t begin, int64_t end) {
    usable[range] = kernels<T>().count_support(batch, begin, end, entries.data(), nonzeros.data());
  });
  int64_t all_entries = 0, all_nonzeros = 0;
  for (int64_t i = 0; i < classes; ++i) {
    all_entries += entries[i];
    all_nonzeros += nonzeros[i];
  }
  for (const int32_t range : usable) {
    if (!range) return none;
  }
  if (double(all_nonzeros) > kMostNonzeros * dense) return none;

  const Buffer memory(Support<T>::bytes(classes, all_entries, all_nonzeros));
  *reinterpret_cast<typename Support<T>::Header*>(memory.data()) = {
      all_entries, all_nonzeros, classes, batch.parts, int64_t(sizeof(T))};
  auto support = Support<T>::over(memory.data(), classes, all_entries, all_nonzeros);
  int32_t entry = 0, nonzero = 0;
  for (int64_t i = 0; i < classes; ++i) {
    support.row_first[i] = entry;
    if (entries[i]) support.first[entry] = nonzero;
    entry += entries[i];
    nonzero += nonzeros[i];
  }
  support.row_first[classes] = entry;
  support.first[entry] = nonzero;
  std::vector<int32_t> next(classes, 0);
  rows.run([&](int64_t, int64_t begin, int64_t end) {
    kernels<T>().fill_support(batch, begin, end, next.data(), &support);
  });
  for (int64_t i = 0; i < classes; ++i) sort_row(support, i);
  return memory.tensor();
}

// What is decided for one batch, with its memory.
template <class T>
class Decision {
 public:
  // `given` is the support of the parts if the caller has kept it. Points batch.decided to the
  // result, or leaves it where every entry has to be evaluated for every sample.
  Decision(Batch<T>& batch, const OptionalTensor& given, bool for_row_sums) {
    constexpr int64_t kFewestSamples = 8;  // deciding costs about as much as a few of them
    if (!batch.slack || batch.samples < kFewestSamples || batch.classes < kFewestClassesToDecide) {
      return;
    }
    support_ = given ? *given : make_support(batch);
    if (support_->numel() == 0) return;
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
    auto* memory = static_cast<char*>(support_->data_ptr());
    const auto& header = *reinterpret_cast<const typename Support<T>::Header*>(memory);
    if (support_->numel() < int64_t(sizeof(header)) || header.classes != classes ||
        header.parts != parts || header.scalar_bytes != int64_t(sizeof(T)) ||
        support_->numel() != Support<T>::bytes(classes, header.entries, header.nonzeros)) {
      refuse("transition_loss: support must be part_support(parts) of these parts, or absent.");
    }
    decided_.support = Support<T>::over(memory, classes, header.entries, header.nonzeros);
    const int64_t entries = header.entries;
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
    const double work = double(header.nonzeros) / double(classes) + 2 * double(classes);
    const Ranges rows(classes, work);
    rows.run([&](int64_t, int64_t begin, int64_t end) {
      std::vector<T> row(parts);
      kernels<T>().decide(batch, bounds, begin, end, row.data(), &decided_);
    });
  }

  std::optional<Tensor> support_;
  std::optional<Buffer> memory_;
  Decided<T> decided_{};
};

}  // namespace ptd
