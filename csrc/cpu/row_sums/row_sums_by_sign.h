// Row sums and slack gradients with a sign table (sign_table.h).
//
// Entries of unknown sign are evaluated with lanes running over samples: a non-zero entry of P then
// takes one multiply-add for a whole vector of samples, and a row's sum stays in registers.
#pragma once

#include "layout_kernels.h"
#include "row_sums/sign_table.h"
#include "transition_columns.h"

namespace ptd {
namespace PTD_ISA {

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
constexpr int kGroup = kVectorRegisters >= 32 ? 8 : 4;

// Calls body.operator()<G>(s) for groups of G vectors of samples from sample s on.
template <class T, class Body>
PTD_INLINE void for_each_group(int64_t count, const Body& body) {
  constexpr int few = kGroup / 4;
  int64_t s = 0;
  for (; count - s > kGroup / 2 * kLanes<T>; s += kGroup * kLanes<T>) {
    body.template operator()<kGroup>(s);
  }
  for (; s < count; s += few * kLanes<T>) body.template operator()<few>(s);
}

// Computes E entries of unknown sign in row i for a group of samples, whose weights are h
// [R, kSignSamples], and calls visit(e, m) for each, with G vectors m.
template <int G, int E, class T, class Visit>
PTD_INLINE void evaluate_unknown(const Batch<T>& batch, int64_t i, const UnknownSign* unknown,
                                 const T* h, const Visit& visit) {
  const int64_t classes = batch.classes, parts = batch.parts, of_a_bit = parts_of_a_bit(parts);
  const T* column[E];
  Vec<T> m[E * G];
  uint32_t groups = 0;
  unrolled<E>([&](int e) PTD_INLINE_LAMBDA {
    const int64_t k = unknown[e].column;
    column[e] = batch.columns + k * parts * classes + i;
    groups |= unknown[e].groups;
    const Vec<T> slack = splat(batch.slack[k * classes + i]);
    unrolled<G>([&](int v) PTD_INLINE_LAMBDA { m[e * G + v] = slack; });
  });
  const auto add = [&](int64_t j) PTD_INLINE_LAMBDA {
    T value[E];
    unrolled<E>([&](int e) PTD_INLINE_LAMBDA { value[e] = column[e][j * classes]; });
    unrolled<G>([&](int v) PTD_INLINE_LAMBDA {
      const Vec<T> weight = load(h + j * kSignSamples + v * kLanes<T>);
      unrolled<E>([&](int e) PTD_INLINE_LAMBDA { m[e * G + v] += value[e] * weight; });
    });
  };
  for (; groups; groups &= groups - 1) {
    const int64_t first = __builtin_ctz(groups) * of_a_bit;
    for (int64_t j = first; j < first + of_a_bit && j < parts; ++j) add(j);
  }
  unrolled<E>([&](int e) PTD_INLINE_LAMBDA { visit(e, m + e * G); });
}

// Calls visit(t, m) for all entries of unknown sign in a row of the table. Each load of a weight
// serves two entries if both are non-zero in most parts.
template <int G, class T, class Visit>
PTD_INLINE void for_each_unknown(const Batch<T>& batch, const SignTable<T>& table, int64_t row,
                                 const T* h, const Visit& visit) {
  const UnknownSign* unknown = table.unknown + row * batch.classes;
  const int32_t count = table.count[row];
  for (int32_t t = 0; t < count;) {
    const auto evaluate = [&]<int E>() PTD_INLINE_LAMBDA {
      evaluate_unknown<G, E>(batch, table.begin + row, unknown + t, h,
                             [&](int e, const Vec<T>* m) PTD_INLINE_LAMBDA { visit(t + e, m); });
      t += E;
    };
    const int own = __builtin_popcount(unknown[t].groups);
    const bool pair = t + 1 < count && own > 4 &&
                      4 * __builtin_popcount(unknown[t].groups & unknown[t + 1].groups) >= 3 * own;
    pair ? evaluate.template operator()<2>() : evaluate.template operator()<1>();
  }
}

// Row sums of the table's rows for samples [first, first + count). If the table has `signs`, count
// is at most kSignSamples.
template <class T>
void row_sums_by_sign(const Batch<T>& batch, const SignTable<T>& table, int64_t first,
                      int64_t count,
                      T* scratch,  // [R + lanes + 1, kSignSamples]
                      T* sums) {   // [count, C]
  constexpr int W = kLanes<T>;
  const int64_t classes = batch.classes, parts = batch.parts, rows = table.end - table.begin;
  constexpr int64_t words = kSignSamples / W;
  T* weights = scratch;
  T* tile = weights + parts * kSignSamples;  // [lanes, kSignSamples]
  for (int64_t done = 0; done < count; done += kSignSamples) {
    const int64_t now = count - done < kSignSamples ? count - done : kSignSamples;
    uint16_t* signs = table.signs;  // of the row
    transpose_weights(batch, first + done, now, tile, weights);
    for (int64_t row = 0; row < rows; ++row) {
      const T* linear = table.linear + row * parts;
      for_each_group<T>(now, [&]<int G>(int64_t s) PTD_INLINE_LAMBDA {
        Vec<T> sum[G];
        unrolled<G>([&](int v) PTD_INLINE_LAMBDA { sum[v] = splat(table.constant[row]); });
        for (int64_t j = 0; j < parts; ++j) {
          const T* h = weights + j * kSignSamples + s;
          unrolled<G>([&](int v) PTD_INLINE_LAMBDA { sum[v] += linear[j] * load(h + v * W); });
        }
        for_each_unknown<G>(
            batch, table, row, weights + s, [&](int64_t t, const Vec<T>* m) PTD_INLINE_LAMBDA {
              unrolled<G>([&](int v) PTD_INLINE_LAMBDA { sum[v] += clamp_lanes<T>(m[v]); });
              if (!signs) return;
              uint16_t* bits = signs + t * words + s / W;
              unrolled<G>([&](int v) PTD_INLINE_LAMBDA {
                bits[v] = uint16_t(lane_bits(~(m[v] <= Vec<T>{})));
              });
            });
        T* out = tile + row % W * kSignSamples + s;
        unrolled<G>([&](int v) PTD_INLINE_LAMBDA { store(out + v * W, sum[v]); });
      });
      if (signs) signs += table.count[row] * words;
      if (row % W < W - 1 && row + 1 < rows) continue;
      // A tile of rows is complete.
      const int64_t top = row - row % W, left = rows - top;
      for (int64_t s = 0; s < now; s += W) {
        Vec<T> square[W];
        for (int l = 0; l < W; ++l) square[l] = load(tile + l * kSignSamples + s);
        transpose_lanes<T>(square);
        for (int64_t l = 0; l < W && s + l < now; ++l) {
          store(sums + (done + s + l) * classes + table.begin + top, square[l], left);
        }
      }
    }
  }
}

// Subtracts from the slack gradient of the table's rows the gradient through the row sums, for the
// samples of the last call of row_sums_by_sign: sum_n [m_ik > 0] row_ni.
template <class T>
void slack_gradient_by_sign(const Batch<T>& batch, const SignTable<T>& table,
                            int64_t count,      // at most kSignSamples
                            const T* row_grad,  // [count, C]
                            T* scratch,         // [lanes, kSignSamples]
                            T* grad_slack) {    // [C, C] by column
  constexpr int W = kLanes<T>;
  const int64_t classes = batch.classes, rows = table.end - table.begin;
  const int64_t row_words = (rows + W - 1) / W;
  constexpr int64_t words = kSignSamples / W;
  T* tile = scratch;
  const uint16_t* signs = table.signs;
  for (int64_t top = 0; top < rows; top += W) {
    const int64_t left = rows - top;
    const T* from = row_grad + table.begin + top;
    Vec<T> total{};
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
      store(grad, load(grad, left) - keep_lanes(total, table.positive[k * row_words + top / W]),
            left);
    }
    for (int64_t row = top; row < top + W && row < rows; ++row) {
      const UnknownSign* unknown = table.unknown + row * classes;
      const T* of_row = tile + (row - top) * kSignSamples;
      for (int32_t t = 0; t < table.count[row]; ++t, signs += words) {
        Vec<T> sum{};
        for (int64_t s = 0; s < count; s += W) sum += keep_lanes(load(of_row + s), signs[s / W]);
        grad_slack[unknown[t].column * classes + table.begin + row] -= sum_lanes(sum);
      }
    }
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
