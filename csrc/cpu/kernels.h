// The CPU kernels, one table per instruction set and accumulation type. Each handles samples, or
// rows, [begin, end) and is called from several threads on ranges of its own.
#pragma once

#include "batch.h"
#include "math/loss_terms.h"
#include "simplex/problems.h"
#include "views.h"

namespace ptd {

template <class T>
struct LossArgs {
  Batch<T> batch;
  Matrix logits;          // [N, C]
  Labels labels;          // [N]
  const T* class_weight;  // [C] or nullptr
  int64_t importance;     // Importance
  T max_importance;
  int64_t ignore_index;
  T smoothing;
};

// The contribution of one range to the reduced loss.
struct LossPartial {
  double loss;
  double weight;
  int64_t bad_sample;  // the first sample whose label is out of range, or -1
};

template <class T>
struct Kernels {
  int64_t lanes;  // of a vector of T

  // Numbers of scratch, of type T, that one call of a kernel below may use. Without `whole` it is
  // enough for clean_posterior and loss_alone. With `revised` it is enough for the gradients of
  // weights and parts with slack.
  static int64_t scratch_size(const Batch<T>& batch, bool whole, bool revised) {
    constexpr int64_t max_lanes = 16;
    const int64_t c = batch.classes, r = batch.parts;
    return kBlock * (r + c) + c + (whole ? kBlock * 4 * c : 0) +
           (revised ? kBlock * (c + 2 * r * max_lanes) : 0);
  }

  // Losses and gradients in one pass: the forward pass of training, with grad_loss one, and the
  // backward pass, which ignores the losses.
  void (*loss_with_gradients)(const LossArgs<T>&, int64_t begin, int64_t end, T* scratch,
                              const T* grad_loss,  // [1], or [N] with grad_stride 1
                              int64_t grad_stride,
                              T scale,         // of grad_loss: 1 / total weight for the mean
                              const T* saved,  // [end - begin, C], rows of loss_alone; or nullptr
                              const Gradients<T>&,
                              T* losses,      // [N] or nullptr
                              double* loss);  // the sum of the range's losses

  // The loss without gradients.
  void (*loss_alone)(const LossArgs<T>&, int64_t begin, int64_t end,
                     T* scratch,  //
                     T* losses,   // [N] or nullptr when only the sum is asked for
                     T* saved,    // [N, C]: column y, or the row sums where there is slack
                     LossPartial*);

  void (*clean_posterior)(const LossArgs<T>&, int64_t begin, int64_t end, T* scratch,
                          T* posterior,  // [N, C]
                          T* saved, LossPartial*);

  void (*clean_posterior_backward)(const LossArgs<T>&, int64_t begin, int64_t end, T* scratch,
                                   const T* grad,   // [N, C]
                                   const T* saved,  // [end - begin, C], as in loss_with_gradients
                                   const Gradients<T>&);

  void (*noisy_posterior)(const Batch<T>&, const Matrix& logits, int64_t begin, int64_t end,
                          T* scratch,
                          T* posterior,  // [N, C]
                          T* saved);     // [N, C] row sums; only with slack

  void (*noisy_posterior_backward)(const Batch<T>&, const Matrix& logits, int64_t begin,
                                   int64_t end, T* scratch, const T* grad,  // [N, C]
                                   const T* saved, const Gradients<T>&);

  void (*lay_out_columns)(const PartsView<T>&, int64_t begin, int64_t end,  // of R * C rows
                          const int32_t* column_index,  // [C] or nullptr, as in Batch
                          T* columns);                  // [C, R, C], or the columns with an index

  // The contraction of csrc/noisy_posterior.h.
  void (*contract_parts)(const T* d,             // [N, R, C]
                         const Matrix& weights,  // [N, R]
                         const T* softmax,       // [N, C]
                         int64_t parts, int64_t classes, int64_t begin, int64_t end,
                         T* row,            // [R], scratch
                         T* grad_softmax,   // [N, C] or nullptr
                         T* grad_weights);  // [N, R] or nullptr

  // Kernels of row_sums/sign_table.h. A table covers its own rows; the bounds hold for all samples.
  static int64_t sign_scratch_size(const Batch<T>& batch) {
    return (batch.parts + 16 + 1) * kSignSamples;
  }
  void (*weight_bounds)(const Batch<T>&, T* scratch, WeightBounds*);
  void (*fill_sign_table)(const Batch<T>&, const WeightBounds&, SignTable<T>*);
  void (*row_sums_by_sign)(const Batch<T>&, const SignTable<T>&, int64_t first, int64_t count,
                           T* scratch,
                           T* sums);  // [count, C]
  void (*slack_gradient_by_sign)(const Batch<T>&, const SignTable<T>&, int64_t count,
                                 const T* row_grad,  // [count, C]
                                 T* scratch, T* grad_slack);

  void (*project_transition)(const T* matrix, int64_t begin, int64_t end, int64_t classes,
                             T* projected);  // rows [begin, end) of [rows, C]

  void (*project_transition_backward)(const T* matrix, const T* grad, int64_t begin, int64_t end,
                                      int64_t classes, T* grad_matrix);

  // Each *_scratch is how many numbers, of type T, one call of the kernel after it may use.
  int64_t (*simplex_projection_scratch)(int64_t parts);
  void (*simplex_projection)(const T* x, int64_t begin, int64_t end, int64_t parts, T* scratch,
                             T* projected);  // rows [begin, end) of [N, R]

  void (*simplex_projection_backward)(const T* grad, const T* projected, int64_t begin, int64_t end,
                                      int64_t parts, T* grad_x);

  int64_t (*simplex_weights_scratch)(int64_t parts);
  void (*simplex_weights)(const WeightProblem<T>&, int64_t begin, int64_t end, T* scratch);

  int64_t (*simplex_least_squares_scratch)(int64_t parts, int64_t columns);
  void (*simplex_least_squares)(const LeastSquaresProblem<T>&, T* scratch);

  int64_t (*invert_posterior_scratch)(const InversionProblem<T>&);
  void (*invert_posterior)(const InversionProblem<T>&, int64_t begin, int64_t end, T* scratch);
};

// The table for the instruction set of this machine.
template <class T>
const Kernels<T>& kernels();

}  // namespace ptd
