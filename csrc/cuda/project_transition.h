// Launchers of project_transition. T is float or double; `rows` and `classes` are positive.
#pragma once

#include "launch.h"

namespace ptd {

template <class T>
cudaError_t launch_project_transition(const T* matrix,  // [rows, C]
                                      T* projected,     // [rows, C]
                                      int64_t rows, int64_t classes, cudaStream_t stream);

template <class T>
cudaError_t launch_project_transition_backward(const T* matrix,  // [rows, C]
                                               const T* grad,    // [rows, C]
                                               T* grad_matrix,   // [rows, C]
                                               int64_t rows, int64_t classes, cudaStream_t stream);

}  // namespace ptd
