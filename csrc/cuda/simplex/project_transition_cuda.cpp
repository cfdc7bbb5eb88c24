#include "project_transition.h"

#include "common/torch_glue.h"
#include "simplex/simplex_launchers.h"

namespace ptd {
namespace {

struct ProjectTransitionCuda {
  template <class T>
  static void forward(const Tensor& matrix, const Tensor& projected) {
    const int64_t classes = matrix.size(-1);
    const OnDevice device(matrix);
    check_launch("project_transition",
                 launch_project_transition(pointer<const T>(matrix), pointer<T>(projected),
                                           matrix.numel() / classes, classes, device.stream()));
  }

  template <class T>
  static void backward(const Tensor& grad, const Tensor& matrix, const Tensor& grad_matrix) {
    const int64_t classes = matrix.size(-1);
    const OnDevice device(matrix);
    check_launch("project_transition_backward",
                 launch_project_transition_backward(
                     pointer<const T>(grad), pointer<const T>(matrix), pointer<T>(grad_matrix),
                     matrix.numel() / classes, classes, device.stream()));
  }
};

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("project_transition",
         TORCH_BOX((&row_operator<ProjectTransitionRows, ProjectTransitionCuda>)));
  m.impl("project_transition_backward",
         TORCH_BOX((&row_operator_backward<ProjectTransitionRows, ProjectTransitionCuda>)));
}

}  // namespace ptd
