// Device code that reads a MatrixGradient.
#pragma once

#include "common/reductions.cuh"
#include "common/scalars.cuh"
#include "common/tuning.h"
#include "gradients/gradient_launchers.h"
#include "math/revision.h"

namespace ptd {

// The column factor of sample n at column k. `counts` is false for a sample whose label is ignored
// or bad: it has no factor, and its weights, which may be NaN, must not be used.
template <class T>
struct ColumnFactor {
  const T* column;  // [C] of the sample, or nullptr
  int label;

  __device__ __forceinline__ ColumnFactor(const MatrixGradient<T>& grad, const Labels& labels,
                                          int64_t n, int classes)
      : column(grad.column ? grad.column + n * classes : nullptr),
        label(grad.column ? 0 : labels.class_of(n, classes)) {}

  __device__ __forceinline__ bool counts() const { return label >= 0; }
  __device__ __forceinline__ T at(int k) const {
    return column ? column[k] : label == k ? T(1) : T(0);
  }
};

// dL/dM_ik of an entry that is not clamped. Entries may be infinite where the factor is zero.
template <bool kSlack, class T>
__device__ __forceinline__ T unclamped_gradient(const MatrixGradient<T>& grad, T factor,
                                                int64_t at) {
  const T entry = factor == T(0) ? T(0) : factor * grad.entry[at];
  return kSlack ? entry - grad.row[at] : entry;
}

}  // namespace ptd
