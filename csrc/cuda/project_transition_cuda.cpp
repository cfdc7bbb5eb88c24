#include "../project_transition.h"

#include <torch/csrc/stable/ops.h>

#include "on_device.h"
#include "project_transition.h"

namespace ptd {
namespace {

template <class T>
void forward(const Tensor& matrix, const Tensor& out) {
  const int64_t classes = matrix.size(-1);
  const OnDevice device(matrix);
  check_launch("project_transition",
               launch_project_transition(static_cast<const T*>(matrix.data_ptr()),
                                         static_cast<T*>(out.data_ptr()), matrix.numel() / classes,
                                         classes, device.stream()));
}

template <class T>
void backward(const Tensor& grad, const Tensor& matrix, const Tensor& out) {
  const int64_t classes = matrix.size(-1);
  const OnDevice device(matrix);
  check_launch(
      "project_transition",
      launch_project_transition_backward(
          static_cast<const T*>(matrix.data_ptr()), static_cast<const T*>(grad.data_ptr()),
          static_cast<T*>(out.data_ptr()), matrix.numel() / classes, classes, device.stream()));
}

Tensor project_transition(Tensor matrix) {
  check_project_transition(matrix);
  const Tensor rows = torch::stable::contiguous(matrix);
  Tensor out = torch::stable::empty_like(rows);
  if (rows.numel() == 0) return out;
  matrix.scalar_type() == ScalarType::Double ? forward<double>(rows, out)
                                             : forward<float>(rows, out);
  return out;
}

Tensor project_transition_backward(Tensor grad, Tensor matrix) {
  check_project_transition_backward(grad, matrix);
  const Tensor rows = torch::stable::contiguous(matrix), grads = torch::stable::contiguous(grad);
  Tensor out = torch::stable::empty_like(rows);
  if (rows.numel() == 0) return out;
  matrix.scalar_type() == ScalarType::Double ? backward<double>(grads, rows, out)
                                             : backward<float>(grads, rows, out);
  return out;
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("project_transition", TORCH_BOX(&project_transition));
  m.impl("project_transition_backward", TORCH_BOX(&project_transition_backward));
}

}  // namespace ptd
