// Copies parts, or one matrix, from any layout to column layout, in tiles that are transposed in
// registers.
#pragma once

#include <utility>

#include "batch.h"
#include "simd/simd.h"

namespace ptd {
namespace PTD_ISA {

// a0 b0 a1 b1 ... of the first, or of the second, half of two vectors.
template <class T, int First, size_t... Lane>
PTD_INLINE Vec<T> interleave(Vec<T> a, Vec<T> b, std::index_sequence<Lane...>) {
  return __builtin_shufflevector(a, b, int(First + Lane / 2 + (Lane % 2) * kLanes<T>)...);
}

// Lane l of v[r] becomes lane r of v[l]. One stage of interleaving rotates the bits of the index
// (r, l) by one, so that r and l are exchanged after as many stages as each has bits.
template <class T>
PTD_INLINE void transpose_lanes(Vec<T> (&v)[kLanes<T>]) {
  constexpr int W = kLanes<T>;
  constexpr std::make_index_sequence<W> lanes;
  for (int stage = 1; stage < W; stage *= 2) {
    Vec<T> next[W];
    for (int r = 0; r < W / 2; ++r) {
      next[2 * r] = interleave<T, 0>(v[r], v[r + W / 2], lanes);
      next[2 * r + 1] = interleave<T, W / 2>(v[r], v[r + W / 2], lanes);
    }
    for (int r = 0; r < W; ++r) v[r] = next[r];
  }
}

// Copies rows [begin, end) of the R * C rows of all parts, for all columns or those with an index.
template <class T>
void lay_out_columns(const PartsView<T>& parts, int64_t begin, int64_t end,
                     const int32_t* column_index,  // [C], negative for a column to leave out; or
                                                   // nullptr
                     T* columns) {                 // [.., R, C]
  constexpr int W = kLanes<T>;
  constexpr int64_t kRows = 512;  // limits the pages touched at a time; writes stay long
  const int64_t classes = parts.classes, rows = parts.count * classes;
  const auto index_of = [&](int64_t k) { return column_index ? int64_t(column_index[k]) : k; };
  const auto row_at = [&](int64_t r) {
    return parts.data + r / classes * parts.part_stride + r % classes * parts.row_stride;
  };
  for (int64_t block = begin; block < end; block += kRows) {
    const int64_t last = block + kRows < end ? block + kRows : end;
    const T* row[kRows];
    for (int64_t r = 0; r < kRows; ++r) row[r] = row_at(block + r < last ? block + r : block);
    for (int64_t k = 0; k < classes; k += W) {
      const int64_t left = classes - k < W ? classes - k : W;
      bool wanted = !column_index;
      for (int64_t l = 0; l < left && !wanted; ++l) wanted = column_index[k + l] >= 0;
      for (int64_t r = block; wanted && r < last; r += W) {
        Vec<T> tile[W];
        for (int64_t l = 0; l < W; ++l) {
          const T* from = row[r - block + l] + k * parts.stride;
          if (parts.stride == 1) {
            tile[l] = load(from, left);
          } else {
            for (int64_t c = 0; c < left; ++c) tile[l][c] = from[c * parts.stride];
          }
        }
        transpose_lanes<T>(tile);
        for (int64_t l = 0; l < left; ++l) {
          const int64_t at = index_of(k + l);
          if (at >= 0) store(columns + at * rows + r, tile[l], last - r);
        }
      }
    }
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
