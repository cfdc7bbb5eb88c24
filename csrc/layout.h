// The layouts in which a column of a transition matrix is contiguous.
#pragma once

#include <torch/csrc/stable/ops.h>

#include "tensor.h"

namespace ptd {

inline bool is_column_layout(const Tensor& square) {  // [C, C]
  return square.stride(0) == 1 && square.stride(1) == square.size(0);
}

// [C, C] with rows and columns exchanged, contiguous. No copy where it is that already.
inline Tensor by_column(const Tensor& square) {
  return torch::stable::contiguous(torch::stable::transpose(square, 0, 1));
}

// Parts [R, C, C] as [C, R, C] contiguous, or one matrix [C, C] as by_column. No copy where they
// are in column layout already.
inline Tensor parts_by_column(const Tensor& parts) {
  if (parts.dim() == 2) return by_column(parts);
  const Tensor middle = torch::stable::transpose(parts, 0, 2);               // [k, i, j]
  return torch::stable::contiguous(torch::stable::transpose(middle, 1, 2));  // [k, j, i]
}

}  // namespace ptd
