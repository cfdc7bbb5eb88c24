// One problem of an operator on the simplex, as its CPU kernel takes it.
#pragma once

#include <stdint.h>

namespace ptd {

// One problem of simplex_weights: see csrc/simplex_weights.h.
template <class T>
struct WeightProblem {
  int64_t parts;         // R
  const T* contraction;  // [R, R]
  T step;
  const T* shift;   // [R]
  const T* linear;  // [N, R]
  const T* start;   // [N, R] or nullptr
  T* weights;       // [N, R]
  int64_t max_iter;
  T tol;
};

// One problem of simplex_least_squares: see csrc/simplex_least_squares.h.
template <class T>
struct LeastSquaresProblem {
  int64_t parts, columns;  // R, K
  const T* gram;           // [R, R]
  const T* right;          // [R, K]
  T* rows;                 // [R, K]
};

}  // namespace ptd
