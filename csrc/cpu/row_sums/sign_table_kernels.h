// Kernels that fill a sign table (sign_table.h) and compute row sums and slack gradients with it.
//
// Entries of unknown sign are evaluated with lanes running over samples: a non-zero entry of P then
// takes one multiply-add for a whole vector of samples, and a row's sum stays in registers.
#pragma once

#include <float.h>

#include "gradients/scatter.h"
#include "layout_kernels.h"
#include "row_sums/sign_table.h"

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
      low = v >= low ? low : v;  // keeps a NaN, which makes `usable` false
    });
    const T total = sum_lanes(sum), smallest = -max_lanes(-low);
    lowest = smallest >= lowest ? lowest : smallest;
    least = total >= least ? least : total;
    most = total <= most ? most : total;
  }
  *bounds = {double(least), double(most), lowest >= T(0) && most <= T(FLT_MAX) && least >= T(0)};
}

// Fills the table for its rows. If parts or weights are negative or not finite, the bounds do not
// hold, and all signs are unknown.
template <class T>
void fill_sign_table(const Batch<T>& batch, const WeightBounds& bounds, SignTable<T>* table) {
  constexpr int W = kLanes<T>;
  const int64_t classes = batch.classes, parts = batch.parts, begin = table->begin;
  const int64_t rows = table->end - begin, words = (rows + W - 1) / W;
  const int64_t of_a_bit = parts_of_a_bit(parts);
  const T least = T(bounds.least), most = T(bounds.most);
  // Bounds and entries are rounded differently: the sign of an entry this close to zero is unknown.
  const T rounding = T(8) * (sizeof(T) == sizeof(float) ? T(FLT_EPSILON) : T(DBL_EPSILON));
  const Vec<T> zero{};
  Vec<T> lowest{}, total{};
  memset(table->count, 0, sizeof(int32_t) * rows);
  memset(table->constant, 0, sizeof(T) * rows);
  for (int64_t k = 0; k < classes; ++k) {
    for_lanes<T>(rows, [&](int64_t i, int64_t n) {
      const T* column = batch.columns + k * parts * classes + begin + i;
      Vec<T> low = load(column, n), high = low, sums[2] = {};
      Lanes<T> groups{};
      for (int64_t j = 0; j < parts; ++j) {
        const Vec<T> p = load(column + j * classes, n);
        low = smaller<T>(p, low);
        high = larger<T>(p, high);
        sums[j % 2] += p;
        const int64_t bit = of_a_bit == 1 ? j : j / of_a_bit;
        groups |= (p != zero) & splat_bits<T>(1u << bit);
      }
      total += sums[0] + sums[1];
      lowest = smaller<T>(low, lowest);

      const Vec<T> s = load(batch.slack + k * classes + begin + i, n);
      low *= least;
      high *= most;
      const Vec<T> margin = rounding * (high + (s < zero ? -s : s));
      // The parts outweigh a negative slack by enough that summing the two apart does not cancel.
      const auto outweighs = (low + s > margin) & (T(0.5) * low + s >= zero) & (s <= zero);
      const auto positive = (s > zero) | outweighs;
      const auto clamped = (high + s < -margin) | ((groups == Lanes<T>{}) & (s <= zero));
      T* constant = table->constant + i;
      store(constant, load(constant, n) + (positive ? s : zero), n);
      const uint32_t valid = n < W ? (1u << n) - 1u : (1u << (W - 1)) * 2u - 1u;
      table->positive[k * words + i / W] = lane_bits(positive) & valid;
      typename Simd<T>::Lane bits[W];
      memcpy(bits, &groups, sizeof bits);
      for (uint32_t left = lane_bits(~(positive | clamped)) & valid; left; left &= left - 1) {
        const int64_t lane = __builtin_ctz(left), row = i + lane;
        table->unknown[row * classes + table->count[row]++] = {int32_t(k), uint32_t(bits[lane])};
      }
    });
  }
  if (bounds.usable && !lane_bits((lowest < zero) | ~(total <= splat(T(FLT_MAX))))) return;
  memset(table->constant, 0, sizeof(T) * rows);
  memset(table->positive, 0, sizeof(uint32_t) * classes * words);
  for (int64_t row = 0; row < rows; ++row) {
    table->count[row] = int32_t(classes);
    for (int64_t k = 0; k < classes; ++k) {
      table->unknown[row * classes + k] = {int32_t(k),
                                           ~0u >> (32 - (parts + of_a_bit - 1) / of_a_bit)};
    }
  }
}

// linear_ji = sum of P^j_ik over the k whose entry is known to be positive.
template <class T>
PTD_INLINE void sum_positive_parts(const Batch<T>& batch, const SignTable<T>& table,
                                   T* by_part) {  // [lanes], scratch
  constexpr int W = kLanes<T>;
  const int64_t classes = batch.classes, parts = batch.parts;
  const int64_t rows = table.end - table.begin, words = (rows + W - 1) / W;
  Lanes<T> lane_bit{};
  for (int l = 0; l < W; ++l) lane_bit[l] = 1 << l;
  for_lanes<T>(rows, [&](int64_t i, int64_t n) {
    int64_t j = 0;
    const auto while_left = [&]<int J>() {
      for (; j + J <= parts; j += J) {
        Vec<T> sum[J] = {};
        for (int64_t k = 0; k < classes; ++k) {
          const Lanes<T> bits = splat_bits<T>(table.positive[k * words + i / W]) & lane_bit;
          const auto positive = bits != Lanes<T>{};
          const T* column = batch.columns + (k * parts + j) * classes + table.begin + i;
          for (int p = 0; p < J; ++p) {
            sum[p] += positive ? load(column + p * classes, n) : Vec<T>{};
          }
        }
        for (int p = 0; p < J; ++p) {
          store(by_part, sum[p]);
          for (int64_t l = 0; l < n && l < W; ++l) {
            table.linear[(i + l) * parts + j + p] = by_part[l];
          }
        }
      }
    };
    while_left.template operator()<5>();
    while_left.template operator()<1>();
  });
}

// Weights of samples [first, first + count) as [R, kSignSamples], padded with zeros.
template <class T>
PTD_INLINE void transpose_weights(const Batch<T>& batch, int64_t first, int64_t count, T* row,
                                  T* out) {
  memset(out, 0, sizeof(T) * batch.parts * kSignSamples);
  for (int64_t s = 0; s < count; ++s) {
    const T* h =
        batch.weights.data ? read_row(batch.weights, first + s, batch.parts, row) : nullptr;
    for (int64_t j = 0; j < batch.parts; ++j) out[j * kSignSamples + s] = h ? h[j] : T(1);
  }
}

// The number of vectors of samples that are held in registers at once.
constexpr int kGroup = 4;

// Calls visit(t, m) for the entries of unknown sign in a row, with m[e] = entry t + e for the
// samples of a group, whose weights are h [R, kSignSamples]. Each load of h serves two entries.
template <class T, class Visit>
PTD_INLINE void for_each_unknown(const Batch<T>& batch, const SignTable<T>& table, int64_t row,
                                 const T* h, const Visit& visit) {
  const int64_t classes = batch.classes, parts = batch.parts, of_a_bit = parts_of_a_bit(parts);
  const int64_t i = table.begin + row;
  const UnknownSign* unknown = table.unknown + row * classes;
  const int32_t count = table.count[row];
  int32_t t = 0;
  const auto while_left = [&]<int E>() {
    for (; t + E <= count; t += E) {
      const T* column[E];
      Vec<T> m[E][kGroup];
      uint32_t groups = 0;
      for (int e = 0; e < E; ++e) {
        const int64_t k = unknown[t + e].column;
        column[e] = batch.columns + k * parts * classes + i;
        for (auto& lanes : m[e]) lanes = splat(batch.slack[k * classes + i]);
        groups |= unknown[t + e].groups;
      }
      for (; groups; groups &= groups - 1) {
        const int64_t first = __builtin_ctz(groups) * of_a_bit;
        for (int64_t j = first; j < first + of_a_bit && j < parts; ++j) {
          Vec<T> weight[kGroup];
          for (int v = 0; v < kGroup; ++v) weight[v] = load(h + j * kSignSamples + v * kLanes<T>);
          for (int e = 0; e < E; ++e) {
            const T value = column[e][j * classes];
            for (int v = 0; v < kGroup; ++v) m[e][v] += value * weight[v];
          }
        }
      }
      visit(t, m);
    }
  };
  while_left.template operator()<2>();
  while_left.template operator()<1>();
}

// Row sums of the table's rows for all samples.
template <class T>
void row_sums_by_sign(const Batch<T>& batch, const WeightBounds& bounds, SignTable<T>* table,
                      T* scratch,  // [R + lanes + 1, kSignSamples]
                      T* sums) {   // [N, C]
  constexpr int W = kLanes<T>;
  const int64_t classes = batch.classes, parts = batch.parts, rows = table->end - table->begin;
  T* weights = scratch;
  T* tile = weights + parts * kSignSamples;  // [lanes, kSignSamples]
  fill_sign_table(batch, bounds, table);
  sum_positive_parts(batch, *table, tile);
  for (int64_t first = 0; first < batch.samples; first += kSignSamples) {
    const int64_t count =
        batch.samples - first < kSignSamples ? batch.samples - first : kSignSamples;
    transpose_weights(batch, first, count, tile, weights);
    for (int64_t row = 0; row < rows; ++row) {
      const T* linear = table->linear + row * parts;
      for (int64_t s = 0; s < count; s += kGroup * W) {
        Vec<T> sum[kGroup];
        for (auto& lanes : sum) lanes = splat(table->constant[row]);
        for (int64_t j = 0; j < parts; ++j) {
          const T* h = weights + j * kSignSamples + s;
          for (int v = 0; v < kGroup; ++v) sum[v] += linear[j] * load(h + v * W);
        }
        for_each_unknown(batch, *table, row, weights + s,
                         [&]<int E>(int32_t, Vec<T>(&m)[E][kGroup]) {
                           for (int e = 0; e < E; ++e) {
                             for (int v = 0; v < kGroup; ++v) sum[v] += clamp_lanes<T>(m[e][v]);
                           }
                         });
        T* out = tile + row % W * kSignSamples + s;
        for (int v = 0; v < kGroup; ++v) store(out + v * W, sum[v]);
      }
      if (row % W < W - 1 && row + 1 < rows) continue;
      // A tile of rows is complete.
      const int64_t top = row - row % W, left = rows - top;
      for (int64_t s = 0; s < count; s += W) {
        Vec<T> square[W];
        for (int l = 0; l < W; ++l) square[l] = load(tile + l * kSignSamples + s);
        transpose_lanes<T>(square);
        for (int64_t l = 0; l < W && s + l < count; ++l) {
          store(sums + (first + s + l) * classes + table->begin + top, square[l], left);
        }
      }
    }
  }
}

// Subtracts from the slack gradient of the table's rows the gradient through the row sums, for
// samples [first, first + count): sum_n [m_ik > 0] row_ni.
template <class T>
void slack_gradient_by_sign(const Batch<T>& batch, const SignTable<T>& table, int64_t first,
                            int64_t count,      // at most kSignSamples
                            const T* row_grad,  // [count, C]
                            T* scratch,         // [R + lanes + 1, kSignSamples]
                            T* grad_slack) {    // [C, C] by column
  constexpr int W = kLanes<T>;
  const int64_t classes = batch.classes, parts = batch.parts, rows = table.end - table.begin;
  const int64_t words = (rows + W - 1) / W;
  T* weights = scratch;
  T* tile = weights + parts * kSignSamples;
  transpose_weights(batch, first, count, tile, weights);
  Lanes<T> lane_bit{};
  for (int l = 0; l < W; ++l) lane_bit[l] = 1 << l;
  for (int64_t top = 0; top < rows; top += W) {
    const int64_t left = rows - top;
    const T* from = row_grad + table.begin + top;
    Vec<T> total{};
    memset(tile, 0, sizeof(T) * W * kSignSamples);
    for (int64_t s = 0; s < count; s += W) {
      Vec<T> square[W];
      for (int64_t l = 0; l < W; ++l) {
        square[l] = s + l < count ? load(from + (s + l) * classes, left) : Vec<T>{};
        total += square[l];
      }
      transpose_lanes<T>(square);
      for (int l = 0; l < W; ++l) store(tile + l * kSignSamples + s, square[l]);
    }
    for (int64_t k = 0; k < classes; ++k) {
      T* grad = grad_slack + k * classes + table.begin + top;
      const Lanes<T> bits = splat_bits<T>(table.positive[k * words + top / W]) & lane_bit;
      const Vec<T> own = bits != Lanes<T>{} ? total : Vec<T>{};
      store(grad, load(grad, left) - own, left);
    }
    for (int64_t row = top; row < top + W && row < rows; ++row) {
      const UnknownSign* unknown = table.unknown + row * classes;
      for (int64_t s = 0; s < count; s += kGroup * W) {
        Vec<T> vjps[kGroup];
        for (int v = 0; v < kGroup; ++v) {
          vjps[v] = load(tile + (row - top) * kSignSamples + s + v * W);
        }
        for_each_unknown(
            batch, table, row, weights + s, [&]<int E>(int32_t t, Vec<T>(&m)[E][kGroup]) {
              for (int e = 0; e < E; ++e) {
                Vec<T> sum{};
                for (int v = 0; v < kGroup; ++v) sum += m[e][v] <= Vec<T>{} ? Vec<T>{} : vjps[v];
                grad_slack[unknown[t + e].column * classes + table.begin + row] -= sum_lanes(sum);
              }
            });
      }
    }
  }
}

// Adds entry_i column_k of dL/dM, which is non-zero only in column y of each sample.
template <class T>
PTD_INLINE void add_label_columns(const Batch<T>& batch, int64_t count, const Vjp<T>& vjp,
                                  T* grad_slack) {  // [C, C] by column
  const int64_t classes = batch.classes;
  for (int64_t s = 0; s < count; ++s) {
    if (vjp.labels[s] < 0) continue;
    // row_i = entry_i u_i, so it is zero where entry (i, y) was clamped.
    T* grad = grad_slack + vjp.labels[s] * classes;
    for_lanes<T>(classes, [&](int64_t i, int64_t n) {
      const int64_t at = s * classes + i;
      const Vec<T> d = load(vjp.row + at, n) == Vec<T>{} ? Vec<T>{} : load(vjp.entry + at, n);
      store(grad + i, load(grad + i, n) + d, n);
    });
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
