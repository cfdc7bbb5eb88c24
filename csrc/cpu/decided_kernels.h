// Deciding entries (see decided.h), and row sums and slack gradients with what was decided.
//
// What is undecided is evaluated with lanes running over samples: a non-zero of P is then one
// multiply-add for a whole block.
#pragma once

#include <float.h>

#include "decided.h"
#include "spread.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
void weight_bounds(const Batch<T>& batch, int64_t begin, int64_t end, T* scratch,
                   WeightBounds* bounds) {
  *bounds = {1.0, 1.0, true};
  if (!batch.weights.data) return;
  T least = T(INFINITY), most = -T(INFINITY);
  bool usable = true;
  for (int64_t n = begin; n < end; ++n) {
    const T* h = read_row(batch.weights, n, batch.parts, scratch);
    T sum = T(0);
    for (int64_t j = 0; j < batch.parts; ++j) {
      sum += h[j];
      usable = usable && h[j] >= T(0);
    }
    usable = usable && sum <= T(FLT_MAX);
    least = sum < least ? sum : least;
    most = sum > most ? sum : most;
  }
  *bounds = {double(least), double(most), usable};
}

// Appends the undecided lanes of the vector at row i of column k: first a slot for each entry, by
// counting its non-zeros, then the non-zeros part by part, so that zeros cost nothing.
template <class T>
PTD_INLINE bool append_undecided(const T* column, int64_t parts, int64_t classes, int64_t k,
                                 int64_t i, uint32_t lanes, Vec<T> slack, Undecided<T>* list) {
  const int64_t n = classes - i;
  Vec<T> nonzeros{};
  for (int64_t j = 0; j < parts; ++j) {
    nonzeros += load(column + j * classes + i, n) == Vec<T>{} ? Vec<T>{} : splat(T(1));
  }
  T counts[kLanes<T>], base[kLanes<T>];
  store(counts, nonzeros);
  store(base, slack);
  int64_t next[kLanes<T>];
  int64_t used = list->first[list->entries];
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    next[lane] = used;
    used += int64_t(counts[lane]);
    if (used > list->capacity) return false;
    list->row[list->entries] = int32_t(i + lane);
    list->column[list->entries] = int32_t(k);
    list->slack[list->entries] = base[lane];
    list->first[++list->entries] = used;
  }
  for (int64_t j = 0; j < parts; ++j) {
    const T* p = column + j * classes + i;
    const uint32_t open = lane_bits(load(p, n) != Vec<T>{}) & lanes;
    for (uint32_t left = open; left; left &= left - 1) {
      const int lane = __builtin_ctz(left);
      list->part[next[lane]] = int32_t(j);
      list->value[next[lane]++] = p[lane];
    }
  }
  return true;
}

// Decides columns [begin, end). Returns false when more is undecided than there is room for.
template <class T>
bool decide(const Batch<T>& batch, const WeightBounds& bounds, int64_t begin, int64_t end,
            T* linear,    // [R, C], zero
            T* constant,  // [C], zero
            T* never,     // [C, C]
            Undecided<T>* undecided) {
  using Mask = typename Simd<T>::Mask;
  const int64_t classes = batch.classes, parts = batch.parts;
  // Bounds and entries are rounded differently; what is closer to zero than that is undecided.
  const T rounding = T(8) * (sizeof(T) == sizeof(float) ? T(FLT_EPSILON) : T(DBL_EPSILON));
  const T least = T(bounds.least), most = T(bounds.most);
  const Vec<T> zero{};
  undecided->entries = 0;
  undecided->first[0] = 0;
  for (int64_t k = begin; k < end; ++k) {
    const T* column = batch.columns + k * parts * classes;
    for (int64_t i = 0; i < classes; i += kLanes<T>) {
      const int64_t n = classes - i;
      const Vec<T> slack = load(batch.slack + k * classes + i, n);
      Vec<T> low = load(column + i, n), high = low;
      for (int64_t j = 1; j < parts; ++j) {
        const Vec<T> p = load(column + j * classes + i, n);
        low = p < low ? p : low;
        high = p > high ? p : high;
      }
      const Vec<T> size = (high > -low ? high : -low) * most + (slack > zero ? slack : -slack);
      const Vec<T> margin = size * rounding;
      const Vec<T> lower = (low > zero ? low * least : low * most) + slack;
      const Vec<T> upper = (high > zero ? high * most : high * least) + slack;
      const Mask open = lower > margin;
      const Mask closed = (upper < -margin) | ((high <= zero) & (slack <= zero));

      store(never + k * classes + i, open ? splat(T(1)) : zero, n);
      store(constant + i, load(constant + i, n) + (open ? slack : zero), n);
      if (lane_bits(open & ((high != zero) | (low != zero)))) {
        for (int64_t j = 0; j < parts; ++j) {
          const Vec<T> p = load(column + j * classes + i, n);
          T* sum = linear + j * classes + i;
          store(sum, load(sum, n) + (open ? p : zero), n);
        }
      }
      // Lanes beyond the row are zero in everything, hence closed.
      const uint32_t rest = lane_bits(~(open | closed));
      if (rest && !append_undecided(column, parts, classes, k, i, rest, slack, undecided)) {
        return false;
      }
    }
  }
  return true;
}

// A [count, columns] block with samples as the last, contiguous dimension.
template <class T>
PTD_INLINE void transpose_block(const T* rows, int64_t count, int64_t columns, T* out) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t s = 0; s < kBlock; ++s)
      out[c * kBlock + s] = s < count ? rows[s * columns + c] : 0;
  }
}

// visit(range, entry, lanes): m of one undecided entry for the kBlock samples of a block.
template <class T, class Visit>
PTD_INLINE void for_each_undecided(const Decided<T>& decided, const T* weights,  // [R, kBlock]
                                   const Visit& visit) {
  constexpr int kVectors = kBlock / kLanes<T>;
  for (int64_t range = 0; range < decided.ranges; ++range) {
    const Undecided<T>& list = decided.columns[range];
    for (int64_t e = 0; e < list.entries; ++e) {
      Vec<T> m[kVectors];
      for (int v = 0; v < kVectors; ++v) m[v] = splat(list.slack[e]);
      for (int64_t t = list.first[e]; t < list.first[e + 1]; ++t) {
        const T* h = weights + list.part[t] * kBlock;
        for (int v = 0; v < kVectors; ++v) m[v] += list.value[t] * load(h + v * kLanes<T>);
      }
      visit(list, e, m);
    }
  }
}

template <class T>
PTD_INLINE void decided_row_sums(const Batch<T>& batch, const Decided<T>& decided, const T* h,
                                 int64_t count,
                                 T* scratch,  // [R + C, kBlock]
                                 T* sums) {   // [count, C]
  const int64_t classes = batch.classes, parts = batch.parts;
  T* weights = scratch;
  T* open = scratch + parts * kBlock;  // [C, kBlock]: the undecided share of the row sums
  transpose_block(h, count, parts, weights);
  memset(open, 0, sizeof(T) * classes * kBlock);
  for_each_undecided(decided, weights, [&](const Undecided<T>& list, int64_t e, auto& m) {
    T* sum = open + list.row[e] * kBlock;
    for (auto& lanes : m) {
      store(sum, load(sum) + clamp_lanes<T>(lanes));
      sum += kLanes<T>;
    }
  });
  for (int64_t s = 0; s < count; ++s) {
    T* row = sums + s * classes;
    combine_column(h + s * parts, decided.linear, decided.constant, parts, classes, row);
    for (int64_t i = 0; i < classes; ++i) row[i] += open[i * kBlock + s];
  }
}

// Adds the block's slack gradient, but for -row_i of entries that are never clamped: that is the
// same in all columns and collected in row_sum, to be subtracted once.
template <class T>
PTD_INLINE void decided_spread_slack(const Batch<T>& batch, const Decided<T>& decided, const T* h,
                                     int64_t count, const Pull<T>& pull,
                                     T* scratch,     // [R + C, kBlock]
                                     T* grad_slack,  // [C, C] by column
                                     T* row_sum) {   // [C]
  const int64_t classes = batch.classes, parts = batch.parts;
  T* weights = scratch;
  T* rows = scratch + parts * kBlock;
  transpose_block(h, count, parts, weights);
  transpose_block(pull.row, count, classes, rows);
  for (int64_t s = 0; s < count; ++s) {
    const T* row = pull.row + s * classes;
    for (int64_t i = 0; i < classes; ++i) row_sum[i] += row[i];
    if (pull.labels[s] < 0) continue;
    // row_i = entry_i u_i, so it is zero where entry (i, y) was clamped.
    T* grad = grad_slack + pull.labels[s] * classes;
    const T* entry = pull.entry + s * classes;
    for (int64_t i = 0; i < classes; ++i) grad[i] += row[i] == T(0) ? T(0) : entry[i];
  }
  for_each_undecided(decided, weights, [&](const Undecided<T>& list, int64_t e, auto& m) {
    const T* row = rows + list.row[e] * kBlock;
    Vec<T> sum{};
    for (auto& lanes : m) {
      sum += lanes <= Vec<T>{} ? Vec<T>{} : load(row);
      row += kLanes<T>;
    }
    grad_slack[list.column[e] * classes + list.row[e]] -= sum_lanes(sum);
  });
}

// What decided_spread_slack left out.
template <class T>
void finish_decided_slack(const Decided<T>& decided, int64_t classes, const T* row_sum,
                          T* grad_slack) {
  for (int64_t k = 0; k < classes; ++k) {
    for (int64_t i = 0; i < classes; ++i) {
      grad_slack[k * classes + i] -= decided.never[k * classes + i] * row_sum[i];
    }
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
