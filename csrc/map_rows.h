// Operators that take the rows of one tensor, of floats or doubles, to those of another, whatever
// the device they run on.
#pragma once

#include <torch/csrc/stable/ops.h>

#include "tensor.h"

namespace ptd {

// run.template operator()<T>(rows, out), both contiguous and of x's shape, unless that is empty.
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
