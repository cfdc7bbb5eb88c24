// Launchers of noisy_posterior. Z is the type of the logits: float, double, Half or BFloat16; T is
// the one it is accumulated in.
#pragma once

#include "storage.h"
#include "transition_batch.h"

namespace ptd {

// The weights of four samples, as doubles, must fit the shared memory of a block of four warps of
// which eight fit a multiprocessor of a V100 at once (blocks.h).
constexpr int64_t kMostPosteriorParts = 320;

// Which of TransitionBatch's pointers the launchers follow.
struct PartsLayout {
  bool columns;  // columns and slack
  bool rows;     // rows and slack_rows
};

// `transition`: whether gradients of more than the logits are wanted. Of the batch it counts
// whether there is slack, in whichever layout, and not where pointers point.
template <class T>
PartsLayout noisy_posterior_layout(const TransitionBatch<T>& batch, bool forward, bool transition);

// Numbers of scratch that the forward launcher needs.
template <class T>
int64_t noisy_posterior_scratch(const TransitionBatch<T>& batch);

template <class Z, class T>
cudaError_t launch_noisy_posterior(const TransitionBatch<T>& batch,
                                   const Z* logits,  // [N, C]
                                   T* posterior,     // [N, C]
                                   T* row_sums,      // [N, C], written with slack
                                   T* scratch, cudaStream_t stream);

// Where gradients go; nullptr where one is not wanted.
template <class Z, class T>
struct PosteriorGradients {
  Z* logits;   // [N, C]
  T* weights;  // [N, R]
  T* columns;  // [C, R, C]: of the parts, in their layout
  T* slack;    // [C, C], with these strides
  int64_t slack_row_stride, slack_column_stride;
};

// Numbers of scratch that the backward launcher needs for gradients of all kinds.
template <class T>
int64_t noisy_posterior_backward_scratch(const TransitionBatch<T>& batch);

// N = 0 is allowed: gradients of parts and slack are then zero.
template <class Z, class T>
cudaError_t launch_noisy_posterior_backward(const TransitionBatch<T>& batch,
                                            const Z* logits,    // [N, C]
                                            const T* grad,      // [N, C]
                                            const T* row_sums,  // [N, C], read with slack
                                            const PosteriorGradients<Z, T>& grads, T* scratch,
                                            cudaStream_t stream);

}  // namespace ptd
