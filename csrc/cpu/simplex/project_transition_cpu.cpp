#include "project_transition.h"

#include <torch/csrc/stable/library.h>

#include "inputs.h"

namespace ptd {
namespace {

struct ProjectTransitionCpu {
  template <class T>
  static void forward(const Tensor& matrix, const Tensor& projected) {
    for_rows(matrix, [&](int64_t begin, int64_t end, int64_t classes) {
      kernels<T>().project_transition(static_cast<const T*>(matrix.data_ptr()), begin, end, classes,
                                      static_cast<T*>(projected.data_ptr()));
    });
  }

  template <class T>
  static void backward(const Tensor& grad, const Tensor& matrix, const Tensor& grad_matrix) {
    for_rows(matrix, [&](int64_t begin, int64_t end, int64_t classes) {
      kernels<T>().project_transition_backward(static_cast<const T*>(matrix.data_ptr()),
                                               static_cast<const T*>(grad.data_ptr()), begin, end,
                                               classes, static_cast<T*>(grad_matrix.data_ptr()));
    });
  }

 private:
  // Calls kernel(begin, end, classes) in parallel over the rows of [..., C, C].
  template <class Kernel>
  static void for_rows(const Tensor& matrix, const Kernel& kernel) {
    const int64_t classes = matrix.size(-1);
    const Ranges ranges(matrix.numel() / classes, 4.0 * double(classes));
    ranges.run([&](int64_t, int64_t begin, int64_t end) { kernel(begin, end, classes); });
  }
};

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("project_transition",
         TORCH_BOX((&row_operator<ProjectTransitionRows, ProjectTransitionCpu>)));
  m.impl("project_transition_backward",
         TORCH_BOX((&row_operator_backward<ProjectTransitionRows, ProjectTransitionCpu>)));
}

}  // namespace ptd
