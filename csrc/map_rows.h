// Operators, on any device, that map each row of a float32 or float64 tensor to a row of a result
// of the same shape.
#pragma once

#include <torch/csrc/stable/ops.h>

#include "tensor.h"

namespace ptd {

// Calls run.template operator()<T>(rows, out), both contiguous and of x's shape, unless x is empty.
template <class Run>
Tensor map_rows(const Tensor& x, const Run& run) {
  const Tensor rows = torch::stable::contiguous(x);
  Tensor out = fresh(torch::stable::empty_like(rows));
  if (rows.numel() == 0) return out;
  rows.scalar_type() == ScalarType::Double ? run.template operator()<double>(rows, out)
                                           : run.template operator()<float>(rows, out);
  return out;
}

}  // namespace ptd
