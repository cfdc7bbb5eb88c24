// The transition losses, forward and backward, in one launch each. T(x) is never formed: per sample
// column y of it is, in registers.
//
// Bytes that must move, s = 4 for float and 8 for double, l = 2 for the sixteen-bit logits, else s:
//   forward    N (l C + s R + 8) + s R C^2          with slack + s (N C + C^2), the row sums
//   backward   N (2 l C + s R + 8) + s R C^2        with slack + s (N C + C^2)
// that is 8.4 and 11 MB at (N, C, R) = (65536, 10, 20), 4.8 and 8.1 MB at (8192, 100, 20).
//
// Thread mappings, by the number of classes (narrow.cuh, grouped.cuh, wide.cuh):
//   narrow    C <= 16     two lanes per sample; reads and writes in runs of whole lines, the parts
//                         in shared memory. Moves what must move, and the parts once per block,
//                         from L2: a quarter more than the rest at (10, 20) there, nothing in DRAM.
//   grouped   C <= 128    a warp per label and stretch of samples, column y from L1. Moves what
//                         must move; from L2, the labels C times and the parts once per chunk.
//   wide      the rest    a block per sample, column y from L2 for each.
#pragma once

#include "grouped.cuh"
#include "loss_mean.cuh"
#include "narrow.cuh"
#include "transition_loss_args.h"
#include "wide.cuh"

namespace ptd {

template <class T>
__device__ __forceinline__ T class_weight_of(const LossRule<T>& rule, int y) {
  return rule.class_weight ? rule.class_weight[y * rule.class_weight_stride] : T(1);
}

template <class T, int V, class Team>
__device__ __forceinline__ LossTerms<T> terms_of(const LossRule<T>& rule, const Share<T, V>& share,
                                                 const ColumnSums<T>& sums, int y, Team& team) {
  const T z_y = rule.importance == kForward ? T(0) : label_logit(share, y, team);
  return loss_terms(sums, z_y, rule.importance, rule.max_importance);
}

// sink(v, dloss/dz, dloss/du) for each of a thread's classes, both times factor.
template <class T, int V, class Team, class Sink>
__device__ __forceinline__ void loss_gradient(const LossRule<T>& rule, const Share<T, V>& share,
                                              const Smoothing<T>& smooth, int y, T factor,
                                              Team& team, const Sink& sink) {
  T e[V];
  const ColumnSums<T> sums = column_sums(share, smooth, team, e);
  const LossTerms<T> terms = terms_of(rule, share, sums, y, team);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const T column_e = column_exp(sums, share.z[v], e[v]);
    const T label = share.index(v) == y ? terms.label : T(0);
    const T grad_z =
        terms.softmax * e[v] + terms.posterior * joint(column_e, smooth(share.column[v])) + label;
    sink(v, factor * grad_z, factor * terms.posterior * column_e);
  }
}

template <class S, int V, bool kVector>
constexpr int kPartsAtOnce = sizeof(S) == 8 ? 1
                             : V == 1       ? 4
                             : kVector      ? 2
                                            : 1;

// ---- Forward

template <class S, class T, int V, class Team>
__device__ __forceinline__ T loss_of(const LabelBatch<S>& batch, const LossRule<T>& rule,
                                     const Share<T, V>& share, int64_t y, Team& team) {
  T e[V];
  const ColumnSums<T> sums =
      column_sums(share, Smoothing<T>(batch.smoothing, batch.classes), team, e);
  return terms_of(rule, share, sums, int(y), team).loss;
}

// What one thread has seen of a batch.
struct LossSums {
  double loss = 0.0, weight = 0.0;

  // `loss` is what the sample's column gives; it does not count unless its label does.
  template <class S, class T>
  __device__ __forceinline__ void add(const LabelBatch<S>& batch, const LossRule<T>& rule,
                                      const LossOutputs<T>& out, int64_t n, int64_t y, T loss_n) {
    const LabelKind kind = label_kind(batch, y);
    const T weight_n = kind == LabelKind::counted ? class_weight_of(rule, int(y)) : T(0);
    if (kind == LabelKind::counted) loss_n *= weight_n;
    if (kind == LabelKind::ignored) loss_n = T(0);
    if (kind == LabelKind::bad) loss_n = not_a_number<T>();
    if (out.losses) out.losses[n] = loss_n;
    loss += double(loss_n);
    weight += double(weight_n);
  }
};

// Dynamic shared memory of transition_loss_narrow: 24000 bytes
// That is at C = 10 and R = 20: the parts, and each warp's rows of weights and logits.
template <class S, int V, bool kSlack>
__global__ void __launch_bounds__(kNarrowThreads, 4)
    transition_loss_narrow(LabelBatch<S> batch, LossRule<float> rule, LossOutputs<float> out) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const NarrowTile<S, V, kSlack> tile(batch, shared);
  PairTeam<float> team;
  const int64_t first = tile.first();
  const int count = tile.count(first);
  if (count > 0) tile.read(first, count);
  tile.stage_parts();
  __syncthreads();
  LossSums seen;
  if (count > 0) {
    const int sample = tile.slot < count ? tile.slot : 0;
    const int64_t n = first + sample, y = label_at(batch.labels, n);
    float sums[V];
    if (kSlack) tile.row_sums(sample, sums);
    const Share<float, V> share = tile.share(sample, tile.class_of(y), sums);
    const float loss = loss_of(batch, rule, share, y, team);
    if (tile.slot < count && tile.half == 0) seen.add(batch, rule, out, n, y, loss);
    if (kSlack) tile.write(sums, batch.row_sums, first, count, tile.rows);
  }
  finish_loss(out, seen.loss, seen.weight);
}

template <class S, int V, bool kVector>
__global__ void __launch_bounds__(kGroupedThreads, 8)
    transition_loss_grouped(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                            LossOutputs<Accumulation<S>> out, int chunks, int stretch) {
  using T = Accumulation<S>;
  WarpTeam<T> team;
  LossSums seen;
  for_each_grouped<S, V, kVector, kPartsAtOnce<S, V, kVector>>(
      batch, chunks, stretch, [&](int64_t n, const Share<T, V>& share) {
        const int64_t y = label_at(batch.labels, n);
        const T loss = loss_of(batch, rule, share, y, team);
        if (lane_id() == 0) seen.add(batch, rule, out, n, y, loss);
      });
  finish_loss(out, seen.loss, seen.weight);
}

template <class S, int V>
__global__ void __launch_bounds__(kWideThreads)
    transition_loss_wide(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                         LossOutputs<Accumulation<S>> out) {
  using T = Accumulation<S>;
  LossSums seen;
  for_each_wide<S, V>(batch, [&](int64_t n, const Share<T, V>& share, BlockTeam<T>& team) {
    const int64_t y = label_at(batch.labels, n);
    const T loss = loss_of(batch, rule, share, y, team);
    if (threadIdx.x == 0) seen.add(batch, rule, out, n, y, loss);
  });
  finish_loss(out, seen.loss, seen.weight);
}

// ---- Backward

// sink(v, dL/dz, dL/du) for each of a thread's classes; zeros where the label does not count, and
// not by a factor of zero: NaN or infinity of an ignored sample must not get through.
template <class S, class T, int V, class Team, class Sink>
__device__ __forceinline__ void gradients_of(const LabelBatch<S>& batch, const LossRule<T>& rule,
                                             const LossGradients<S>& grads,
                                             const Share<T, V>& share, int64_t n, Team& team,
                                             const Sink& sink) {
  const int64_t y = label_at(batch.labels, n);
  const bool counted = label_kind(batch, y) == LabelKind::counted;
  T factor = T(0);
  if (counted) {
    factor = grads.grad_loss[n * grads.grad_stride] * class_weight_of(rule, int(y));
    if (grads.total_weight) factor /= *grads.total_weight;
  }
  const Smoothing<T> smooth(batch.smoothing, batch.classes);
  loss_gradient(rule, share, smooth, counted ? int(y) : 0, factor, team,
                [&](int v, T grad_z, T grad_u) {
                  sink(v, counted ? grad_z : T(0), counted ? grad_u : T(0));
                });
}

// Dynamic shared memory of transition_loss_backward_narrow: 24000 bytes
template <class S, int V, bool kSlack>
__global__ void __launch_bounds__(kNarrowThreads, 4)
    transition_loss_backward_narrow(LabelBatch<S> batch, LossRule<float> rule,
                                    LossGradients<S> grads) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const NarrowTile<S, V, kSlack> tile(batch, shared);
  PairTeam<float> team;
  const int64_t first = tile.first();
  const int count = tile.count(first);
  if (count > 0) tile.read(first, count);
  tile.stage_parts();
  __syncthreads();
  if (count == 0) return;
  const int sample = tile.slot < count ? tile.slot : 0;
  const int64_t n = first + sample, y = label_at(batch.labels, n);
  float sums[V], grad_z[V];
  if (kSlack) tile.read_sums(n, sums);
  const Share<float, V> share = tile.share(sample, tile.class_of(y), sums);
  gradients_of(batch, rule, grads, share, n, team, [&](int v, float dz, float du) {
    grad_z[v] = dz;
    if (tile.slot < count) write_factors(batch, grads.column, share, n, v, du);
  });
  if (grads.logits) tile.write(grad_z, grads.logits, first, count, tile.logits);
}

template <class S, int V, bool kVector>
__global__ void __launch_bounds__(kGroupedThreads, 8)
    transition_loss_backward_grouped(LabelBatch<S> batch, LossRule<Accumulation<S>> rule,
                                     LossGradients<S> grads, int chunks, int stretch) {
  using T = Accumulation<S>;
  WarpTeam<T> team;
  for_each_grouped<S, V, kVector, kPartsAtOnce<S, V, kVector>>(
      batch, chunks, stretch, [&](int64_t n, const Share<T, V>& share) {
        T grad_z[V];
        gradients_of(batch, rule, grads, share, n, team, [&](int v, T dz, T du) {
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
    gradients_of(batch, rule, grads, share, n, team, [&](int v, T dz, T du) {
      const int i = share.index(v);
      if (grads.logits && i < batch.classes) store(grads.logits + n * batch.classes + i, dz);
      write_factors(batch, grads.column, share, n, v, du);
    });
  });
}

// ---- All that is launched, for a compiler that has no launches to see

#ifdef __CUDACC_RTC__

#define PTD_NARROW(S, V, kSlack)                                                                \
  template __global__ void transition_loss_narrow<S, V, kSlack>(LabelBatch<S>, LossRule<float>, \
                                                                LossOutputs<float>);            \
  template __global__ void transition_loss_backward_narrow<S, V, kSlack>(                       \
      LabelBatch<S>, LossRule<float>, LossGradients<S>);
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
  PTD_NARROW(S, 5, false)  \
  PTD_NARROW(S, 5, true)   \
  PTD_NARROW(S, 8, false)  \
  PTD_NARROW(S, 8, true)   \
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
