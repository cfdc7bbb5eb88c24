// Builds what decided.h describes, for batches and sizes where it can pay.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "inputs.h"

namespace ptd {

template <class T>
class Decision {
 public:
  // Nullptr where every entry has to be evaluated for every sample.
  static std::unique_ptr<Decision> make(const Batch<T>& batch) {
    // Deciding costs about as much as four samples' worth of evaluating everything, and at the
    // sizes where T(x) fits into a few registers evaluating is faster than any list.
    constexpr int64_t kFewestSamples = 8, kFewestClasses = 32;
    if (!batch.slack || batch.samples < kFewestSamples || batch.classes < kFewestClasses) return {};
    const WeightBounds bounds = bounds_of(batch);
    if (!bounds.usable) return {};
    std::unique_ptr<Decision> decision(new Decision(batch));
    return decision->decide(batch, bounds) ? std::move(decision) : nullptr;
  }

  const Decided<T>& decided() const { return decided_; }

 private:
  // A list costs a multiply-add per non-zero and block, evaluating everything one per entry and
  // part, but with longer strides of work: beyond this share of non-zeros the list loses.
  static constexpr double kMostUndecided = 0.25;

  explicit Decision(const Batch<T>& batch)
      : columns_(batch.classes, double(batch.classes * batch.parts)),
        linear_(size_t(columns_.count() * (batch.parts + 1) * batch.classes)),
        never_(new T[size_t(batch.classes * batch.classes)]),
        lists_(size_t(columns_.count())),
        memory_(size_t(columns_.count())) {}

  static WeightBounds bounds_of(const Batch<T>& batch) {
    std::vector<T> row(size_t(batch.parts));
    WeightBounds bounds;
    kernels<T>().weight_bounds(batch, 0, batch.samples, row.data(), &bounds);
    return bounds;
  }

  bool decide(const Batch<T>& batch, const WeightBounds& bounds) {
    const int64_t classes = batch.classes, table = (batch.parts + 1) * classes;
    std::vector<char> fits(size_t(columns_.count()));
    columns_.run([&](int64_t range, int64_t begin, int64_t end) {
      lists_[range] = memory_[range].lists(
          (end - begin) * classes,
          int64_t(kMostUndecided * double((end - begin) * classes * batch.parts)) + batch.parts);
      T* linear = linear_.data() + range * table;
      fits[range] =
          kernels<T>().decide(batch, bounds, begin, end, linear, linear + batch.parts * classes,
                              never_.get(), &lists_[range]);
    });
    for (const char fit : fits) {
      if (!fit) return false;
    }
    for (int64_t range = 1; range < columns_.count(); ++range) {
      for (int64_t at = 0; at < table; ++at) linear_[at] += linear_[range * table + at];
    }
    decided_ = {linear_.data(), linear_.data() + batch.parts * classes, never_.get(), lists_.data(),
                columns_.count()};
    return true;
  }

  // Not initialised: pages that no entry reaches are never touched.
  struct Memory {
    std::unique_ptr<int32_t[]> row, column, part;
    std::unique_ptr<T[]> slack, value;
    std::unique_ptr<int64_t[]> first;

    Undecided<T> lists(int64_t entries, int64_t nonzeros) {
      row.reset(new int32_t[entries]);
      column.reset(new int32_t[entries]);
      slack.reset(new T[entries]);
      first.reset(new int64_t[entries + 1]);
      part.reset(new int32_t[nonzeros]);
      value.reset(new T[nonzeros]);
      return {0,           row.get(),  column.get(), slack.get(),
              first.get(), part.get(), value.get(),  nonzeros};
    }
  };

  Ranges columns_;
  std::vector<T> linear_;  // [ranges, R + 1, C], the constant last
  std::unique_ptr<T[]> never_;
  std::vector<Undecided<T>> lists_;
  std::vector<Memory> memory_;
  Decided<T> decided_{};
};

}  // namespace ptd
