#include "noisy_posterior.h"

#include "common/transition_glue.h"
#include "gradients/backward.h"
#include "matrix/posterior_launchers.h"
#include "row_sums/row_sums_glue.h"

namespace ptd {
namespace {

constexpr const char* kOp = "noisy_posterior";

// The plan of the fused kernels, if the batch fits them. There are none for doubles.
template <class S>
std::optional<FusedPosteriorPlan> fused_plan(const Sizes& sizes) {
  const FusedPosteriorPlan plan(sizes.samples, sizes.classes, sizes.parts);
  if (std::is_same_v<S, double> || !plan.fits) return {};
  return plan;
}

// The entries of T(x) + slack that are positive in every sample, as parts with weights
// (csrc/noisy_posterior.h); the sign table names the others.
template <class T>
struct SplitTransition {
  Tensor positive;  // [R + 1, C, C]: the parts and the slack, zero at other entries
  Tensor weights;   // [N, R + 1]: those of the parts, and one
  SignTableMemory<T> signs;

  SplitTransition(const Sizes& sizes, const Transition<T>& transition,
                  const OptionalTensor& given_weights, const Tensor& beside, ScalarType dtype,
                  cudaStream_t stream)
      : positive(empty_strided({sizes.parts + 1, sizes.classes, sizes.classes},
                               {sizes.classes, 1, (sizes.parts + 1) * sizes.classes}, dtype,
                               beside)),
        weights(empty({sizes.samples, sizes.parts + 1}, dtype, beside)),
        signs(kOp, transition, dtype, beside, &positive, stream) {
    torch::stable::fill_(weights, 1.0);
    if (!given_weights) return;
    Tensor of_parts =
        aten::view(weights, {sizes.samples, sizes.parts}, {sizes.parts + 1, int64_t(1)});
    torch::stable::copy_(of_parts, *given_weights);
  }

  PartsProduct<TorchContraction> product(const Sizes& sizes, const Tensor& factors) const {
    return {{sizes.samples, sizes.classes, sizes.parts + 1}, factors, weights, positive};
  }
};

// out_k = sum_i g_i / r_i max(M_ik, 0), plus the mass of the empty rows (math/revision.h), which
// are uniform.
template <class S>
Tensor forward_with_slack(const Sizes& sizes, const Tensor& logits,
                          const Transition<Accumulation<S>>& transition,
                          const OptionalTensor& weights, const Tensor& parts,
                          const Tensor& row_sums, cudaStream_t stream) {
  using T = Accumulation<S>;
  const ScalarType dtype = parts.scalar_type();
  const SplitTransition<T> split(sizes, transition, weights, logits, dtype, stream);
  const ClampedRows<T> sums{nullptr, nullptr, pointer<T>(row_sums)};
  check_launch(kOp, launch_row_sums(transition, split.signs.table, sums, stream));
  const Tensor scaled = empty({sizes.samples, sizes.classes}, dtype, logits);
  const Tensor uniform = empty({sizes.samples}, dtype, logits);
  check_launch(kOp, launch_softmax_over_rows(rows_of<S>(logits), pointer<const T>(row_sums),
                                             pointer<T>(scaled), pointer<T>(uniform), sizes.samples,
                                             sizes.classes, stream));
  const Tensor posterior = split.product(sizes, scaled).forward();

  // The same kernel adds the other entries: a column of T(x) is a row of its transpose.
  const Tensor rows = parts_by_row(parts);
  Transition<T> transposed = transition;
  transposed.columns = pointer<const T>(rows);
  transposed.slack = {transition.slack.data, transition.slack.stride, transition.slack.row_stride};
  const SignTableMemory<T> signs(kOp, transposed, dtype, logits, nullptr, stream);
  const ClampedRows<T> columns{pointer<const T>(scaled), pointer<const T>(uniform),
                               pointer<T>(posterior)};
  check_launch(kOp, launch_row_sums(transposed, signs.table, columns, stream));
  return posterior;
}

// Computes row_dots_i = sum_k max(M_ik, 0) G_k, and the gradients from row_dots.
template <class S>
cudaError_t backward_with_slack(const Sizes& sizes, const Tensor& logits,
                                const Transition<Accumulation<S>>& transition,
                                const OptionalTensor& weights, const Tensor& grad,
                                const Tensor& row_sums, const PosteriorGradients<S>& grads,
                                cudaStream_t stream) {
  using T = Accumulation<S>;
  const ScalarType dtype = grad.scalar_type();
  const SplitTransition<T> split(sizes, transition, weights, logits, dtype, stream);
  const Tensor row_dots = empty({sizes.samples, sizes.classes}, dtype, logits);
  // The gradient of factors does not depend on them; any tensor of their size stands for them.
  split.product(sizes, grad).contract(grad, row_dots, empty({0}, dtype, logits));
  const ClampedRows<T> dots{grads.grad, nullptr, pointer<T>(row_dots)};
  check_launch(kOp, launch_row_sums(transition, split.signs.table, dots, stream));
  return launch_noisy_posterior_gradients(rows_of<S>(logits), pointer<const T>(row_sums),
                                          pointer<const T>(row_dots), grads, sizes.samples,
                                          sizes.classes, stream);
}

std::tuple<Tensor, Tensor> noisy_posterior(Tensor logits, OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack) {
  const Sizes sizes = check_batch(kOp, logits, weights, parts, slack);
  const ScalarType dtype = parts.scalar_type();
  const Tensor row_sums = empty_saved(sizes, logits, dtype, slack.has_value());
  const OnDevice device(logits);
  return with_storage(logits, [&]<class S>() -> std::tuple<Tensor, Tensor> {
    using T = Accumulation<S>;
    const auto plan = fused_plan<S>(sizes);
    if (!plan && !slack) {
      return {NoisyPosteriorProduct(sizes, logits, weights, parts).forward(), row_sums};
    }
    Tensor posterior = empty({sizes.samples, sizes.classes}, dtype, logits);
    if (sizes.samples == 0) return {posterior, row_sums};
    const TransitionInputs<T> inputs(sizes, weights, parts, slack);
    if (!plan) {
      posterior = forward_with_slack<S>(sizes, logits, inputs.view, weights, parts, row_sums,
                                        device.stream());
    } else if constexpr (!std::is_same_v<S, double>) {
      check_launch(
          kOp, launch_fused_posterior(*plan, rows_of<S>(logits), inputs.view, pointer<T>(posterior),
                                      pointer<T>(row_sums), device.stream()));
    }
    return {posterior, row_sums};
  });
}

FourTensors noisy_posterior_backward(Tensor grad, Tensor logits, OptionalTensor weights,
                                     Tensor parts, OptionalTensor slack, Tensor saved_row_sum,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const Sizes sizes = check_batch(kOp, logits, weights, parts, slack);
  check_noisy_posterior_backward(sizes, grad, parts, slack, saved_row_sum);
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  const OnDevice device(logits);
  const Tensor dense_grad = torch::stable::contiguous(grad);
  const Tensor row_sums = torch::stable::contiguous(saved_row_sum);
  return with_storage(logits, [&]<class S>() {
    using T = Accumulation<S>;
    const auto plan = fused_plan<S>(sizes);
    if (!slack && (!plan || needs.transition())) {
      return NoisyPosteriorProduct(sizes, logits, weights, parts).backward(dense_grad, needs);
    }
    const TransitionInputs<T> inputs(sizes, weights, parts, slack);
    const auto launch = [&](S* grad_logits, const MatrixGradient<T>& matrix) {
      const PosteriorGradients<S> grads{pointer<const T>(dense_grad), grad_logits, matrix};
      if constexpr (!std::is_same_v<S, double>) {
        if (plan) {
          return launch_fused_posterior_backward(*plan, rows_of<S>(logits), inputs.view, grads,
                                                 device.stream());
        }
      }
      return backward_with_slack<S>(sizes, logits, inputs.view, weights, dense_grad, row_sums,
                                    grads, device.stream());
    };
    return backward_through_matrix<S>(kOp, sizes, logits, parts, slack, inputs.view, Labels{},
                                      dense_grad, needs, device.stream(), launch);
  });
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("noisy_posterior", TORCH_BOX(&noisy_posterior));
  m.impl("noisy_posterior_backward", TORCH_BOX(&noisy_posterior_backward));
}

}  // namespace ptd
