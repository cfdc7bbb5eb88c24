// project_transition: rows of [..., C, C] clamped at zero and divided by their sum.
// The formula is in math/revision.h.
#pragma once

#include "check.h"

namespace ptd {

inline void check_project_transition(const Tensor& matrix) {
  const int64_t rank = matrix.dim();
  if (rank < 2 || matrix.size(-1) != matrix.size(-2) || matrix.size(-1) < 1) {
    refuse("project_transition: matrix must be [..., C, C]; got " + shape_text(matrix) + ".");
  }
  if (matrix.scalar_type() != ScalarType::Float && matrix.scalar_type() != ScalarType::Double) {
    refuse("project_transition: matrix must be float32 or float64; got " +
           dtype_text(matrix.scalar_type()) + ".");
  }
}

}  // namespace ptd
