// The CPU kernels on the simplex, one table per instruction set and type. Each handles rows
// [begin, end) and is called from several threads on ranges of its own.
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
  int64_t steps;
  T tolerance;
};

// One problem of simplex_least_squares: see csrc/simplex_least_squares.h.
template <class T>
struct LeastSquaresProblem {
  int64_t parts, columns;  // R, K
  const T* gram;           // [R, R]
  const T* right;          // [R, K]
  T* rows;                 // [R, K]
};

template <class T>
struct SimplexKernels {
  // Numbers of scratch, of type T, that one call may use for rows of length R.
  int64_t (*project_scratch)(int64_t parts);
  int64_t (*weights_scratch)(int64_t parts);
  int64_t (*least_squares_scratch)(int64_t parts, int64_t columns);

  void (*project)(const T* x, int64_t begin, int64_t end, int64_t parts, T* scratch,
                  T* projected);  // rows [begin, end) of [N, R]

  void (*project_backward)(const T* grad, const T* projected, int64_t begin, int64_t end,
                           int64_t parts, T* grad_x);

  void (*weights)(const WeightProblem<T>&, int64_t begin, int64_t end, T* scratch);

  void (*least_squares)(const LeastSquaresProblem<T>&, T* scratch);
};

// For the instruction set of this machine.
template <class T>
const SimplexKernels<T>& simplex_kernels();

}  // namespace ptd
