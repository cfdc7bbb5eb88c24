// The layouts in which a column of a transition matrix is contiguous.
#pragma once

#include <torch/csrc/stable/ops.h>

#include "tensor.h"

namespace ptd {

// True for [C, C] by column, and for parts [R, C, C] with strides (C, 1, R * C).
inline bool is_column_layout(const Tensor& tensor) {
  const int64_t classes = tensor.size(-1);
  if (tensor.dim() == 2) return tensor.stride(0) == 1 && tensor.stride(1) == classes;
  return tensor.stride(0) == classes && tensor.stride(1) == 1 &&
         tensor.stride(2) == tensor.size(0) * classes;
}

// The transpose of [C, C], contiguous. It is a view, not a copy, of a matrix in column layout.
inline Tensor by_column(const Tensor& square) {
  return torch::stable::contiguous(torch::stable::transpose(square, 0, 1));
}

// Parts [R, C, C] in memory as [C, R, C], or one matrix [C, C] by by_column. Parts that are in
// column layout already are returned as they are.
inline Tensor parts_by_column(const Tensor& parts) {
  if (is_column_layout(parts)) return parts;
  if (parts.dim() == 2) return by_column(parts);
  const Tensor middle = torch::stable::transpose(parts, 0, 2);               // [k, i, j]
  return torch::stable::contiguous(torch::stable::transpose(middle, 1, 2));  // [k, j, i]
}

// Parts [R, C, C] as a contiguous [C, R, C], indexed (i, j, k); one matrix [C, C] made contiguous.
inline Tensor parts_by_row(const Tensor& parts) {
  if (parts.dim() == 2) return torch::stable::contiguous(parts);
  return torch::stable::contiguous(torch::stable::transpose(parts, 0, 1));  // [i, j, k]
}

}  // namespace ptd
