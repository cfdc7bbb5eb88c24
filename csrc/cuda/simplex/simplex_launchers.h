// Launchers of the operators on rows. T is float or double; all sizes are positive.
#pragma once

#include "common/launch.h"

namespace ptd {

// See csrc/simplex_weights.h; R is at most kMaxParts.
template <class T>
struct WeightArgs {
  const T* contraction;  // [B, R, R]
  const T* step;         // [B]
  const T* shift;        // [B, R]
  const T* linear;       // [B, N, R]
  const T* start;        // [B, N, R] or nullptr
  T* weights;            // [B, N, R]
  int64_t batch, rows;   // B, N
  int parts;             // R
  int64_t max_iter;
  T tol;
};

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_simplex_projection(const T* x,    // [rows, R]
                                      T* projected,  // [rows, R]
                                      int64_t rows, int64_t parts, cudaStream_t stream);

template <class T>
cudaError_t launch_simplex_projection_backward(const T* grad,       // [rows, R]
                                               const T* projected,  // [rows, R]
                                               T* grad_x,           // [rows, R]
                                               int64_t rows, int64_t parts, cudaStream_t stream);

template <class T>
cudaError_t launch_project_transition(const T* matrix,  // [rows, C]
                                      T* projected,     // [rows, C]
                                      int64_t rows, int64_t classes, cudaStream_t stream);

template <class T>
cudaError_t launch_project_transition_backward(const T* grad,    // [rows, C]
                                               const T* matrix,  // [rows, C]
                                               T* grad_matrix,   // [rows, C]
                                               int64_t rows, int64_t classes, cudaStream_t stream);

template <class T>
cudaError_t launch_simplex_weights(const WeightArgs<T>& args, cudaStream_t stream);

#endif

}  // namespace ptd
