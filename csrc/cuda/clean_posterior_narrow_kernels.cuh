// P(Y | x, noisy label) for up to ten classes, forward and backward in one launch each, with slack
// too. The formulas are in clean_posterior_sample.cuh.
//
// Bytes that must move, l = 2 for sixteen-bit logits, else 4:
//   forward    N (l C + 4 C + 4 R + 8) + 4 R C^2       with slack + 4 (N C + C^2), the row sums
//   backward   N (2 l C + 4 C + 4 R + 8) + 4 R C^2     with slack + 4 (N C + C^2)
// These kernels move just that, in whole lines, and from L2 the parts once per block. With slack,
// arithmetic takes about as long as the bytes forward: N R (2 C + U / 4) multiply-adds for U
// entries that are undecided (decided.cuh), N R C^2 where all are formed.
//
// Thread mappings: a lane per sample (lone.cuh), with slack up to twenty parts (lone_slack.cuh);
// beyond that, and backward, where a lane alone has too few registers, two lanes (pair.cuh).
#pragma once

#include "clean_posterior_sample.cuh"
#include "lone_slack.cuh"
#include "pair.cuh"

namespace ptd {

// Rows of the gradient to a warp's tile, once nobody needs what it holds.
__device__ __forceinline__ void stage_gradient(const float* grad,  // [N, C]
                                               const NarrowRange<kPairSamples>& range, int classes,
                                               float* tile) {  // [count, C]
  const bool flat = reinterpret_cast<uint64_t>(grad) % 16 == 0;
  const Rows<const float> rows{grad, classes, 1, flat};
  TileInFlight<float, 1> held;
  held.load(rows, range, classes);
  __syncwarp();
  held.store(rows, range, classes, tile);
  __syncwarp();
}

// The posterior of a warp's samples, a lane for each, through its tile.
template <class S>
__device__ __forceinline__ void write_lone(const LabelBatch<S>& batch,
                                           const NarrowRange<kLoneSamples>& range, const Lone& lone,
                                           float* tile,      // [32, C]
                                           float* result) {  // [N, C]
  LoneTeam<float> team;
  __syncwarp();  // what the tile holds makes room
  posterior_of(batch, lone.share, lone.label, team, [&](int v, float q) {
    if (lane_id() < range.count && v < batch.classes) tile[lane_id() * batch.classes + v] = q;
  });
  write_tile(tile, result, range, batch.classes);
}

template <class S>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    clean_posterior_lone(LabelBatch<S> batch, NarrowLayout layout,
                         float* result) {  // [N, C]
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const NarrowRange<kLoneSamples> range(batch.samples);
  unsigned char* const tile = shared + layout.tiles + warp_id() * layout.tile_bytes;
  const int sample = lane_id() < range.count ? lane_id() : 0;
  const Lone lone = lone_sample(batch, layout, range, sample, shared, tile);
  if (range.count == 0) return;
  write_lone(batch, range, lone, reinterpret_cast<float*>(tile), result);
}

template <class S>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    clean_posterior_lone_slack(LabelBatch<S> batch, NarrowLayout layout,
                               float* result) {  // [N, C]
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  with_lone_slack(batch, layout, shared,
                  [&](const NarrowRange<kLoneSamples>& range, const Lone& lone, float* tile) {
                    write_lone(batch, range, lone, tile, result);
                  });
}

template <class S>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    clean_posterior_pair(LabelBatch<S> batch, NarrowLayout layout,
                         float* result) {  // [N, C]
  constexpr int V = 5;
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const PairTile<S, V, true> tile(batch, layout, shared);
  const NarrowRange<kPairSamples> range(batch.samples);
  const int sample = tile.slot < range.count ? tile.slot : 0;
  float z[V], sums[V], q[V];
  const int label = tile.stage(range, sample, shared, z);
  if (range.count == 0) return;
  PairTeam<float> team;
  tile.row_sums(sample, sums);
  const Share<float, V> share =
      tile.share(sample, class_or_first(label), z, [&](int v) { return sums[v]; });
  posterior_of(batch, share, label, team, [&](int v, float q_v) { q[v] = q_v; });
  const auto write = [&](const float (&from)[V], float* to) {
    __syncwarp();  // what the tile holds makes room
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = share.index(v);
      if (tile.slot < range.count && i < batch.classes) {
        tile.rows[tile.slot * batch.classes + i] = from[v];
      }
    }
    write_tile(tile.rows, to, range, batch.classes);
  };
  write(sums, batch.row_sums);
  write(q, result);
}

template <class S, bool kSlack>
__global__ void __launch_bounds__(kNarrowMostThreads, 2)
    clean_posterior_backward_pair(LabelBatch<S> batch, NarrowLayout layout,
                                  CleanPosteriorGradients<S> grads) {
  constexpr int V = 5;
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  const PairTile<S, V, kSlack> tile(batch, layout, shared);
  const NarrowRange<kPairSamples> range(batch.samples);
  const int sample = tile.slot < range.count ? tile.slot : 0;
  float z[V], g[V];
  const int label = tile.stage(range, sample, shared, z);
  if (range.count == 0) return;
  PairTeam<float> team;
  const int64_t n = range.first + sample;
  const Share<float, V> share =
      tile.share(sample, class_or_first(label), z, [&](int v) { return tile.kept_sum(n, v); });
  stage_gradient(grads.grad, range, batch.classes, tile.rows);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int i = share.index(v);
    g[v] = i < batch.classes ? tile.rows[sample * batch.classes + i] : 0.0f;
  }
  __syncwarp();  // the gradient makes room for that of the logits
  const bool stored = tile.slot < range.count;
  posterior_gradient(
      batch, share, label, [&](int v) { return g[v]; }, grads.column.entry != nullptr, team,
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

#define PTD_NARROW(S)                                                                           \
  template __global__ void clean_posterior_lone<S>(LabelBatch<S>, NarrowLayout, float*);        \
  template __global__ void clean_posterior_lone_slack<S>(LabelBatch<S>, NarrowLayout, float*);  \
  template __global__ void clean_posterior_pair<S>(LabelBatch<S>, NarrowLayout, float*);        \
  template __global__ void clean_posterior_backward_pair<S, true>(LabelBatch<S>, NarrowLayout,  \
                                                                  CleanPosteriorGradients<S>);  \
  template __global__ void clean_posterior_backward_pair<S, false>(LabelBatch<S>, NarrowLayout, \
                                                                   CleanPosteriorGradients<S>);

PTD_NARROW(float)
PTD_NARROW(Half)
PTD_NARROW(BFloat16)

#endif

}  // namespace ptd
