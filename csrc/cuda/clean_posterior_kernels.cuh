// P(Y | x, noisy label): q = softmax(z + log u), u column y of T(x), forward and backward in one
// launch each, for many classes or doubles; see clean_posterior_narrow_kernels.cuh for few. A
// sample whose label is ignored keeps its softmax, which is q for a constant column.
//
//   dL/dz_i = q_i (G_i - <G, q>),   dL/du_i = dL/dz_i / u_i
//
// Bytes that must move, s = 4 for float and 8 for double, l = 2 for the sixteen-bit logits, else s:
//   forward    N (l C + s C + s R + 8) + s R C^2       with slack + s (N C + C^2), the row sums
//   backward   N (2 l C + s C + s R + 8) + s R C^2     with slack + s (N C + C^2)
//
// Thread mappings: a warp per label and stretch of samples up to 128 classes (grouped.cuh), which
// moves what must move, and from L2 the labels C times and the parts once per chunk; a block per
// sample (wide.cuh), with column y from L2 for each.
#pragma once

#include "clean_posterior_sample.cuh"
#include "grouped.cuh"
#include "wide.cuh"

namespace ptd {

template <class S, int V, bool kVector>
__global__ void __launch_bounds__(kGroupedThreads, 8)
    clean_posterior_grouped(LabelBatch<S> batch,
                            Accumulation<S>* result,  // [N, C]
                            int chunks, int stretch) {
  using T = Accumulation<S>;
  WarpTeam<T> team;
  for_each_grouped<S, V, kVector, 1>(
      batch, chunks, stretch, [&](int64_t n, int label, const Share<T, V>& share) {
        T q[V];
        posterior_of(batch, share, label, team, q);
        store_lane<T, V, kVector>(q, batch.classes, result + n * batch.classes);
      });
}

template <class S, int V>
__global__ void __launch_bounds__(kWideThreads)
    clean_posterior_wide(LabelBatch<S> batch,
                         Accumulation<S>* result) {  // [N, C]
  using T = Accumulation<S>;
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    T q[V];
    posterior_of(batch, share, class_label(batch, n), team, q);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = share.index(v);
      if (i < batch.classes) result[n * batch.classes + i] = q[v];
    }
  });
}

template <class S, int V, bool kVector>
__global__ void __launch_bounds__(kGroupedThreads, 8)
    clean_posterior_backward_grouped(LabelBatch<S> batch, CleanPosteriorGradients<S> grads,
                                     int chunks, int stretch) {
  using T = Accumulation<S>;
  WarpTeam<T> team;
  for_each_grouped<S, V, kVector, 1>(
      batch, chunks, stretch, [&](int64_t n, int label, const Share<T, V>& share) {
        T grad_z[V];
        T given[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const int i = share.index(v);
          given[v] = i < batch.classes ? grads.grad[n * batch.classes + i] : T(0);
        }
        const auto grad_at = [&](int v) { return given[v]; };
        posterior_gradient(batch, share, label, grad_at, team, [&](int v, T dz, T du) {
          grad_z[v] = dz;
          write_factors(batch, grads.column, share, n, v, du);
        });
        if (grads.logits) {
          store_lane<T, V, kVector>(grad_z, batch.classes, grads.logits + n * batch.classes);
        }
      });
}

template <class S, int V>
__global__ void __launch_bounds__(kWideThreads)
    clean_posterior_backward_wide(LabelBatch<S> batch, CleanPosteriorGradients<S> grads) {
  using T = Accumulation<S>;
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    T given[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = share.index(v);
      given[v] = i < batch.classes ? grads.grad[n * batch.classes + i] : T(0);
    }
    const auto grad_at = [&](int v) { return given[v]; };
    posterior_gradient(batch, share, class_label(batch, n), grad_at, team, [&](int v, T dz, T du) {
      const int i = share.index(v);
      if (grads.logits && i < batch.classes) store(grads.logits + n * batch.classes + i, dz);
      write_factors(batch, grads.column, share, n, v, du);
    });
  });
}

// ---- All that is launched, for a compiler that has no launches to see

#ifdef __CUDACC_RTC__

#define PTD_GROUPED(S, V, kVector)                                                                 \
  template __global__ void clean_posterior_grouped<S, V, kVector>(LabelBatch<S>, Accumulation<S>*, \
                                                                  int, int);                       \
  template __global__ void clean_posterior_backward_grouped<S, V, kVector>(                        \
      LabelBatch<S>, CleanPosteriorGradients<S>, int, int);
#define PTD_WIDE(S, V)                                                                  \
  template __global__ void clean_posterior_wide<S, V>(LabelBatch<S>, Accumulation<S>*); \
  template __global__ void clean_posterior_backward_wide<S, V>(LabelBatch<S>,           \
                                                               CleanPosteriorGradients<S>);
#define PTD_ALL_FLOAT(S)   \
  PTD_GROUPED(S, 1, false) \
  PTD_GROUPED(S, 4, false) \
  PTD_GROUPED(S, 4, true)  \
  PTD_WIDE(S, 6)

PTD_ALL_FLOAT(float)
PTD_ALL_FLOAT(Half)
PTD_ALL_FLOAT(BFloat16)
PTD_GROUPED(double, 1, false)
PTD_WIDE(double, 2)

#endif

}  // namespace ptd
