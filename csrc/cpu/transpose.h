// Square matrices between row and column layout, in tiles that stay in cache.
#pragma once

#include <cstdint>

namespace ptd {

// out[c * size + r] = in[r * row_stride + c * stride]
template <class T>
void transpose_square(const T* in, int64_t row_stride, int64_t stride, int64_t size, T* out) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < size; r0 += kTile) {
    const int64_t r1 = r0 + kTile < size ? r0 + kTile : size;
    for (int64_t c0 = 0; c0 < size; c0 += kTile) {
      const int64_t c1 = c0 + kTile < size ? c0 + kTile : size;
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) out[c * size + r] = in[r * row_stride + c * stride];
      }
    }
  }
}

}  // namespace ptd
