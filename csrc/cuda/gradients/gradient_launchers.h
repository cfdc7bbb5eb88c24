// The launchers of the gradients of weights, parts and slack from the factored gradient of T(x) +
// slack (MatrixGradient):
//
//   dL/dslack = sum_n dL/dM,   dL/dP^j = sum_n h_j dL/dM,   dL/dh_j = <P^j, dL/dM>
//
// T is float or double.
#pragma once

#include "common/device.h"
#include "common/transition.h"

namespace ptd {

// Absent outputs are nullptr.
template <class T>
struct TransitionGradients {
  T* weights;     // [N, R]
  T* columns;     // [C, R, C]
  Rows<T> slack;  // [C, C]
};

// The mapping of blocks to samples, columns and parts.
struct GradientMapping {
  int lanes;          // of a group that works on the same samples
  int part_tiles;     // of a column
  int weight_blocks;  // of a chunk
  int64_t chunk;      // samples
};

#ifndef __CUDACC_RTC__

struct GradientPlan {
  GradientMapping mapping{};
  int64_t column_blocks, chunks;
  int64_t slack_size, columns_size;  // numbers of a chunk

  template <class T>
  GradientPlan(const Transition<T>& transition, const TransitionGradients<T>& out);

  // Numbers of scratch memory. With one chunk, the sums of the parts go straight to the result.
  int64_t scratch() const { return chunks * slack_size + (chunks > 1 ? chunks * columns_size : 0); }
};

// Writes the gradients that are asked for, at least one. N = 0 is allowed: the sum of nothing is
// written.
template <class T>
cudaError_t launch_transition_gradients(const GradientPlan& plan, const Transition<T>& transition,
                                        const Labels& labels, const MatrixGradient<T>& grad,
                                        const TransitionGradients<T>& out, T* scratch,
                                        cudaStream_t stream);

#endif

}  // namespace ptd
