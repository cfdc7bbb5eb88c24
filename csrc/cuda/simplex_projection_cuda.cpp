#include "../simplex_projection.h"

#include "../map_rows.h"
#include "on_device.h"
#include "simplex_projection.h"

namespace ptd {
namespace {

template <class T>
void forward(const Tensor& x, const Tensor& out) {
  const int64_t parts = x.size(-1);
  const OnDevice device(x);
  check_launch("simplex_projection",
               launch_simplex_projection(pointer<T>(x), pointer<T>(out), x.numel() / parts, parts,
                                         device.stream()));
}

template <class T>
void backward(const Tensor& grad, const Tensor& projected, const Tensor& out) {
  const int64_t parts = projected.size(-1);
  const OnDevice device(projected);
  check_launch(
      "simplex_projection_backward",
      launch_simplex_projection_backward(pointer<T>(grad), pointer<T>(projected), pointer<T>(out),
                                         projected.numel() / parts, parts, device.stream()));
}

Tensor simplex_projection(Tensor x) {
  check_simplex_projection(x);
  return map_rows(x, []<class T>(const Tensor& rows, const Tensor& out) { forward<T>(rows, out); });
}

Tensor simplex_projection_backward(Tensor grad, Tensor projected) {
  check_simplex_projection_backward(grad, projected);
  return map_rows_backward(grad, projected,
                           []<class T>(const Tensor& grads, const Tensor& rows, const Tensor& out) {
                             backward<T>(grads, rows, out);
                           });
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("simplex_projection", TORCH_BOX(&simplex_projection));
  m.impl("simplex_projection_backward", TORCH_BOX(&simplex_projection_backward));
}

}  // namespace ptd
