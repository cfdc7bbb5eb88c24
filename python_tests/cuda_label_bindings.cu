// The launchers of the losses and of the clean posterior, for python_tests/cuda_labels.py.
#include "clean_posterior.h"
#include "row_sums.h"
#include "spread.h"
#include "transition_loss.h"

using namespace ptd;

#define BIND(name, S, T)                                                                           \
  static LabelBatch<S> batch_##name;                                                               \
  extern "C" void set_batch_##name(                                                                \
      const S* logits, int64_t logits_row_stride, int64_t logits_stride, const void* labels,       \
      int64_t label_stride, int64_t is_int64, const T* weights, int64_t weights_row_stride,        \
      int64_t weights_stride, const T* columns, const T* slack, int64_t slack_row_stride,          \
      int64_t slack_stride, T* row_sums, int64_t n, int64_t c, int64_t r, int64_t ignore_index,    \
      double smoothing) {                                                                          \
    batch_##name = {rows_of(logits, logits_row_stride, logits_stride, c),                          \
                    {labels, label_stride, is_int64 != 0},                                         \
                    rows_of(weights, weights_row_stride, weights_stride, r),                       \
                    columns,                                                                       \
                    slack,                                                                         \
                    slack_row_stride,                                                              \
                    slack_stride,                                                                  \
                    row_sums,                                                                      \
                    n,                                                                             \
                    int(c),                                                                        \
                    int(r),                                                                        \
                    ignore_index,                                                                  \
                    T(smoothing),                                                                  \
                    T(smoothing / double(c))};                                                     \
  }                                                                                                \
  extern "C" int64_t loss_workspace_##name() { return transition_loss_workspace(batch_##name); }   \
  extern "C" void loss_scratch_##name(int64_t* sizes) {                                            \
    const RowSumSizes found = transition_loss_scratch(batch_##name);                               \
    sizes[0] = found.table, sizes[1] = found.weights;                                              \
  }                                                                                                \
  extern "C" void posterior_scratch_##name(int64_t* sizes) {                                       \
    const RowSumSizes found = clean_posterior_scratch(batch_##name);                               \
    sizes[0] = found.table, sizes[1] = found.weights;                                              \
  }                                                                                                \
  extern "C" void row_sums_scratch_##name(int64_t* sizes) {                                        \
    const RowSumSizes found = row_sum_sizes(batch_##name);                                         \
    sizes[0] = found.table, sizes[1] = found.weights;                                              \
  }                                                                                                \
  extern "C" int64_t row_sums_##name(T* table, T* turned) {                                        \
    return launch_row_sums(without_logits(batch_##name), {table, turned}, nullptr);                \
  }                                                                                                \
  extern "C" int64_t loss_##name(const T* class_weight, int64_t importance, double max_importance, \
                                 T* losses, T* loss, T* total_weight, int64_t mean,                \
                                 void* workspace, T* table, T* turned) {                           \
    const LossRule<T> rule{class_weight, 1, importance, T(max_importance)};                        \
    const LossOutputs<T> out{losses, loss, total_weight, mean != 0, nullptr, nullptr};             \
    return launch_transition_loss(batch_##name, rule, out, workspace, {table, turned}, nullptr);   \
  }                                                                                                \
  extern "C" int64_t loss_backward_##name(                                                         \
      const T* class_weight, int64_t importance, double max_importance, const T* grad,             \
      int64_t grad_stride, const T* total_weight, S* logits, T* entry, T* row) {                   \
    const LossRule<T> rule{class_weight, 1, importance, T(max_importance)};                        \
    const LossGradients<S> grads{grad, grad_stride, total_weight, logits, {entry, row}};           \
    return launch_transition_loss_backward(batch_##name, rule, grads, nullptr);                    \
  }                                                                                                \
  extern "C" int64_t posterior_##name(T* posterior, T* table, T* turned) {                         \
    return launch_clean_posterior(batch_##name, posterior, {table, turned}, nullptr);              \
  }                                                                                                \
  extern "C" int64_t posterior_backward_##name(const T* grad, S* logits, T* entry, T* row) {       \
    const CleanPosteriorGradients<S> grads{grad, logits, {entry, row}};                            \
    return launch_clean_posterior_backward(batch_##name, grads, nullptr);                          \
  }                                                                                                \
  extern "C" int64_t spread_scratch_##name(T* weights, T* columns, T* slack) {                     \
    return spread_scratch(without_logits(batch_##name),                                            \
                          SpreadOutputs<T>{weights, columns, slack, 0, 0});                        \
  }                                                                                                \
  extern "C" int64_t spread_##name(T* entry, T* row, T* weights, T* columns, T* slack,             \
                                   T* scratch) {                                                   \
    const int64_t classes = batch_##name.classes;                                                  \
    return launch_spread(without_logits(batch_##name), ColumnGradient<T>{entry, row},              \
                         SpreadOutputs<T>{weights, columns, slack, classes, 1}, scratch, nullptr); \
  }

BIND(float32, float, float)
BIND(float64, double, double)
BIND(float16, Half, float)
BIND(bfloat16, BFloat16, float)
