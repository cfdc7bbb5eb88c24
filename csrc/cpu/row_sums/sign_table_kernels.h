// Kernels that fill a sign table (sign_table.h).
#pragma once

#include <float.h>

#include "row_sums/sign_table.h"
#include "transition_columns.h"

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

// linear_ji = sum of P^j_ik over the k whose entry is known to be positive.
template <class T>
PTD_INLINE void sum_positive_parts(const Batch<T>& batch, const SignTable<T>& table) {
  constexpr int W = kLanes<T>;
  const int64_t classes = batch.classes, parts = batch.parts;
  const int64_t rows = table.end - table.begin, words = (rows + W - 1) / W;
  for_lanes<T>(rows, [&](int64_t i, int64_t n) {
    int64_t j = 0;
    const auto while_left = [&]<int J>() {
      for (; j + J <= parts; j += J) {
        Vec<T> sum[J] = {};
        for (int64_t k = 0; k < classes; ++k) {
          const uint32_t positive = table.positive[k * words + i / W];
          const T* column = batch.columns + (k * parts + j) * classes + table.begin + i;
          for (int p = 0; p < J; ++p) {
            sum[p] += keep_lanes(load(column + p * classes, n), positive);
          }
        }
        for (int p = 0; p < J; ++p) {
          T by_part[W];
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

// Finds the signs of the table's rows. If parts or weights are negative or not finite, the bounds
// do not hold, and all signs are unknown.
template <class T>
PTD_INLINE void find_signs(const Batch<T>& batch, const WeightBounds& bounds, SignTable<T>* table) {
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
      Vec<T> low = load(column, n), high = low, even{}, odd{};
      Lanes<T> groups{}, bit = splat_bits<T>(1);
      int64_t left_of_bit = of_a_bit;
      const auto see = [&](int64_t j, Vec<T>& sum) PTD_INLINE_LAMBDA {
        const Vec<T> p = load(column + j * classes, n);
        low = smaller<T>(p, low);
        high = larger<T>(p, high);
        sum += p;
        groups = p != zero ? groups | bit : groups;
        if (--left_of_bit > 0) return;
        bit = bit << 1;
        left_of_bit = of_a_bit;
      };
      int64_t j = 0;
      for (; j + 2 <= parts; j += 2) {
        see(j, even);
        see(j + 1, odd);
      }
      if (j < parts) see(j, even);
      total += even + odd;
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

template <class T>
void fill_sign_table(const Batch<T>& batch, const WeightBounds& bounds, SignTable<T>* table) {
  find_signs(batch, bounds, table);
  sum_positive_parts(batch, *table);
}

}  // namespace PTD_ISA
}  // namespace ptd
