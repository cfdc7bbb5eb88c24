// Deciding entries (see decided.h), and row sums and slack gradients with what was decided.
//
// What is undecided is evaluated with lanes running over samples: a non-zero of P is then one
// multiply-add for many of them, and a row's sum stays in registers.
#pragma once

#include <float.h>

#include "decided.h"
#include "spread.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
void weight_bounds(const Batch<T>& batch, T* scratch, WeightBounds* bounds) {
  *bounds = {1.0, 1.0, true};
  if (!batch.weights.data) return;
  T least = T(INFINITY), most = -T(INFINITY), lowest = T(0);
  for (int64_t n = 0; n < batch.samples; ++n) {
    const T* h = read_row(batch.weights, n, batch.parts, scratch);
    Vec<T> sum{}, low{};
    for_lanes<T>(batch.parts, [&](int64_t j, int64_t left) {
      const Vec<T> v = load(h + j, left);
      sum += v;
      low = v >= low ? low : v;  // a NaN is taken, and makes what follows false
    });
    const T total = sum_lanes(sum), smallest = -max_lanes(-low);
    lowest = smallest >= lowest ? lowest : smallest;
    least = total >= least ? least : total;
    most = total <= most ? most : total;
  }
  *bounds = {double(least), double(most), lowest >= T(0) && most <= T(FLT_MAX) && least >= T(0)};
}

// Rows [begin, end) of the support: how many entries and non-zeros each has. Returns false for
// parts with negative or non-finite entries, of which nothing can be said.
template <class T>
bool count_support(const Batch<T>& batch, int64_t begin, int64_t end,
                   int32_t* entries,     // [C]
                   int32_t* nonzeros) {  // [C]
  const int64_t classes = batch.classes, parts = batch.parts;
  bool usable = true;
  for (int64_t i = begin; i < end; ++i) entries[i] = nonzeros[i] = 0;
  for (int64_t k = 0; k < classes; ++k) {
    const T* column = batch.columns + k * parts * classes;
    for (int64_t i = begin; i < end; i += kLanes<T>) {
      Vec<T> found{};
      for (int64_t j = 0; j < parts; ++j) {
        const Vec<T> p = load(column + j * classes + i, end - i);
        found += p != Vec<T>{} ? splat(T(1)) : Vec<T>{};
        usable = usable && !lane_bits((p < Vec<T>{}) | (p > splat(T(FLT_MAX))) | (p != p));
      }
      for (uint32_t left = lane_bits(found > Vec<T>{}); left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        ++entries[i + lane];
        nonzeros[i + lane] += int32_t(found[lane]);
      }
    }
  }
  return usable;
}

// Fills rows [begin, end); row_first is set, first[e] at the first entry e of each row too.
template <class T>
void fill_support(const Batch<T>& batch, int64_t begin, int64_t end,
                  int32_t* next,  // [C], the number of entries already written of each row: zero
                  Support<T>* support) {
  const int64_t classes = batch.classes, parts = batch.parts;
  for (int64_t k = 0; k < classes; ++k) {
    const T* column = batch.columns + k * parts * classes;
    for (int64_t i = begin; i < end; i += kLanes<T>) {
      Vec<T> low = load(column + i, end - i), high = low;
      for (int64_t j = 1; j < parts; ++j) {
        const Vec<T> p = load(column + j * classes + i, end - i);
        low = p < low ? p : low;
        high = p > high ? p : high;
      }
      for (uint32_t left = lane_bits(high != Vec<T>{}); left; left &= left - 1) {
        const int64_t row = i + __builtin_ctz(left);
        const int64_t e = support->row_first[row] + next[row]++;
        int32_t at = support->first[e];
        for (int64_t j = 0; j < parts; ++j) {
          const T p = column[j * classes + row];
          if (p == T(0)) continue;
          support->part[at] = int32_t(j);
          support->value[at++] = p;
        }
        support->column[e] = int32_t(k);
        support->low[e] = low[row - i];
        support->high[e] = high[row - i];
        // Rows are filled in turns: the next row's first entry already has its place.
        if (e + 1 < support->row_first[row + 1]) support->first[e + 1] = at;
      }
    }
  }
}

// Decides rows [begin, end).
template <class T>
void decide(const Batch<T>& batch, const WeightBounds& bounds, int64_t begin, int64_t end,
            T* linear,  // [R], scratch
            Decided<T>* decided) {
  const int64_t classes = batch.classes, parts = batch.parts;
  const Support<T>& support = decided->support;
  const T least = T(bounds.least), most = T(bounds.most);
  // Bounds and entries are rounded differently; what is closer to zero than that is undecided.
  const T rounding = T(8) * (sizeof(T) == sizeof(float) ? T(FLT_EPSILON) : T(DBL_EPSILON));

  // Positive slack on parts >= 0 is never clamped, whatever the support.
  for (int64_t i = begin; i < end; i += kLanes<T>) {
    Vec<T> constant{};
    for (int64_t k = 0; k < classes; ++k) {
      const int64_t at = k * classes + i;
      const Vec<T> slack = load(batch.slack + at, end - i), zero{};
      constant += slack > zero ? slack : zero;
      store(decided->never + at, slack > zero ? splat(T(1)) : zero, end - i);
    }
    store(decided->constant + i, constant, end - i);
  }
  for (int64_t j = 0; j < parts; ++j) linear[j] = T(0);
  for (int64_t i = begin; i < end; ++i) {
    const int32_t first = support.row_first[i], last = support.row_first[i + 1];
    T* slack = decided->entry_slack + first;  // of all entries first, then of the undecided
    T* share = decided->share + first;
    for (int32_t e = first; e < last; ++e) {
      slack[e - first] = batch.slack[support.column[e] * classes + i];
    }
    T sure_slack = T(0);
    for_lanes<T>(last - first, [&](int64_t e, int64_t n) {
      const Vec<T> s = load(slack + e, n), zero{};
      const Vec<T> low = load(support.low + first + e, n) * least;
      const Vec<T> high = load(support.high + first + e, n) * most;
      const Vec<T> margin = rounding * (high + (s < zero ? -s : s));
      // The parts make up for the slack, and by so much that adding them up apart costs no digits.
      const auto sure = (low + s > margin) & (T(0.5) * low + s >= zero) & (s <= zero);
      const auto never = (s > zero) | sure;
      const auto closed = high + s < -margin;
      store(share + e, never ? splat(T(1)) : (closed ? splat(T(-1)) : zero), n);
      for (uint32_t left = lane_bits(sure); left; left &= left - 1) {
        const int64_t lane = e + __builtin_ctz(left);
        decided->never[support.column[first + lane] * classes + i] = T(1);
        sure_slack += slack[lane];
      }
    });
    decided->constant[i] += sure_slack;
    if (decided->linear) {
      for (int32_t e = first; e < last; ++e) {
        const T keep = clamp_entry(share[e - first]);
        for (int32_t z = support.first[e]; z < support.first[e + 1]; ++z) {
          linear[support.part[z]] += keep * support.value[z];
        }
      }
      for (int64_t j = 0; j < parts; ++j) {
        decided->linear[j * classes + i] = linear[j];
        linear[j] = T(0);
      }
    }
    // Appended without a branch: which way it would go is a coin toss.
    int32_t undecided = first;
    int64_t multiply_adds = 0;
    for (int32_t e = first; e < last; ++e) {
      const bool open = share[e - first] == T(0);
      decided->entry[undecided] = e;
      decided->entry_slack[undecided] = slack[e - first];
      undecided += open;
      multiply_adds += open * (support.first[e + 1] - support.first[e]);
    }
    decided->count[i] = undecided - first;
    decided->multiply_adds[i] = multiply_adds;
  }
}

// body(s, c) for all of a [count, columns] block, in an order that keeps both it and its transpose
// in the first-level cache.
template <class Body>
PTD_INLINE void for_transposed(int64_t count, int64_t columns, const Body& body) {
  constexpr int64_t kTile = 16;
  for (int64_t first = 0; first < columns; first += kTile) {
    const int64_t last = first + kTile < columns ? first + kTile : columns;
    for (int64_t s = 0; s < count; ++s) {
      for (int64_t c = first; c < last; ++c) body(s, c);
    }
  }
}

// A [count, columns] block with samples as the last dimension, padded with zeros to kWideBlock.
template <class T>
PTD_INLINE void transpose_block(const T* rows, int64_t count, int64_t columns, T* out) {
  if (count < kWideBlock) memset(out, 0, sizeof(T) * columns * kWideBlock);
  for_transposed(count, columns,
                 [&](int64_t s, int64_t c) { out[c * kWideBlock + s] = rows[s * columns + c]; });
}

// Samples whose m is held in registers at once.
template <class T>
constexpr int kGroup = 4;

// m of undecided entry t for the samples of a group, whose weights are h [R, kWideBlock].
template <class T>
PTD_INLINE void undecided_entry(const Decided<T>& decided, int32_t t, const T* h,
                                Vec<T> (&m)[kGroup<T>]) {
  const Support<T>& support = decided.support;
  const int32_t e = decided.entry[t];
  for (auto& lanes : m) lanes = splat(decided.entry_slack[t]);
  for (int32_t z = support.first[e]; z < support.first[e + 1]; ++z) {
    const T* weight = h + support.part[z] * kWideBlock;
    const T value = support.value[z];
    for (int v = 0; v < kGroup<T>; ++v) m[v] += value * load(weight + v * kLanes<T>);
  }
}

template <class T>
PTD_INLINE void decided_row_sums(const Batch<T>& batch, const Decided<T>& decided, const T* h,
                                 int64_t count,
                                 T* scratch,  // [R + C, kWideBlock]
                                 T* sums) {   // [count, C]
  const int64_t classes = batch.classes, parts = batch.parts;
  T* weights = scratch;
  T* open = scratch + parts * kWideBlock;  // [C, kWideBlock]: the undecided share of the row sums
  transpose_block(h, count, parts, weights);
  for (int64_t i = 0; i < classes; ++i) {
    const int32_t first = decided.support.row_first[i], last = first + decided.count[i];
    for (int64_t s = 0; s < count; s += kGroup<T> * kLanes<T>) {
      Vec<T> sum[kGroup<T>] = {}, m[kGroup<T>];
      for (int32_t t = first; t < last; ++t) {
        undecided_entry(decided, t, weights + s, m);
        for (int v = 0; v < kGroup<T>; ++v) sum[v] += clamp_lanes<T>(m[v]);
      }
      for (int v = 0; v < kGroup<T>; ++v) store(open + i * kWideBlock + s + v * kLanes<T>, sum[v]);
    }
  }
  for (int64_t s = 0; s < count; ++s) {
    T* row = sums + s * classes;
    combine_column(h + s * parts, decided.linear, decided.constant, parts, classes,
                   [&](int64_t i, int64_t n, Vec<T> m) { store(row + i, m, n); });
  }
  for_transposed(count, classes,
                 [&](int64_t s, int64_t i) { sums[s * classes + i] += open[i * kWideBlock + s]; });
}

// Adds the block's slack gradient, but for -row_i of entries that are never clamped: that is the
// same in all columns and collected in row_sum, to be subtracted once.
template <class T>
PTD_INLINE void decided_spread_slack(const Batch<T>& batch, const Decided<T>& decided, const T* h,
                                     int64_t count, const Pull<T>& pull,
                                     T* scratch,     // [R + C, kWideBlock]
                                     T* grad_slack,  // [C, C] by column
                                     T* row_sum) {   // [C]
  const int64_t classes = batch.classes, parts = batch.parts;
  T* weights = scratch;
  T* rows = scratch + parts * kWideBlock;
  transpose_block(h, count, parts, weights);
  transpose_block(pull.row, count, classes, rows);
  for (int64_t s = 0; s < count; ++s) {
    const T* row = pull.row + s * classes;
    for_lanes<T>(classes, [&](int64_t i, int64_t n) {
      store(row_sum + i, load(row_sum + i, n) + load(row + i, n), n);
    });
    if (pull.labels[s] < 0) continue;
    // row_i = entry_i u_i, so it is zero where entry (i, y) was clamped.
    T* grad = grad_slack + pull.labels[s] * classes;
    const T* entry = pull.entry + s * classes;
    for_lanes<T>(classes, [&](int64_t i, int64_t n) {
      const Vec<T> d = load(row + i, n) == Vec<T>{} ? Vec<T>{} : load(entry + i, n);
      store(grad + i, load(grad + i, n) + d, n);
    });
  }
  for (int64_t i = 0; i < classes; ++i) {
    const int32_t first = decided.support.row_first[i], last = first + decided.count[i];
    for (int64_t s = 0; s < count; s += kGroup<T> * kLanes<T>) {
      Vec<T> row[kGroup<T>], m[kGroup<T>];
      for (int v = 0; v < kGroup<T>; ++v) row[v] = load(rows + i * kWideBlock + s + v * kLanes<T>);
      for (int32_t t = first; t < last; ++t) {
        undecided_entry(decided, t, weights + s, m);
        Vec<T> sum{};
        for (int v = 0; v < kGroup<T>; ++v) sum += m[v] <= Vec<T>{} ? Vec<T>{} : row[v];
        grad_slack[decided.support.column[decided.entry[t]] * classes + i] -= sum_lanes(sum);
      }
    }
  }
}

// What decided_spread_slack left out.
template <class T>
void finish_decided_slack(const Decided<T>& decided, int64_t classes, const T* row_sum,
                          T* grad_slack) {
  for (int64_t k = 0; k < classes; ++k) {
    for_lanes<T>(classes, [&](int64_t i, int64_t n) {
      T* grad = grad_slack + k * classes + i;
      store(grad, load(grad, n) - load(decided.never + k * classes + i, n) * load(row_sum + i, n),
            n);
    });
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
