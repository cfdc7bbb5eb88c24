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
//   grouped   C <= 128    a block per few labels and chunk of samples, column y in shared memory.
//                         Moves what must move; from L2, the labels once per group of classes, the
//                         parts once per chunk.
//   wide      the rest    a block per sample, column y from L2 for each.
// With slack, row_sums.h goes first.
#pragma once

#include "grouped.cuh"
#include "loss_mean.cuh"
#include "transition_loss_sample.cuh"
#include "wide.cuh"

namespace ptd {

template <class S, int E, bool kVector, bool kSlack>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    transition_loss_grouped(LabelBatch<S> batch, GroupedLayout layout,
                            LossRule<Accumulation<S>> rule, LossOutputs<Accumulation<S>> out) {
  using T = Accumulation<S>;
  constexpr int K = kGroupedLossSamples<T, E, kVector>, V = E * K;
  constexpr int kPlaces = K * kGroupedWarps;
  // What the first lane of each sample's has seen.
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  auto* const seen = reinterpret_cast<double (*)[kPlaces]>(shared + layout.seen);
  if (threadIdx.x < kPlaces) seen[0][threadIdx.x] = seen[1][threadIdx.x] = 0.0;
  SampleTeam<T, K> team;
  for_each_grouped<S, E, K, kVector, kSlack>(
      batch, layout, [&](const GroupedSample& sample, int label, const Share<T, V>& share) {
        const T loss = loss_of(batch, rule, share, label, team);
        if (sample_lane<K>() != 0 || !sample.counts) return;
        const int place = opaque(static_cast<int>(threadIdx.x)) / (kWarp / K);  // not kept
        LossSums sums{seen[0][place], seen[1][place]};
        sums.add(counted(rule, out, sample.n, label, loss));
        seen[0][place] = sums.loss;
        seen[1][place] = sums.weight;
      });
  // The last warp has least to do: its ticket is on its way while others are at work.
  __shared__ bool is_last;
  if (threadIdx.x == kGroupedThreads - kWarp) is_last = draws_last_ticket(out);
  __syncthreads();
  if (warp_id() > 0) return;
  finish_loss_by_warp<kPlaces>(out, is_last, seen);
}

template <class S, int V>
__global__ void __launch_bounds__(kWideThreads)
    transition_loss_wide(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                         LossOutputs<Accumulation<S>> out) {
  using T = Accumulation<S>;
  LossSums seen{};
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    const int label = class_label(batch, n);
    const T loss = loss_of(batch, rule, share, label, team);
    if (threadIdx.x == 0) seen.add(counted(rule, out, n, label, loss));
  });
  finish_loss<kWideThreads / kWarp>(out, seen);
}

template <class S, int E, bool kVector, bool kSlack>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    transition_loss_backward_grouped(LabelBatch<S> batch, GroupedLayout layout,
                                     LossRule<Accumulation<S>> rule, LossGradients<S> grads) {
  using T = Accumulation<S>;
  constexpr int K = kGroupedSamples<T, E>, V = E * K;
  SampleTeam<T, K> team;
  for_each_grouped<S, E, K, kVector, kSlack>(
      batch, layout, [&](const GroupedSample& sample, int label, const Share<T, V>& share) {
        const int64_t n = sample.n;
        S* const row = sample.counts && grads.logits ? grads.logits + n * batch.classes : nullptr;
        SampleStore<kVector, S, T, V> dz_row(row, batch.classes);
        gradients_of<E == 1>(
            batch, rule, grads, share, n, label, team,
            [&](int v, T dz) { dz_row.put(share, v, dz); },
            [&](int v, T du) {
              if (sample.counts) write_factors<kSlack>(batch, grads.column, share, n, v, du);
            });
      });
}

template <class S, int V>
__global__ void __launch_bounds__(kWideThreads)
    transition_loss_backward_wide(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                                  LossGradients<S> grads) {
  using T = Accumulation<S>;
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    gradients_of(
        batch, rule, grads, share, n, class_label(batch, n), team,
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

#define PTD_GROUPED(S, E, kVector, kSlack)                                                    \
  template __global__ void transition_loss_grouped<S, E, kVector, kSlack>(                    \
      LabelBatch<S>, GroupedLayout, LossRule<Accumulation<S>>, LossOutputs<Accumulation<S>>); \
  template __global__ void transition_loss_backward_grouped<S, E, kVector, kSlack>(           \
      LabelBatch<S>, GroupedLayout, LossRule<Accumulation<S>>, LossGradients<S>);
#define PTD_WIDE(S, V)                                                                          \
  template __global__ void transition_loss_wide<S, V>(LabelBatch<S>, LossRule<Accumulation<S>>, \
                                                      LossOutputs<Accumulation<S>>);            \
  template __global__ void transition_loss_backward_wide<S, V>(                                 \
      LabelBatch<S>, LossRule<Accumulation<S>>, LossGradients<S>);
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
