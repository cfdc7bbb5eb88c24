// Builds what support.h describes, and keeps it for parts of the same content.
//
// Tensors change in ways that nothing counts: fused optimisers, `.data`, arrays that share their
// memory. So parts are known again by a digest of their bytes, which takes a small part of the time
// that it takes to find the support.
#pragma once

#include <string.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "inputs.h"

namespace ptd {

// Below this, T(x) fits into a few registers and evaluating all of it beats any list.
constexpr int64_t kFewestClassesToDecide = 32;
// A list costs an index per non-zero, and its memory: beyond this share of non-zeros it loses.
constexpr double kMostNonzeros = 0.25;

// A support and its sizes; without memory where a list of entries would not pay.
struct KeptSupport {
  Tensor memory;
  int64_t entries, nonzeros;

  bool pays() const { return memory.numel() > 0; }
  template <class T>
  Support<T> view(int64_t classes) const {
    return Support<T>::over(static_cast<char*>(memory.data_ptr()), classes, entries, nonzeros);
  }
};

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

template <class T>
KeptSupport make_support(const Batch<T>& batch) {
  const KeptSupport none{Buffer(0).tensor(), 0, 0};
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
  return {memory.tensor(), all_entries, all_nonzeros};
}

// 128 bits that depend on every byte. A round is a bijection of the state and of the word; the
// rotation takes high bits, such as signs, to where the multiplication spreads them.
struct Digest {
  uint64_t low, high;

  static uint64_t round(uint64_t state, uint64_t word) {
    const uint64_t both = state ^ word;
    return (both << 29 | both >> 35) * 0x9e3779b185ebca87ull;
  }

  static Digest of_chunk(const char* bytes, int64_t size) {
    constexpr int kWords = 8;  // lanes of their own: one chain is as slow as its latency
    uint64_t lanes[kWords] = {1, 2, 3, 4, 5, 6, 7, 8}, words[kWords];
    constexpr int64_t kBytes = sizeof words;
    int64_t at = 0;
    for (; at + kBytes <= size; at += kBytes) {
      memcpy(words, bytes + at, kBytes);
      for (int l = 0; l < kWords; ++l) lanes[l] = round(lanes[l], words[l]);
    }
    memset(words, 0, kBytes);
    memcpy(words, bytes + at, size - at);
    for (int l = 0; l < kWords; ++l) lanes[l] = round(lanes[l], words[l]);
    Digest digest{uint64_t(size), ~uint64_t(size)};
    for (int l = 0; l < kWords; ++l) {
      digest.low = round(digest.low, lanes[l]);
      digest.high = round(digest.high, lanes[kWords - 1 - l]);
    }
    return digest;
  }

  // The same for any number of threads.
  static Digest of(const char* bytes, int64_t size) {
    constexpr int64_t kChunk = 1 << 14;
    const int64_t count = (size + kChunk - 1) / kChunk;
    std::vector<Digest> chunks(count);
    const Ranges ranges(count, double(kChunk / 8));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        chunks[c] = of_chunk(bytes + c * kChunk, std::min(kChunk, size - c * kChunk));
      }
    });
    return of_chunk(reinterpret_cast<const char*>(chunks.data()), count * int64_t(sizeof(Digest)));
  }
};

// The support of the parts of a batch: found, or remembered from the last parts of the same bytes.
template <class T>
KeptSupport kept_support(const Batch<T>& batch) {
  struct Entry {
    Digest digest;
    int64_t classes, parts;
    KeptSupport support;
  };
  constexpr size_t kMost = 4;  // a loss or two, in training and in validation
  // Never destroyed: at exit torch's allocator may be gone before.
  static auto& lock = *new std::mutex;
  static auto& entries = *new std::deque<Entry>;

  const int64_t classes = batch.classes, parts = batch.parts;
  const Digest digest = Digest::of(reinterpret_cast<const char*>(batch.columns),
                                   int64_t(sizeof(T)) * classes * classes * parts);
  {
    const std::lock_guard guard(lock);
    for (const Entry& entry : entries) {
      if (entry.digest.low == digest.low && entry.digest.high == digest.high &&
          entry.classes == classes && entry.parts == parts) {
        return entry.support;
      }
    }
  }
  const KeptSupport support = make_support(batch);
  const std::lock_guard guard(lock);
  entries.push_front({digest, classes, parts, support});
  if (entries.size() > kMost) entries.pop_back();
  return support;
}

}  // namespace ptd
