// Columns of T(x) + slack and their row sums, which every operator on T(x) is built from.
//
// Column k of sample n is m_i = slack_ik + sum_j h_j P^j_ik. Lanes run over i, the clean class,
// which is contiguous in the [C, R, C] layout. None of these functions holds more of T(x) than the
// columns it is working on.
#pragma once

#include "batch.h"
#include "math/revision.h"
#include "rows.h"
#include "simd/simd.h"

namespace ptd {
namespace PTD_ISA {

// The widest strip of a column that is held in registers.
constexpr int kStripVectors = kVectorRegisters >= 32 ? 8 : 4;

// combine_column for V vectors from entry i on; only the last of them may be partial.
template <int V, class T, class Finish>
PTD_INLINE void combine_strip(const T* h, const T* column, const T* base, int64_t parts,
                              int64_t classes, int64_t i, const Finish& finish) {
  constexpr int64_t W = kLanes<T>;
  const auto vector = [&](const T* row, int v) PTD_INLINE_LAMBDA {
    const T* at = row + i + v * W;
    return v < V - 1 ? load(at) : load(at, classes - i - v * W);
  };
  Vec<T> m[V], odd[V];
  unrolled<V>([&](int v) PTD_INLINE_LAMBDA {
    m[v] = base ? vector(base, v) : Vec<T>{};
    odd[v] = Vec<T>{};
  });
  const auto add = [&](Vec<T>* sums, int64_t j) PTD_INLINE_LAMBDA {
    unrolled<V>([&](int v) PTD_INLINE_LAMBDA {  //
      sums[v] += h[j] * vector(column + j * classes, v);
    });
  };
  int64_t j = 0;
  if constexpr (V <= 2) {
    // Without a base, one more sum hides the latency of each. With slack every function adds in the
    // same order, or an entry within rounding of zero could be clamped in its column and not in its
    // row sum.
    for (; !base && j + 2 <= parts; j += 2) {
      add(m, j);
      add(odd, j + 1);
    }
  }
  for (; j < parts; ++j) add(m, j);
  unrolled<V>([&](int v) PTD_INLINE_LAMBDA {
    finish(i + v * W, classes - i - v * W, V <= 2 ? m[v] + odd[v] : m[v]);
  });
}

// Calls finish(i, n, m) for every vector m of base + sum_j h_j column_j; m starts at entry i and
// has min(n, lanes) entries of the column. A base of nullptr stands for zero.
template <class T, class Finish>
PTD_INLINE void combine_column(const T* h,       // [R]
                               const T* column,  // [R, C]
                               const T* base,    // [C] or nullptr
                               int64_t parts, int64_t classes, const Finish& finish) {
  int64_t i = 0;
  const auto while_left = [&]<int V>() PTD_INLINE_LAMBDA {
    // The last vector of a strip may be partial.
    for (; classes - i > (V - 1) * kLanes<T>; i += V * kLanes<T>) {
      combine_strip<V>(h, column, base, parts, classes, i, finish);
    }
  };
  const auto with_each = [&]<int... Fewer>(std::integer_sequence<int, Fewer...>) PTD_INLINE_LAMBDA {
    (while_left.template operator()<kStripVectors - Fewer>(), ...);
  };
  with_each(std::make_integer_sequence<int, kStripVectors>());
}

// The vector at entry i of K columns from k on, for S samples at once: each load serves S samples.
template <int S, int K, class T>
PTD_INLINE void combine_tile(const T* h,        // [S, R]
                             const T* columns,  // [K, R, C] from column k on
                             const T* slack,    // [K, C] from column k on, or nullptr
                             int64_t parts, int64_t classes, int64_t i, Vec<T> (&m)[S][K]) {
  const int64_t n = classes - i;
  for (int k = 0; k < K; ++k) {
    const Vec<T> base = slack ? load(slack + k * classes + i, n) : Vec<T>{};
    for (int s = 0; s < S; ++s) m[s][k] = base;
  }
  for (int64_t j = 0; j < parts; ++j) {
    Vec<T> part[K];
    for (int k = 0; k < K; ++k) part[k] = load(columns + (k * parts + j) * classes + i, n);
    for (int s = 0; s < S; ++s) {
      for (int k = 0; k < K; ++k) m[s][k] += h[s * parts + j] * part[k];
    }
  }
}

// clamp_entry of math/revision.h, for a vector.
template <class T>
PTD_INLINE Vec<T> clamp_lanes(Vec<T> m) {
  return positive_part(m);
}

// A tile of T(x) is as large as the registers allow: more samples per load and more independent
// sums hide the latency of loads and of multiply-adds.
constexpr int kTileSamples = kVectorRegisters >= 32 ? 8 : 4;
constexpr int kTileColumns = kVectorRegisters >= 32 ? 3 : 2;

// Calls visit(s, k, i, m) for all columns of a block, in tiles: m[t][c] is the vector at entry i of
// column k + c of sample s + t.
template <class T, class Visit>
PTD_INLINE void for_each_tile(const Batch<T>& batch, const T* h, int64_t count,
                              const Visit& visit) {
  const int64_t classes = batch.classes, parts = batch.parts;
  const auto all_samples = [&]<int K>(int64_t k, int64_t i) {
    int64_t s = 0;
    const auto while_left = [&]<int S>() {
      for (; s + S <= count; s += S) {
        Vec<T> m[S][K];
        combine_tile(h + s * parts, batch.columns + k * parts * classes,
                     batch.slack ? batch.slack + k * classes : nullptr, parts, classes, i, m);
        visit(s, k, i, m);
      }
    };
    while_left.template operator()<kTileSamples>();
    while_left.template operator()<2>();
    while_left.template operator()<1>();
  };
  int64_t k = 0;
  const auto while_left = [&]<int K>() {
    for (; k + K <= classes; k += K) {
      for (int64_t i = 0; i < classes; i += kLanes<T>) all_samples.template operator()<K>(k, i);
    }
  };
  while_left.template operator()<kTileColumns>();
  while_left.template operator()<1>();
}

// Row sums of the clamped matrix, r_i = sum_k max(m_ik, 0), for S samples and the vector at row i.
// The sums stay in registers. This suits few classes, whose parts all fit in the L1 cache.
template <int S, class T>
PTD_INLINE void row_sums_in_registers(const Batch<T>& batch, const T* h, int64_t i,
                                      T* sums) {  // [S, C]
  const int64_t classes = batch.classes, parts = batch.parts;
  Vec<T> sum[S] = {};
  const auto add = [&](auto& m, int64_t k) {
    combine_tile(h, batch.columns + k * parts * classes, batch.slack + k * classes, parts, classes,
                 i, m);
    for (int s = 0; s < S; ++s) {
      for (const Vec<T>& lanes : m[s]) sum[s] += clamp_lanes<T>(lanes);
    }
  };
  Vec<T> two[S][2], one[S][1];
  int64_t k = 0;
  for (; k + 2 <= classes; k += 2) add(two, k);
  if (k < classes) add(one, k);
  for (int s = 0; s < S; ++s) store(sums + s * classes + i, sum[s], classes - i);
}

template <class T>
PTD_INLINE void row_sums(const Batch<T>& batch, const T* h, int64_t count,
                         T* sums) {  // [count, C]
  const int64_t classes = batch.classes, parts = batch.parts;
  if (classes <= 2 * kLanes<T>) {
    for_lanes<T>(classes, [&](int64_t i, int64_t) {
      int64_t s = 0;
      for (; s + 4 <= count; s += 4) {
        row_sums_in_registers<4>(batch, h + s * parts, i, sums + s * classes);
      }
      for (; s < count; ++s) {
        row_sums_in_registers<1>(batch, h + s * parts, i, sums + s * classes);
      }
    });
    return;
  }
  memset(sums, 0, sizeof(T) * count * classes);
  for_each_tile(batch, h, count,
                [&]<int S, int K>(int64_t s, int64_t, int64_t i, Vec<T>(&m)[S][K]) {
                  for (int t = 0; t < S; ++t) {
                    T* row = sums + (s + t) * classes + i;
                    Vec<T> sum = load(row, classes - i);
                    for (int c = 0; c < K; ++c) sum += clamp_lanes<T>(m[t][c]);
                    store(row, sum, classes - i);
                  }
                });
}

// is_empty_row and inverse_row_sum of math/revision.h, for vectors.
template <class T>
PTD_INLINE auto empty_rows(Vec<T> sums) {
  return sums < splat(smallest_normal<T>());
}
template <class T>
PTD_INLINE Vec<T> inverse_row_sums(Vec<T> sums) {
  return empty_rows<T>(sums) ? Vec<T>{} : T(1) / sums;
}

// Column k of all parts, [R, C].
template <class T>
PTD_INLINE const T* part_columns(const Batch<T>& batch, int64_t k) {
  const int64_t at = batch.column_index ? batch.column_index[k] : k;
  return batch.columns + at * batch.parts * batch.classes;
}

// Column y of the transition matrix: the weighted sum of the parts, with slack clamped and
// normalised, then smoothed.
template <class T>
PTD_INLINE void transition_column(const Batch<T>& batch, const T* h, int64_t y, T smoothing,
                                  const T* sums,  // [C], the row sums; only read with slack
                                  T* plain,       // [C], without smoothing; or nullptr
                                  T* out) {       // [C]
  const int64_t classes = batch.classes;
  const T* slack = batch.slack ? batch.slack + y * classes : nullptr;
  const T* column = part_columns(batch, y);
  const Vec<T> uniform = splat(T(1) / T(classes));
  const T keep = T(1) - smoothing, floor = smoothing / T(classes);
  combine_column(h, column, slack, batch.parts, classes, [&](int64_t i, int64_t n, Vec<T> u) {
    if (slack) {
      const Vec<T> sum = load(sums + i, n);
      u = empty_rows<T>(sum) ? uniform : clamp_lanes<T>(u) / sum;
    }
    if (plain) store(plain + i, u, n);
    store(out + i, keep * u + floor, n);
  });
}

// The weights of a block as contiguous [count, R]: the tensor's own memory if it is contiguous.
template <class T>
PTD_INLINE const T* block_weights(const Batch<T>& batch, int64_t begin, int64_t count,
                                  T* buffer) {  // [count, R]
  const int64_t parts = batch.parts;
  if (!batch.weights.data) {
    for (int64_t s = 0; s < count * parts; ++s) buffer[s] = T(1);
    return buffer;
  }
  const Matrix& weights = batch.weights;
  if (weights.stride == 1 && weights.row_stride == parts) {
    return static_cast<const T*>(weights.data) + begin * parts;
  }
  for (int64_t s = 0; s < count; ++s) {
    const T* row = read_row(weights, begin + s, parts, buffer + s * parts);
    if (row != buffer + s * parts) memcpy(buffer + s * parts, row, sizeof(T) * parts);
  }
  return buffer;
}

}  // namespace PTD_ISA
}  // namespace ptd
