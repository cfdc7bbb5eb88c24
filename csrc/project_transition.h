// project_transition: rows of [..., C, C] clamped at zero and divided by their sum.
// The formula is in math/revision.h.
#pragma once

#include "row_operator.h"

namespace ptd {

struct ProjectTransitionRows {
  static constexpr const char* kName = "project_transition";
  static constexpr const char* kInput = "matrix";
  static constexpr const char* kSaved = "matrix";
  static constexpr const char* kShape = "[..., C, C]";

  static bool fits(const Tensor& matrix) {
    return matrix.dim() >= 2 && matrix.size(-1) == matrix.size(-2) && matrix.size(-1) >= 1;
  }
};

}  // namespace ptd
