// The clean posterior of a sample that a team of threads holds, and its gradient:
//
//   q = softmax(z + log u),   dL/dz_i = q_i (G_i - <G, q>),   dL/du_i = dL/dz_i / u_i
#pragma once

#include "clean_posterior_args.h"
#include "column.cuh"

namespace ptd {

// Replaces the column of an ignored sample.
template <class T, int V>
__device__ __forceinline__ void open_column(int label, Share<T, V>& share) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (label == kIgnored) share.column[v] = T(1);
  }
}

// sink(v, q) for each of a thread's classes.
template <bool kKept = true, class S, class T, int V, class Team, class Sink>
__device__ __forceinline__ void posterior_of(const LabelBatch<S>& batch, Share<T, V> share,
                                             int label, Team& team, const Sink& sink) {
  open_column(label, share);
  const Smoothing<T> smooth(batch);
  const Posterior<T, V, kKept> posterior(share, smooth, team);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    sink(v, label == kBad ? not_a_number<T>() : posterior.q(share, smooth, v));
  }
}

// of_logits(v, dL/dz) and of_column(v, dL/du) for each of a thread's classes, in the order of v,
// the latter only if it is asked for or comes for free. grad_at(v), asked for several times in the
// order of v, is dL/dq, zero beyond the last class.
template <bool kKept = true, class S, class T, int V, class GradAt, class Team, class OfLogits,
          class OfColumn>
__device__ __forceinline__ void posterior_gradient(const LabelBatch<S>& batch, Share<T, V> share,
                                                   int label, const GradAt& grad_at,
                                                   bool column_wanted, Team& team,
                                                   const OfLogits& of_logits,
                                                   const OfColumn& of_column) {
  open_column(label, share);
  const Smoothing<T> smooth(batch);
  Posterior<T, V, kKept> posterior(share, smooth, team);
  ShareSum<T, V, Team::kRuns> dot;
#pragma unroll
  for (int v = 0; v < V; ++v) dot.add_product(v, grad_at(v), posterior.q(share, smooth, v));
  const T mean = team.sum(dot.sum());
  posterior.e.forget();
  // A label that does not count has no column, and a bad one no gradient at all.
  const auto grad_u = [&](int v, T above) {
    return label >= 0 ? posterior.quotient(share, v, above) : T(0);
  };
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const T above = grad_at(v) - mean;
    of_logits(v, label == kBad ? T(0) : posterior.q(share, smooth, v) * above);
    if (kKept) of_column(v, grad_u(v, above));
  }
  if (kKept || !column_wanted) return;
  posterior.e.forget();
#pragma unroll
  for (int v = 0; v < V; ++v) of_column(v, grad_u(v, grad_at(v) - mean));
}

}  // namespace ptd
