// The transition losses for up to fourteen classes, forward and backward in one launch each. T(x)
// is never formed: per sample column y of it is, in registers; with slack, column after column.
//
// Bytes that must move, l = 2 for sixteen-bit logits, else 4:
//   forward    N (l C + 4 R + 8) + 4 R C^2          with slack + 4 (N C + C^2), the row sums
//   backward   N (2 l C + 4 R + 8) + 4 R C^2        with slack + 4 (N C + C^2)
// that is 8.4 and 11 MB at (N, C, R) = (65536, 10, 20). These kernels move just that, in whole
// lines, and from L2 the parts once per block of 256 or 128 samples: a quarter or half as much
// again. With slack, arithmetic takes longer than the bytes forward: N R (2 C + U / 4)
// multiply-adds for U entries that are undecided (decided.cuh), N R C^2 where all are formed.
//
// Thread mappings: a lane per sample (lone.cuh), with slack too if it is forward and there are up
// to twenty parts (lone_slack.cuh); else with slack, or more than ten classes, two lanes
// (pair.cuh).
#pragma once

#include "lone_slack.cuh"
#include "loss_mean.cuh"
#include "pair.cuh"
#include "transition_loss_sample.cuh"

namespace ptd {

// What the samples of a warp come to, a lane for each.
template <class S>
__device__ __forceinline__ LossSums lone_sums(const LabelBatch<S>& batch,
                                              const LossRule<float>& rule,
                                              const LossOutputs<float>& out,
                                              const NarrowRange<kLoneSamples>& range,
                                              const Lone& lone) {
  LoneTeam<float> team;
  LossSums seen{};
  if (lane_id() < range.count) {
    const float loss = loss_of(batch, rule, lone.share, lone.label, team);
    seen = counted(rule, out, range.first + lane_id(), lone.label, loss);
  }
  return seen;
}

template <class S>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    transition_loss_lone(LabelBatch<S> batch, NarrowLayout layout, LossRule<float> rule,
                         LossOutputs<float> out) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const NarrowRange<kLoneSamples> range(batch.samples);
  const int sample = lane_id() < range.count ? lane_id() : 0;
  const Lone lone = lone_sample(batch, layout, range, sample, shared,
                                shared + layout.tiles + warp_id() * layout.tile_bytes);
  const LossSums seen = lone_sums(batch, rule, out, range, lone);
  finish_loss<kNarrowMostWarps>(out, seen);
}

template <class S>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    transition_loss_lone_slack(LabelBatch<S> batch, NarrowLayout layout, LossRule<float> rule,
                               LossOutputs<float> out) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  LossSums seen{};
  with_lone_slack(batch, layout, shared,
                  [&](const NarrowRange<kLoneSamples>& range, const Lone& lone, float*) {
                    seen = lone_sums(batch, rule, out, range, lone);
                  });
  finish_loss<kNarrowMostWarps>(out, seen);
}

template <class S, int V, bool kSlack>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    transition_loss_pair(LabelBatch<S> batch, NarrowLayout layout, LossRule<float> rule,
                         LossOutputs<float> out) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const PairTile<S, V, kSlack> tile(batch, layout, shared);
  const NarrowRange<kPairSamples> range(batch.samples);
  const int sample = tile.slot < range.count ? tile.slot : 0;
  float z[V];
  const int label = tile.stage(range, sample, shared, z);
  PairTeam<float> team;
  LossSums seen{};
  if (range.count > 0) {
    float sums[V] = {};
    if constexpr (kSlack) tile.row_sums(sample, sums);
    const Share<float, V> share =
        tile.share(sample, class_or_first(label), z, [&](int v) { return sums[v]; });
    const float loss = loss_of(batch, rule, share, label, team);
    if (lane_id() < range.count) seen = counted(rule, out, range.first + sample, label, loss);
    if constexpr (kSlack) {
      __syncwarp();  // weights make room for the row sums
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const int i = share.index(v);
        if (tile.slot < range.count && i < batch.classes) {
          tile.rows[tile.slot * batch.classes + i] = sums[v];
        }
      }
      write_tile(tile.rows, batch.row_sums, range, batch.classes);
    }
  }
  finish_loss<kNarrowMostWarps>(out, seen);
}

template <class S>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    transition_loss_backward_lone(LabelBatch<S> batch, NarrowLayout layout, LossRule<float> rule,
                                  LossGradients<S> grads) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const NarrowRange<kLoneSamples> range(batch.samples);
  unsigned char* const tile = shared + layout.tiles + warp_id() * layout.tile_bytes;
  const int sample = lane_id() < range.count ? lane_id() : 0;
  const Lone lone = lone_sample(batch, layout, range, sample, shared, tile);
  if (range.count == 0) return;
  LoneTeam<float> team;
  const int64_t n = range.first + sample;
  S* const row = reinterpret_cast<S*>(tile) + lane_id() * batch.classes;
  __syncwarp();  // weights make room for gradients
  const bool stored = lane_id() < range.count;
  gradients_of(
      batch, rule, grads, lone.share, n, lone.label, team,
      [&](int v, float dz) {
        if (stored && v < batch.classes) store(row + v, dz);
      },
      [&](int v, float du) {
        if (stored) write_factors<false>(batch, grads.column, lone.share, n, v, du);
      });
  if (!grads.logits) return;
  write_tile(reinterpret_cast<S*>(tile), grads.logits, range, batch.classes);
}

template <class S, int V, bool kSlack>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    transition_loss_backward_pair(LabelBatch<S> batch, NarrowLayout layout, LossRule<float> rule,
                                  LossGradients<S> grads) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const PairTile<S, V, kSlack> tile(batch, layout, shared);
  const NarrowRange<kPairSamples> range(batch.samples);
  const int sample = tile.slot < range.count ? tile.slot : 0;
  float z[V];
  const int label = tile.stage(range, sample, shared, z);
  if (range.count == 0) return;
  PairTeam<float> team;
  const int64_t n = range.first + sample;
  const Share<float, V> share =
      tile.share(sample, class_or_first(label), z, [&](int v) { return tile.kept_sum(n, v); });
  __syncwarp();  // weights make room for gradients
  const bool stored = tile.slot < range.count;
  gradients_of(
      batch, rule, grads, share, n, label, team,
      [&](int v, float dz) {
        const int i = share.index(v);
        if (stored && i < batch.classes) store(tile.logits + sample * batch.classes + i, dz);
      },
      [&](int v, float du) {
        if (stored) write_factors<kSlack>(batch, grads.column, share, n, v, du);
      });
  if (!grads.logits) return;
  write_tile(tile.logits, grads.logits, range, batch.classes);
}

// ---- All that is launched, for a compiler that has no launches to see

#ifdef __CUDACC_RTC__

#define PTD_LONE(S)                                                                              \
  template __global__ void transition_loss_lone<S>(LabelBatch<S>, NarrowLayout, LossRule<float>, \
                                                   LossOutputs<float>);                          \
  template __global__ void transition_loss_lone_slack<S>(LabelBatch<S>, NarrowLayout,            \
                                                         LossRule<float>, LossOutputs<float>);   \
  template __global__ void transition_loss_backward_lone<S>(LabelBatch<S>, NarrowLayout,         \
                                                            LossRule<float>, LossGradients<S>);
#define PTD_PAIR(S, V, kSlack)                                           \
  template __global__ void transition_loss_pair<S, V, kSlack>(           \
      LabelBatch<S>, NarrowLayout, LossRule<float>, LossOutputs<float>); \
  template __global__ void transition_loss_backward_pair<S, V, kSlack>(  \
      LabelBatch<S>, NarrowLayout, LossRule<float>, LossGradients<S>);
#define PTD_NARROW(S)   \
  PTD_LONE(S)           \
  PTD_PAIR(S, 5, true)  \
  PTD_PAIR(S, 7, false) \
  PTD_PAIR(S, 7, true)

PTD_NARROW(float)
PTD_NARROW(Half)
PTD_NARROW(BFloat16)

#endif

}  // namespace ptd
