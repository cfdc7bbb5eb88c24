// simplex_least_squares: for each of P problems the Q that attains
//
//   min  <Q, G Q> / 2 - <B, Q>   over Q [R, K] with Q >= 0 and rows that sum to one
//
//   gram    [P, R, R]   G, symmetric and positive semi-definite, of order one; float64
//   right   [P, R, K]   B; float64
//   result  [P, R, K]   Q, inside the simplex and within rounding of the minimum
//
// ptd_ext/ops/_interior_point.py derives the interior-point method and implements it in torch. The
// P problems are independent.
#pragma once

#include "check.h"
#include "map_rows.h"

namespace ptd {

inline void check_simplex_least_squares(const Tensor& gram, const Tensor& right) {
  const std::string here = "simplex_least_squares: ";
  if (right.dim() != 3 || right.scalar_type() != ScalarType::Double) {
    raise_error(here + "right must be [P, R, K], float64; got " + shape_text(right) + ", " +
                dtype_text(right.scalar_type()) + ".");
  }
  const std::string p = std::to_string(right.size(0)), r = std::to_string(right.size(1));
  const std::string shape = "[" + p + ", " + r + ", " + r + "]";
  if (shape_text(gram) != shape || gram.scalar_type() != ScalarType::Double || !gram.is_cpu()) {
    raise_error(here + "gram must be " + shape + ", float64, on the CPU; got " + shape_text(gram) +
                ", " + dtype_text(gram.scalar_type()) + ", on " + device_text(gram) + ".");
  }
}

}  // namespace ptd
