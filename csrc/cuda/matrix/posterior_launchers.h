// Launchers of noisy_posterior, P(noisy label | x) = T(x)^T g with g = softmax(z). S is the type of
// the logits: float, double, Half or BFloat16; T the accumulation type. N is positive.
//
// Few classes of float take one fused kernel each for forward and backward. More classes, and
// doubles, use torch's matrix products (csrc/noisy_posterior.h), and with slack the launchers
// below, from launch_softmax_over_rows on.
#pragma once

#include "common/device.h"
#include "common/transition.h"
#include "common/tuning.h"

namespace ptd {

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
                                            const PosteriorGradients<S>& grads,
                                            cudaStream_t stream);

// scaled_i = g_i / r_i, zero for an empty row; uniform = sum of g_i / C over the empty rows
// (math/revision.h).
template <class S>
cudaError_t launch_softmax_over_rows(const Rows<const S>& logits,
                                     const Accumulation<S>* row_sums,  // r, [N, C]
                                     Accumulation<S>* scaled,          // [N, C]
                                     Accumulation<S>* uniform,         // [N]
                                     int64_t samples, int64_t classes, cudaStream_t stream);

// dz and the factors of dL/dM from row_dots_i = sum_k max(M_ik, 0) grad_k.
template <class S>
cudaError_t launch_noisy_posterior_gradients(const Rows<const S>& logits,
                                             const Accumulation<S>* row_sums,  // [N, C]
                                             const Accumulation<S>* row_dots,  // [N, C]
                                             const PosteriorGradients<S>& grads, int64_t samples,
                                             int64_t classes, cudaStream_t stream);

#endif

}  // namespace ptd
