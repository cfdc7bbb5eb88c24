#include "clean_posterior.h"

#include "column/column_glue.h"
#include "gradients/backward.h"

namespace ptd {
namespace {

constexpr const char* kOp = "clean_posterior";

struct CleanPosteriorCuda : ColumnDevice {
  static void forward(const Sizes& sizes, const CleanPosteriorTensors& tensors,
                      const Tensor& posterior, const Tensor& saved_column) {
    const OnDevice device(tensors.logits);
    with_storage(tensors.logits, [&]<class S>() {
      using T = Accumulation<S>;
      const ColumnInputs<S> inputs(sizes, tensors, saved_column, tensors.ignore_index,
                                   tensors.smoothing);
      if (tensors.slack) {
        write_row_sums(kOp, inputs.transition.view, saved_column, device.stream());
      }
      check_launch(kOp, launch_clean_posterior(inputs.plan, inputs.batch, pointer<T>(posterior),
                                               device.stream()));
    });
  }

  static FourTensors backward(const Sizes& sizes, const Tensor& grad,
                              const CleanPosteriorTensors& tensors, const Tensor& saved_column,
                              const Needs& needs) {
    const OnDevice device(tensors.logits);
    const Tensor row_sums = torch::stable::contiguous(saved_column);
    return with_storage(tensors.logits, [&]<class S>() {
      using T = Accumulation<S>;
      const ColumnInputs<S> inputs(sizes, tensors, row_sums, tensors.ignore_index,
                                   tensors.smoothing);
      const auto launch = [&](S* grad_logits, const MatrixGradient<T>& matrix) {
        const PosteriorGradients<S> grads{pointer<const T>(grad), grad_logits, matrix};
        return launch_clean_posterior_backward(inputs.plan, inputs.batch, grads, device.stream());
      };
      return backward_through_matrix<S>(kOp, sizes, tensors.logits, tensors.parts, tensors.slack,
                                        inputs.transition.view, inputs.batch.labels, {}, needs,
                                        device.stream(), launch);
    });
  }
};

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("clean_posterior", TORCH_BOX(&clean_posterior<CleanPosteriorCuda>));
  m.impl("clean_posterior_backward", TORCH_BOX(&clean_posterior_backward<CleanPosteriorCuda>));
}

}  // namespace ptd
