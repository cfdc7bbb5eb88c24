// Strided views of tensors, as the operators hand them to the kernels.
#pragma once

#include <stdint.h>

#include "simd/inline.h"

namespace ptd {

enum class Scalar : int32_t { f32, f64, f16, bf16 };

// A strided [rows, columns] view; data == nullptr stands for an absent tensor.
struct Matrix {
  void* data = nullptr;
  Scalar scalar = Scalar::f32;
  int64_t row_stride = 0;
  int64_t stride = 0;
};

struct Labels {
  const void* data;
  bool is_int64;
  int64_t stride;
};

PTD_INLINE int64_t label_at(const Labels& labels, int64_t n) {
  const int64_t at = n * labels.stride;
  return labels.is_int64 ? static_cast<const int64_t*>(labels.data)[at]
                         : static_cast<const int32_t*>(labels.data)[at];
}

}  // namespace ptd
