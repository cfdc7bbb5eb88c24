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

template <class S, class T, int V, class Team>
__device__ __forceinline__ void posterior_of(const LabelBatch<S>& batch, Share<T, V> share,
                                             int label, Team& team, T (&q)[V]) {
  open_column(label, share);
  T quotient[V];
  posterior(share, Smoothing<T>(batch), team, q, quotient);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (label == kBad) q[v] = not_a_number<T>();
  }
}

// sink(v, dL/dz, dL/du) for each of a thread's classes; grad_at(v), asked for
// twice, is dL/dq, zero beyond the last class.
template <class S, class T, int V, class GradAt, class Team, class Sink>
__device__ __forceinline__ void posterior_gradient(const LabelBatch<S>& batch, Share<T, V> share,
                                                   int label, const GradAt& grad_at, Team& team,
                                                   const Sink& sink) {
  open_column(label, share);
  T q[V], quotient[V];
  posterior(share, Smoothing<T>(batch), team, q, quotient);
  T dot = T(0);
#pragma unroll
  for (int v = 0; v < V; ++v) dot += grad_at(v) * q[v];
  const T mean = team.sum(dot);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const T above = grad_at(v) - mean;
    // A label that does not count has no column, and a bad one no gradient at all.
    sink(v, label == kBad ? T(0) : q[v] * above, label >= 0 ? quotient[v] * above : T(0));
  }
}

}  // namespace ptd
