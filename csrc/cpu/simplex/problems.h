// Problems of the operators on the simplex, as their CPU kernels take them.
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

// The rows of invert_posterior: see csrc/invert_posterior.h.
template <class T>
struct InversionProblem {
  int64_t classes, parts;  // C, R
  const T* probs;          // [N, C]
  const T* weights;        // [N, R] or nullptr
  const T* matrices;       // [R, C, C]
  T* clean;                // [N, C]
  int64_t max_iter;
  T tol;
};

}  // namespace ptd
