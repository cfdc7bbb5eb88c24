// The scalar types of the kernels.
//
// Tensors are stored as float, double, Half or BFloat16; arithmetic is in the accumulation type:
// double for double, float for the rest. The sixteen-bit types are used for storage alone.
#pragma once

#include "common/launch.h"

namespace ptd {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

template <class S>
struct AccumulationOf {
  using type = float;
};
template <>
struct AccumulationOf<double> {
  using type = double;
};
template <class S>
using Accumulation = typename AccumulationOf<S>::type;

// A strided [rows, columns] view; data == nullptr stands for an absent tensor.
template <class S>
struct Rows {
  S* data;
  int64_t row_stride, stride;

  __device__ __forceinline__ S* at(int64_t row, int64_t column) const {
    return data + row * row_stride + column * stride;
  }
};

}  // namespace ptd
