// The transition losses, forward and backward, in one launch each, for many classes or doubles; see
// transition_loss_narrow_kernels.cuh for few. T(x) is never formed: per sample column y of it is,
// in registers.
//
// Bytes that must move, s = 4 for float and 8 for double, l = 2 for the sixteen-bit logits, else s:
//   forward    N (l C + s R + 8) + s R C^2          with slack + s (N C + C^2), the row sums
//   backward   N (2 l C + s R + 8) + s R C^2        with slack + s (N C + C^2)
// that is 4.8 and 8.1 MB at (N, C, R) = (8192, 100, 20).
//
// Thread mappings, by the number of classes (grouped.cuh, quartet.cuh, wide.cuh):
//   grouped   C <= 128    a block per few labels and chunk of samples, column y in the first-level
//                         cache. Moves what must move; from L2, the labels once per group of
//                         classes, the parts once per chunk.
//   quartet   the same, forward without slack, for C from 33 on, R up to 32 and whole vectors
//   wide      the rest    a block per sample, column y from L2 for each.
// With slack, row_sums.h goes first.
#pragma once

#include "grouped.cuh"
#include "listed_losses.cuh"
#include "quartet.cuh"
#include "transition_loss_sample.cuh"
#include "wide.cuh"

namespace ptd {

template <class S, int E, bool kVector, bool kSlack>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    transition_loss_grouped(LabelBatch<S> batch, GroupedLayout layout,
                            LossRule<Accumulation<S>> rule, LossOutputs<Accumulation<S>> out) {
  using T = Accumulation<S>;
  constexpr int K = kGroupedLossSamples<T, E, kVector, kSlack>, V = E * K;
  const auto block = grouped_block<S, E, K, kVector>(batch, layout, kLossWarps);
  const ListedLosses<GroupedBlock<S, E, K, kVector>> losses{block};
  SampleTeam<T, K> team;
  for_each_grouped<kSlack>(
      block, [&](const ListedSample<K>& sample, int label, const Share<T, V>& share) {
        const T loss = loss_of(batch, rule, share, label, team);
        if (sample_lane<K>() != 0 || sample.fills()) return;
        const int position = sample.position();
        losses.of(position) = T(counted(rule, out, block.start() + position, label, loss).loss);
      });
  losses.finish(rule, out);
}

template <class S, int E>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    transition_loss_quartet(LabelBatch<S> batch, GroupedLayout layout, LossRule<float> rule,
                            LossOutputs<float> out) {
  const auto block = grouped_block<S, E, kQuartet, true>(batch, layout, kLossWarps);
  const ListedLosses<QuartetBlock<S, E>> losses{block};
  for_each_quartet<S, E>(block, [&](const ListedSample<kQuartet>& sample, WarpSamples<E>& samples) {
    const bool is_forward = rule.importance == kForward;
    const ColumnSums<float> sums = samples.sums(Smoothing<float>(batch), !is_forward);
    const int position = sample.position(), label = block.label_of(sample);
    const float z_y =
        is_forward ? 0.0f : load_once<float>(block.logits_of(position) + block.column_of(sample));
    const float loss = loss_terms(sums, z_y, rule.importance, rule.max_importance).loss;
    if (sample_lane<kQuartet>() != 0 || sample.fills()) return;
    losses.of(position) = float(counted(rule, out, block.start() + position, label, loss).loss);
  });
  losses.finish(rule, out);
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
  const auto block = grouped_block<S, E, K, kVector>(batch, layout);
  SampleTeam<T, K> team;
  for_each_grouped<kSlack>(
      block, [&](const ListedSample<K>& sample, int label, const Share<T, V>& share) {
        const int64_t n = block.start() + sample.position();
        S* const row = !sample.fills() && grads.logits ? grads.logits + n * batch.classes : nullptr;
        SampleStore<kVector, S, T, V> dz_row(batch.classes);
        gradients_of<E == 1>(
            batch, rule, grads, share, n, label, team,
            [&](int v, T dz) { dz_row.put(row, share, v, dz); },
            [&](int v, T du) {
              if (!sample.fills()) write_factors<kSlack>(batch, grads.column, share, n, v, du);
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
#define PTD_QUARTET(S, E)                                                              \
  template __global__ void transition_loss_quartet<S, E>(LabelBatch<S>, GroupedLayout, \
                                                         LossRule<float>, LossOutputs<float>);
#define PTD_ALL_FLOAT(S)          \
  PTD_QUARTET(S, 2)               \
  PTD_QUARTET(S, 4)               \
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
