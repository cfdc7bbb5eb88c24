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
// Thread mappings: a block per few labels and chunk of samples up to 128 classes (grouped.cuh),
// which moves what must move, and from L2 the labels once per group of classes and the parts once
// per chunk; a block per sample (wide.cuh), with column y from L2 for each.
#pragma once

#include "clean_posterior_sample.cuh"
#include "grouped.cuh"
#include "wide.cuh"

namespace ptd {

template <class S, int E, bool kVector, bool kSlack>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    clean_posterior_grouped(LabelBatch<S> batch, GroupedLayout layout,
                            Accumulation<S>* result) {  // [N, C]
  using T = Accumulation<S>;
  constexpr int K = kGroupedSamples<T, E>, V = E * K;
  const auto block = grouped_block<S, E, K, kVector>(batch, layout);
  SampleTeam<T, K> team;
  for_each_grouped<kSlack>(
      block, [&](const ListedSample<K>& sample, int label, const Share<T, V>& share) {
        const int64_t n = block.start() + sample.position();
        T* const row = !sample.fills() ? result + n * batch.classes : nullptr;
        SampleStore<kVector, T, T, V> q_row(batch.classes);
        posterior_of<kVector || E == 1>(batch, share, label, team,
                                        [&](int v, T q) { q_row.put(row, share, v, q); });
      });
}

template <class S, int V>
__global__ void __launch_bounds__(kWideThreads)
    clean_posterior_wide(LabelBatch<S> batch,
                         Accumulation<S>* result) {  // [N, C]
  using T = Accumulation<S>;
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    posterior_of(batch, share, class_label(batch, n), team, [&](int v, T q) {
      const int i = share.index(v);
      if (i < batch.classes) result[n * batch.classes + i] = q;
    });
  });
}

template <class S, int E, bool kVector, bool kSlack>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    clean_posterior_backward_grouped(LabelBatch<S> batch, GroupedLayout layout,
                                     CleanPosteriorGradients<S> grads) {
  using T = Accumulation<S>;
  constexpr int K = kGroupedSamples<T, E>, V = E * K;
  const auto block = grouped_block<S, E, K, kVector>(batch, layout);
  SampleTeam<T, K> team;
  for_each_grouped<kSlack>(
      block, [&](const ListedSample<K>& sample, int label, const Share<T, V>& share) {
        const int64_t n = block.start() + sample.position();
        const auto row = [&]() -> S* {
          return sample.fills() || !grads.logits ? nullptr : grads.logits + n * batch.classes;
        };
        S* const kept = kVector ? row() : nullptr;  // without vectors, registers are too few for it
        SampleStore<kVector, S, T, V> dz_row(batch.classes);
        SampleLoad<kVector, T, V> given(grads.grad + n * batch.classes, batch.classes);
        const auto grad_at = [&](int v) { return given.get(share, v); };
        posterior_gradient<E == 1 || (kVector && !kSlack)>(
            batch, share, label, grad_at, grads.column.entry != nullptr, team,
            [&](int v, T dz) { dz_row.put(kVector ? kept : row(), share, v, dz); },
            [&](int v, T du) {
              if (!sample.fills()) write_factors<kSlack>(batch, grads.column, share, n, v, du);
            });
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
    posterior_gradient(
        batch, share, class_label(batch, n), grad_at, grads.column.entry != nullptr, team,
        [&](int v, T dz) {
          const int i = share.index(v);
          if (grads.logits && i < batch.classes) store(grads.logits + n * batch.classes + i, dz);
        },
        [&](int v, T du) {
          batch.slack ? write_factors<true>(batch, grads.column, share, n, v, du)
                      : write_factors<false>(batch, grads.column, share, n, v, du);
        });
  });
}

// ---- All that is launched, for a compiler that has no launches to see

#ifdef __CUDACC_RTC__

#define PTD_GROUPED(S, E, kVector, kSlack)                                          \
  template __global__ void clean_posterior_grouped<S, E, kVector, kSlack>(          \
      LabelBatch<S>, GroupedLayout, Accumulation<S>*);                              \
  template __global__ void clean_posterior_backward_grouped<S, E, kVector, kSlack>( \
      LabelBatch<S>, GroupedLayout, CleanPosteriorGradients<S>);
#define PTD_WIDE(S, V)                                                                  \
  template __global__ void clean_posterior_wide<S, V>(LabelBatch<S>, Accumulation<S>*); \
  template __global__ void clean_posterior_backward_wide<S, V>(LabelBatch<S>,           \
                                                               CleanPosteriorGradients<S>);
#define PTD_ALL_FLOAT(S)          \
  PTD_GROUPED(S, 1, false, false) \
  PTD_GROUPED(S, 1, false, true)  \
  PTD_GROUPED(S, 4, false, false) \
  PTD_GROUPED(S, 4, false, true)  \
  PTD_GROUPED(S, 4, true, false)  \
  PTD_GROUPED(S, 4, true, true)   \
  PTD_WIDE(S, 6)

PTD_ALL_FLOAT(float)
PTD_ALL_FLOAT(Half)
PTD_ALL_FLOAT(BFloat16)
PTD_GROUPED(double, 1, false, false)
PTD_GROUPED(double, 1, false, true)
PTD_WIDE(double, 2)

#endif

}  // namespace ptd
