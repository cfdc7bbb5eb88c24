// The transition losses, forward and backward, in one launch each, for many classes or doubles; see
// transition_loss_narrow_kernels.cuh for few. T(x) is never formed: per sample column y of it is,
// in registers.
//
// Bytes that must move, s = 4 for float and 8 for double, l = 2 for the sixteen-bit logits, else s:
//   forward    N (l C + s R + 8) + s R C^2          with slack + s (N C + C^2), the row sums
//   backward   N (2 l C + s R + 8) + s R C^2        with slack + s (N C + C^2)
// that is 4.8 and 8.1 MB at (N, C, R) = (8192, 100, 20).
//
// Thread mappings, by the number of classes (grouped.cuh, wide.cuh):
//   grouped   C <= 128    a warp per label and stretch of samples, column y from L1. Moves what
//                         must move; from L2, the labels C times and the parts once per chunk.
//   wide      the rest    a block per sample, column y from L2 for each.
// With slack, row_sums_kernels.cuh goes first.
#pragma once

#include "grouped.cuh"
#include "loss_mean.cuh"
#include "transition_loss_sample.cuh"
#include "wide.cuh"

namespace ptd {

template <class S, int V, bool kVector>
constexpr int kPartsAtOnce = sizeof(S) == 8 ? 1
                             : V == 1       ? 4
                             : kVector      ? 2
                                            : 1;

template <class S, int V, bool kVector>
__global__ void __launch_bounds__(kGroupedThreads, 8)
    transition_loss_grouped(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                            LossOutputs<Accumulation<S>> out, int chunks, int stretch) {
  using T = Accumulation<S>;
  WarpTeam<T> team;
  LossSums seen;
  for_each_grouped<S, V, kVector, kPartsAtOnce<S, V, kVector>>(
      batch, chunks, stretch, [&](int64_t n, int label, const Share<T, V>& share) {
        const T loss = loss_of(batch, rule, share, label, team);
        if (lane_id() == 0) seen.add(rule, out, n, label, loss);
      });
  finish_loss<kGroupedWarps>(out, seen.loss, seen.weight);
}

template <class S, int V>
__global__ void __launch_bounds__(kWideThreads)
    transition_loss_wide(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                         LossOutputs<Accumulation<S>> out) {
  using T = Accumulation<S>;
  LossSums seen;
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    const int label = class_label(batch, n);
    const T loss = loss_of(batch, rule, share, label, team);
    if (threadIdx.x == 0) seen.add(rule, out, n, label, loss);
  });
  finish_loss<kWideThreads / kWarp>(out, seen.loss, seen.weight);
}

template <class S, int V, bool kVector>
__global__ void __launch_bounds__(kGroupedThreads, 8)
    transition_loss_backward_grouped(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                                     LossGradients<S> grads, int chunks, int stretch) {
  using T = Accumulation<S>;
  WarpTeam<T> team;
  for_each_grouped<S, V, kVector, kPartsAtOnce<S, V, kVector>>(
      batch, chunks, stretch, [&](int64_t n, int label, const Share<T, V>& share) {
        T grad_z[V];
        gradients_of(batch, rule, grads, share, n, label, team, [&](int v, T dz, T du) {
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
    transition_loss_backward_wide(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                                  LossGradients<S> grads) {
  using T = Accumulation<S>;
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    gradients_of(batch, rule, grads, share, n, class_label(batch, n), team, [&](int v, T dz, T du) {
      const int i = share.index(v);
      if (grads.logits && i < batch.classes) store(grads.logits + n * batch.classes + i, dz);
      write_factors(batch, grads.column, share, n, v, du);
    });
  });
}

// ---- All that is launched, for a compiler that has no launches to see

#ifdef __CUDACC_RTC__

#define PTD_GROUPED(S, V, kVector)                                                       \
  template __global__ void transition_loss_grouped<S, V, kVector>(                       \
      LabelBatch<S>, LossRule<Accumulation<S>>, LossOutputs<Accumulation<S>>, int, int); \
  template __global__ void transition_loss_backward_grouped<S, V, kVector>(              \
      LabelBatch<S>, LossRule<Accumulation<S>>, LossGradients<S>, int, int);
#define PTD_WIDE(S, V)                                                                          \
  template __global__ void transition_loss_wide<S, V>(LabelBatch<S>, LossRule<Accumulation<S>>, \
                                                      LossOutputs<Accumulation<S>>);            \
  template __global__ void transition_loss_backward_wide<S, V>(                                 \
      LabelBatch<S>, LossRule<Accumulation<S>>, LossGradients<S>);
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
