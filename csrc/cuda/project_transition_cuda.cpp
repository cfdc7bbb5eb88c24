#include "../project_transition.h"

#include "../map_rows.h"
#include "on_device.h"
#include "project_transition.h"

namespace ptd {
namespace {

template <class T>
void forward(const Tensor& matrix, const Tensor& out) {
  const int64_t classes = matrix.size(-1);
  const OnDevice device(matrix);
  check_launch("project_transition",
               launch_project_transition(pointer<T>(matrix), pointer<T>(out),
                                         matrix.numel() / classes, classes, device.stream()));
}

template <class T>
void backward(const Tensor& grad, const Tensor& matrix, const Tensor& out) {
  const int64_t classes = matrix.size(-1);
  const OnDevice device(matrix);
  check_launch("project_transition", launch_project_transition_backward(
                                         pointer<T>(matrix), pointer<T>(grad), pointer<T>(out),
                                         matrix.numel() / classes, classes, device.stream()));
}

Tensor project_transition(Tensor matrix) {
  check_project_transition(matrix);
  return map_rows(matrix,
                  []<class T>(const Tensor& rows, const Tensor& out) { forward<T>(rows, out); });
}

Tensor project_transition_backward(Tensor grad, Tensor matrix) {
  check_project_transition_backward(grad, matrix);
  return map_rows_backward(grad, matrix,
                           []<class T>(const Tensor& grads, const Tensor& rows, const Tensor& out) {
                             backward<T>(grads, rows, out);
                           });
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("project_transition", TORCH_BOX(&project_transition));
  m.impl("project_transition_backward", TORCH_BOX(&project_transition_backward));
}

}  // namespace ptd
