#include <torch/csrc/stable/library.h>

#include "../project_transition.h"
#include "inputs.h"

namespace ptd {
namespace {

// Calls kernel(matrix, rows_begin, rows_end) in parallel over the rows of [..., C, C].
template <class Kernel>
void for_rows(const Tensor& matrix, const Kernel& kernel) {
  const int64_t classes = matrix.size(-1);
  const Ranges ranges(matrix.numel() / classes, 4.0 * double(classes));
  ranges.run([&](int64_t, int64_t begin, int64_t end) { kernel(begin, end, classes); });
}

template <class T>
void forward(const Tensor& matrix, const Tensor& out) {
  for_rows(matrix, [&](int64_t begin, int64_t end, int64_t classes) {
    kernels<T>().project(static_cast<const T*>(matrix.data_ptr()), begin, end, classes,
                         static_cast<T*>(out.data_ptr()));
  });
}

template <class T>
void backward(const Tensor& grad, const Tensor& matrix, const Tensor& out) {
  for_rows(matrix, [&](int64_t begin, int64_t end, int64_t classes) {
    kernels<T>().project_backward(static_cast<const T*>(matrix.data_ptr()),
                                  static_cast<const T*>(grad.data_ptr()), begin, end, classes,
                                  static_cast<T*>(out.data_ptr()));
  });
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

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("project_transition", TORCH_BOX(&project_transition));
  m.impl("project_transition_backward", TORCH_BOX(&project_transition_backward));
}

}  // namespace ptd
