// Launchers of simplex_projection. T is float or double; `rows` and `parts` are positive.
#pragma once

#include "launch.h"

namespace ptd {

template <class T>
cudaError_t launch_simplex_projection(const T* x,    // [rows, R]
                                      T* projected,  // [rows, R]
                                      int64_t rows, int64_t parts, cudaStream_t stream);

template <class T>
cudaError_t launch_simplex_projection_backward(const T* grad,       // [rows, R]
                                               const T* projected,  // [rows, R]
                                               T* grad_x,           // [rows, R]
                                               int64_t rows, int64_t parts, cudaStream_t stream);

}  // namespace ptd
