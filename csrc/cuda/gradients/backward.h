// The part of the backward pass that all operators on T(x) + slack share.
#pragma once

#include "common/transition_glue.h"
#include "gradient_tensors.h"
#include "gradients/gradient_launchers.h"

namespace ptd {

// launch(grad_logits, matrix) computes the gradient of the logits, and the factors of dL/dM if
// other gradients need them; those follow from the factors. `column` is the dense column factor
// [N, C]; without it column_k = [k = y], from the labels.
template <class S, class Launch>
FourTensors backward_through_matrix(const char* op, const Sizes& sizes, const Tensor& logits,
                                    const Tensor& parts, const OptionalTensor& slack,
                                    const Transition<Accumulation<S>>& transition,
                                    const Labels& labels, const OptionalTensor& column,
                                    const Needs& needs, cudaStream_t stream, const Launch& launch) {
  using T = Accumulation<S>;
  const ScalarType dtype = parts.scalar_type();
  const GradientTensors grads(sizes, logits, parts, slack, needs);
  if (sizes.samples == 0 && !needs.parts && !needs.slack) return grads.tuple();

  MatrixGradient<T> matrix{};
  Tensor entry, row;
  if (needs.transition()) {
    entry = empty({sizes.samples, sizes.classes}, dtype, logits);
    matrix.entry = pointer<T>(entry);
    if (slack) {
      row = empty({sizes.samples, sizes.classes}, dtype, logits);
      matrix.row = pointer<T>(row);
    }
    if (column) matrix.column = pointer<const T>(*column);
  }
  if (sizes.samples > 0) {
    check_launch(op, launch(needs.logits ? pointer<S>(grads.logits) : nullptr, matrix));
  }
  if (!needs.transition()) return grads.tuple();

  TransitionGradients<T> out{};
  if (needs.weights) out.weights = pointer<T>(grads.weights);
  if (needs.parts) out.columns = pointer<T>(grads.parts);
  if (needs.slack) {
    out.slack = {pointer<T>(grads.slack), grads.slack.stride(0), grads.slack.stride(1)};
  }
  const GradientPlan plan(transition, out);
  const Tensor scratch = empty({plan.scratch()}, dtype, logits);
  check_launch(op, launch_transition_gradients(plan, transition, labels, matrix, out,
                                               pointer<T>(scratch), stream));
  return grads.tuple();
}

}  // namespace ptd
