// Launchers of noisy_posterior, P(noisy label | x) = T(x)^T g with g = softmax(z). S is the type of
// the logits: float, double, Half or BFloat16; T the accumulation type. N is positive.
//
// Few classes of float take one fused kernel each way. More of them, and doubles, are torch's
// matrix product without slack (csrc/noisy_posterior.h); with slack they take the launchers from
// softmax_over_rows on.
#pragma once

#include "common/device.h"
#include "common/transition.h"
#include "common/tuning.h"

namespace ptd {

// The arguments of the backward pass, and its results; absent ones are nullptr.
template <class S>
struct NoisyPosteriorGradients {
  using T = Accumulation<S>;

  const T* grad;             // [N, C], with respect to the posterior
  S* logits;                 // [N, C]
  MatrixGradient<T> matrix;  // its column is grad
};

// The product of [N, B] factors with the clamped matrix, entry (b, a) of which is
// max(slack(b, a) + sum_j h_j matrices[b][j][a], 0).
template <class T>
struct ClampedProduct {
  Rows<const T> weights;  // h, [N, R]; absent: one part of weight one
  const T* matrices;      // [B, R, A]
  Rows<const T> slack;    // [B, A]
  const T* factors;       // [N, B]
  const T* start;         // [N] to add the product to, or nullptr
  T* out;                 // [N, A]
  int64_t samples;
  int classes, parts;  // B = A = C, R
};

#ifndef __CUDACC_RTC__

// The launch of the fused kernels, if the batch fits them.
struct FusedPosteriorPlan {
  bool fits;
  unsigned blocks;
  size_t shared;  // bytes: the parts, and the weights of a block's samples

  FusedPosteriorPlan(int64_t samples, int64_t classes, int64_t parts);
};

template <class S>
cudaError_t launch_fused_posterior(const FusedPosteriorPlan& plan, const Rows<const S>& logits,
                                   const Transition<Accumulation<S>>& transition,
                                   Accumulation<S>* posterior,  // [N, C]
                                   Accumulation<S>* row_sums,   // [N, C], with slack
                                   cudaStream_t stream);

template <class S>
cudaError_t launch_fused_posterior_backward(const FusedPosteriorPlan& plan,
                                            const Rows<const S>& logits,
                                            const Transition<Accumulation<S>>& transition,
                                            const NoisyPosteriorGradients<S>& grads,
                                            cudaStream_t stream);

// scaled_i = g_i / r_i, zero where r_i = 0; uniform = sum of g_i / C over the rows with r_i = 0.
template <class S>
cudaError_t launch_softmax_over_rows(const Rows<const S>& logits,
                                     const Accumulation<S>* row_sums,  // r, [N, C]
                                     Accumulation<S>* scaled,          // [N, C]
                                     Accumulation<S>* uniform,         // [N]
                                     int64_t samples, int64_t classes, cudaStream_t stream);

template <class T>
cudaError_t launch_clamped_product(const ClampedProduct<T>& product, cudaStream_t stream);

// dz and the factors of dL/dM from pulled_i = sum_k max(M_ik, 0) grad_k.
template <class S>
cudaError_t launch_posterior_gradients(const Rows<const S>& logits,
                                       const Accumulation<S>* row_sums,  // [N, C]
                                       const Accumulation<S>* pulled,    // [N, C]
                                       const NoisyPosteriorGradients<S>& grads, int64_t samples,
                                       int64_t classes, cudaStream_t stream);

#endif

}  // namespace ptd
