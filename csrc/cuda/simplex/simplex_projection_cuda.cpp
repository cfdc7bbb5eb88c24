#include "simplex_projection.h"

#include "common/torch_glue.h"
#include "simplex/simplex_launchers.h"

namespace ptd {
namespace {

struct SimplexProjectionCuda {
  template <class T>
  static void forward(const Tensor& x, const Tensor& projected) {
    const int64_t parts = x.size(-1);
    const OnDevice device(x);
    check_launch("simplex_projection",
                 launch_simplex_projection(pointer<const T>(x), pointer<T>(projected),
                                           x.numel() / parts, parts, device.stream()));
  }

  template <class T>
  static void backward(const Tensor& grad, const Tensor& projected, const Tensor& grad_x) {
    const int64_t parts = projected.size(-1);
    const OnDevice device(projected);
    check_launch("simplex_projection_backward",
                 launch_simplex_projection_backward(
                     pointer<const T>(grad), pointer<const T>(projected), pointer<T>(grad_x),
                     projected.numel() / parts, parts, device.stream()));
  }
};

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("simplex_projection",
         TORCH_BOX((&row_operator<SimplexProjectionRows, SimplexProjectionCuda>)));
  m.impl("simplex_projection_backward",
         TORCH_BOX((&row_operator_backward<SimplexProjectionRows, SimplexProjectionCuda>)));
}

}  // namespace ptd
