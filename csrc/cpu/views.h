// Strided views of tensors, as the operators hand them to the kernels.
#pragma once

#include <stdint.h>

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

}  // namespace ptd
