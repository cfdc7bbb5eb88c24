// simplex_projection: the nearest point of the simplex to every row of [..., R].
// The method is in math/simplex.h.
//
// simplex_projection_backward takes the result, `projected`, in place of the input: its support is
// all that the gradient depends on.
#pragma once

#include "row_operator.h"

namespace ptd {

struct SimplexProjectionRows {
  static constexpr const char* kName = "simplex_projection";
  static constexpr const char* kInput = "x";
  static constexpr const char* kSaved = "projected";
  static constexpr const char* kShape = "[..., R] with R at least 1";

  static bool fits(const Tensor& x) { return x.dim() >= 1 && x.size(-1) >= 1; }
};

}  // namespace ptd
