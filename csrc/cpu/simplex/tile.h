// Transposition in tiles of four by four, which stay in registers.
#pragma once

#include "simd/simd.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
struct Quad;
template <>
struct Quad<float> {
  typedef float Vec __attribute__((vector_size(16)));
  typedef int32_t Index __attribute__((vector_size(16)));
};
template <>
struct Quad<double> {
  typedef double Vec __attribute__((vector_size(32)));
  typedef int64_t Index __attribute__((vector_size(32)));
};

// Entries i, j, k, l of the eight in (a, b).
#if defined(__clang__)
#define PTD_PICK(T, a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PTD_PICK(T, a, b, i, j, k, l) __builtin_shuffle(a, b, typename Quad<T>::Index{i, j, k, l})
#endif

template <class T>
PTD_INLINE void transpose_tile(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  using Vec = typename Quad<T>::Vec;
  Vec row[4];
  for (int r = 0; r < 4; ++r) memcpy(&row[r], from + r * from_stride, sizeof(Vec));
  const Vec low01 = PTD_PICK(T, row[0], row[1], 0, 4, 1, 5);
  const Vec high01 = PTD_PICK(T, row[0], row[1], 2, 6, 3, 7);
  const Vec low23 = PTD_PICK(T, row[2], row[3], 0, 4, 1, 5);
  const Vec high23 = PTD_PICK(T, row[2], row[3], 2, 6, 3, 7);
  const Vec column[4] = {
      PTD_PICK(T, low01, low23, 0, 1, 4, 5), PTD_PICK(T, low01, low23, 2, 3, 6, 7),
      PTD_PICK(T, high01, high23, 0, 1, 4, 5), PTD_PICK(T, high01, high23, 2, 3, 6, 7)};
  for (int c = 0; c < 4; ++c) memcpy(to + c * to_stride, &column[c], sizeof(Vec));
}
#undef PTD_PICK

// to[c][r] = from[r][c]
template <class T>
PTD_INLINE void transpose(const T* from,  // [rows, columns], from_stride apart
                          int64_t from_stride, int64_t rows, int64_t columns,
                          T* to,  // [columns, rows], to_stride apart
                          int64_t to_stride) {
  const int64_t tiled_rows = rows / 4 * 4, tiled_columns = columns / 4 * 4;
  for (int64_t r = 0; r < tiled_rows; r += 4) {
    for (int64_t c = 0; c < tiled_columns; c += 4) {
      transpose_tile(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < tiled_rows ? tiled_columns : 0; c < columns; ++c) {
      to[c * to_stride + r] = from[r * from_stride + c];
    }
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
