// The schemas of the operators. `parts` is [R, C, C] (or [C, C] without weights) in any layout. The
// fastest layout has contiguous columns, strides (C, 1, R * C); the gradient of `parts` has it.
//
// Outputs that only the backward operator needs are named saved_*; a gradient that was not asked
// for is an empty tensor. `importance` and `reduction` are enumerations: see
// csrc/transition_loss.h and csrc/math/loss_terms.h.
//
// transition_loss_with_gradients is what training runs on the CPU: the loss and its gradients with
// respect to logits and slack, in one pass. Without a reduction each row of grad_logits is the
// gradient of its own loss, and there is no grad_slack. transition_loss computes the loss alone,
// for inference, for GPUs, and where gradients of weights or parts are to follow.
#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(ptd_ext, m) {
  m.def(
      "transition_loss(Tensor logits, Tensor noisy_labels, Tensor? weights, Tensor parts, "
      "Tensor? slack, Tensor? class_weight, int importance, "
      "float? max_importance, int reduction, int ignore_index, float smoothing) "
      "-> (Tensor loss, Tensor saved_weight, Tensor saved_column)");
  m.def(
      "transition_loss_backward(Tensor grad_loss, Tensor logits, Tensor noisy_labels, "
      "Tensor? weights, Tensor parts, Tensor? slack, Tensor? class_weight, "
      "Tensor saved_weight, Tensor saved_column, int importance, float? max_importance, "
      "int reduction, int ignore_index, float smoothing, bool need_logits, bool need_weights, bool "
      "need_parts, "
      "bool need_slack) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "transition_loss_with_gradients(Tensor logits, Tensor noisy_labels, Tensor? weights, "
      "Tensor parts, Tensor? slack, Tensor? class_weight, int importance, "
      "float? max_importance, int reduction, int ignore_index, float smoothing, "
      "bool need_slack) -> (Tensor loss, Tensor grad_logits, Tensor grad_slack)");
  m.def(
      "clean_posterior(Tensor logits, Tensor noisy_labels, Tensor? weights, Tensor parts, "
      "Tensor? slack, int ignore_index, float smoothing) "
      "-> (Tensor posterior, Tensor saved_column)");
  m.def(
      "clean_posterior_backward(Tensor grad, Tensor logits, Tensor noisy_labels, "
      "Tensor? weights, Tensor parts, Tensor? slack, Tensor saved_column, int ignore_index, "
      "float smoothing, bool need_logits, bool need_weights, bool need_parts, bool need_slack) "
      "-> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "noisy_posterior(Tensor logits, Tensor? weights, Tensor parts, Tensor? slack) "
      "-> (Tensor posterior, Tensor saved_row_sum)");
  m.def(
      "noisy_posterior_backward(Tensor grad, Tensor logits, Tensor? weights, Tensor parts, "
      "Tensor? slack, Tensor saved_row_sum, bool need_logits, bool need_weights, "
      "bool need_parts, bool need_slack) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("project_transition(Tensor matrix) -> Tensor");
  m.def("project_transition_backward(Tensor grad, Tensor matrix) -> Tensor");
  m.def("simplex_projection(Tensor x) -> Tensor");
  m.def("simplex_projection_backward(Tensor grad, Tensor projected) -> Tensor");
  m.def(
      "simplex_weights(Tensor contraction, Tensor step, Tensor shift, Tensor linear, "
      "Tensor? start, int max_iter, float tol) -> Tensor");
  m.def("simplex_least_squares(Tensor gram, Tensor right) -> Tensor");
  m.def(
      "invert_posterior(Tensor probs, Tensor? weights, Tensor parts, int max_iter, float tol) "
      "-> Tensor");
}
