#include <torch/csrc/stable/library.h>

#include "../map_rows.h"
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

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("project_transition", TORCH_BOX(&project_transition));
  m.impl("project_transition_backward", TORCH_BOX(&project_transition_backward));
}

}  // namespace ptd
