// simplex_projection: the nearest point of the simplex to every row of [..., R].
// The method is in math/simplex.h.
//
// simplex_projection_backward takes the result, `projected`, in place of the input: its support is
// all that the gradient depends on.
#pragma once

#include "check.h"
#include "map_rows.h"

namespace ptd {

inline void check_simplex_projection(const Tensor& x) {
  if (x.dim() < 1 || x.size(-1) < 1) {
    refuse("simplex_projection: x must be [..., R] with R at least 1; got " + shape_text(x) + ".");
  }
  if (x.scalar_type() != ScalarType::Float && x.scalar_type() != ScalarType::Double) {
    refuse("simplex_projection: x must be float32 or float64; got " + dtype_text(x.scalar_type()) +
           ".");
  }
}

inline void check_simplex_projection_backward(const Tensor& grad, const Tensor& projected) {
  check_simplex_projection(projected);
  if (shape_text(grad) != shape_text(projected) || grad.scalar_type() != projected.scalar_type()) {
    refuse("simplex_projection_backward: grad must be of the shape and type of projected, " +
           shape_text(projected) + ", " + dtype_text(projected.scalar_type()) + "; got " +
           shape_text(grad) + ", " + dtype_text(grad.scalar_type()) + ".");
  }
}

// Device::forward<T>(x, projected) and Device::backward<T>(grad, projected, grad_x) run the kernels
// on contiguous tensors that are not empty.
template <class Device>
Tensor simplex_projection(Tensor x) {
  check_simplex_projection(x);
  return map_rows(x, []<class T>(const Tensor& rows, const Tensor& projected) {
    Device::template forward<T>(rows, projected);
  });
}

template <class Device>
Tensor simplex_projection_backward(Tensor grad, Tensor projected) {
  check_simplex_projection_backward(grad, projected);
  return map_rows_backward(
      grad, projected, []<class T>(const Tensor& grads, const Tensor& rows, const Tensor& grad_x) {
        Device::template backward<T>(grads, rows, grad_x);
      });
}

}  // namespace ptd
