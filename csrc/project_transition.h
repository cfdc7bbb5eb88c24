// project_transition: rows of [..., C, C] clamped at zero and divided by their sum.
// The formula is in math/revision.h.
#pragma once

#include "check.h"
#include "map_rows.h"

namespace ptd {

inline void check_project_transition(const Tensor& matrix) {
  const int64_t rank = matrix.dim();
  if (rank < 2 || matrix.size(-1) != matrix.size(-2) || matrix.size(-1) < 1) {
    refuse("project_transition: matrix must be [..., C, C]; got " + shape_text(matrix) + ".");
  }
  if (matrix.scalar_type() != ScalarType::Float && matrix.scalar_type() != ScalarType::Double) {
    refuse("project_transition: matrix must be float32 or float64; got " +
           dtype_text(matrix.scalar_type()) + ".");
  }
}

inline void check_project_transition_backward(const Tensor& grad, const Tensor& matrix) {
  check_project_transition(matrix);
  if (shape_text(grad) == shape_text(matrix) && grad.scalar_type() == matrix.scalar_type()) return;
  refuse("project_transition_backward: grad must be like matrix, " + shape_text(matrix) + ", " +
         dtype_text(matrix.scalar_type()) + "; got " + shape_text(grad) + ", " +
         dtype_text(grad.scalar_type()) + ".");
}

// Device::forward<T>(matrix, projected) and Device::backward<T>(grad, matrix, grad_matrix) run the
// kernels on contiguous tensors that are not empty.
template <class Device>
Tensor project_transition(Tensor matrix) {
  check_project_transition(matrix);
  return map_rows(matrix, []<class T>(const Tensor& rows, const Tensor& projected) {
    Device::template forward<T>(rows, projected);
  });
}

template <class Device>
Tensor project_transition_backward(Tensor grad, Tensor matrix) {
  check_project_transition_backward(grad, matrix);
  return map_rows_backward(
      grad, matrix,
      []<class T>(const Tensor& grads, const Tensor& rows, const Tensor& grad_matrix) {
        Device::template backward<T>(grads, rows, grad_matrix);
      });
}

}  // namespace ptd
