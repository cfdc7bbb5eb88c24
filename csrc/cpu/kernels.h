// The CPU kernels, one table per instruction set and accumulation type. Each handles samples
// [begin, end) and is called from several threads on ranges of its own.
#pragma once

#include "../math/loss_terms.h"
#include "batch.h"
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

// What one range adds to the reduced loss.
struct LossPartial {
  double loss;
  double weight;
  int64_t bad_sample;  // the first sample whose label is out of range, or -1
};

// How many whole matrices noisy_posterior keeps at a time, in numbers that leave the second-level
// cache room for the parts; zero where not even a few fit.
constexpr int64_t matrices_at_a_time(int64_t classes) {
  constexpr int64_t kNumbers = int64_t(1) << 17, kFewest = 4;
  const int64_t fit = kNumbers / (classes * classes);
  return fit < kFewest ? 0 : fit < kBlock ? fit : kBlock;
}

template <class T>
struct Kernels {
  // Numbers of scratch, of type T, that one call of a kernel below may use; not `whole` is enough
  // for loss_forward and clean_posterior.
  static int64_t scratch_size(const Batch<T>& batch, bool whole) {
    const int64_t c = batch.classes, r = batch.parts;
    const int64_t decided = batch.decided ? kWideBlock * (r + c) : 0;
    return decided + batch.block * (r + c) + c + (whole ? batch.block * 3 * c + c : 0);
  }

  void (*loss_forward)(const LossArgs<T>&, int64_t begin, int64_t end,
                       T* scratch,  //
                       T* losses,   // [N] or nullptr when only the sum is asked for
                       T* saved,    // [N, C]: column y, or the row sums where there is slack
                       LossPartial*);

  void (*loss_backward)(const LossArgs<T>&, int64_t begin, int64_t end, T* scratch,
                        const T* grad_loss,  // [1], or [N] with grad_stride 1
                        int64_t grad_stride,
                        T scale,         // of grad_loss: 1 / total weight for the mean
                        const T* saved,  // [N, C] from loss_forward
                        const Gradients<T>&);

  void (*clean_posterior)(const LossArgs<T>&, int64_t begin, int64_t end, T* scratch,
                          T* posterior,  // [N, C]
                          T* saved, LossPartial*);

  void (*clean_posterior_backward)(const LossArgs<T>&, int64_t begin, int64_t end, T* scratch,
                                   const T* grad,  // [N, C]
                                   const T* saved, const Gradients<T>&);

  void (*noisy_posterior)(const Batch<T>&, const Matrix& logits, int64_t begin, int64_t end,
                          T* scratch,
                          T* matrices,   // [matrices_at_a_time, C, C] or nullptr
                          T* posterior,  // [N, C]
                          T* saved);     // [N, C] row sums; only with slack

  void (*noisy_posterior_backward)(const Batch<T>&, const Matrix& logits, int64_t begin,
                                   int64_t end, T* scratch, const T* grad,  // [N, C]
                                   const T* saved, const Gradients<T>&);

  void (*weighted_sum)(const T* y,             // [N, C, R]
                       const Matrix& weights,  // [N, R]
                       int64_t parts, int64_t classes, int64_t begin, int64_t end,
                       T* row,   // [R], scratch
                       T* out);  // [N, C]

  // For support.h and decided.h: rows [begin, end), but for the bounds, which are of all samples.
  void (*weight_bounds)(const Batch<T>&, T* scratch, WeightBounds*);
  bool (*count_support)(const Batch<T>&, int64_t begin, int64_t end, int32_t* entries,  // [C]
                        int32_t* nonzeros);                                             // [C]
  void (*fill_support)(const Batch<T>&, int64_t begin, int64_t end, int32_t* next,      // [C], zero
                       Support<T>*);
  void (*decide)(const Batch<T>&, const WeightBounds&, int64_t begin, int64_t end,
                 T* linear,  // [R], scratch
                 Decided<T>*);
  void (*finish_decided_slack)(const Decided<T>&, int64_t classes, const T* row_sum, T* grad_slack);

  void (*project)(const T* matrix, int64_t begin, int64_t end, int64_t classes,
                  T* projected);  // rows [begin, end) of [rows, C]

  void (*project_backward)(const T* matrix, const T* grad, int64_t begin, int64_t end,
                           int64_t classes, T* grad_matrix);
};

// For the instruction set of this machine.
template <class T>
const Kernels<T>& kernels();

}  // namespace ptd
