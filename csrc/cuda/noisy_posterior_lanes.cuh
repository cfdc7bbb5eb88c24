// A block of the kernels for up to sixteen classes (noisy_posterior_lanes_kernels.cuh): Q lanes of
// a warp have all columns of four samples. Warps of a block share the parts; `sharing` of them
// share samples too, and divide the rows of T(x), whose sums are added up at the end.
#pragma once

#include "noisy_posterior_stage.cuh"

namespace ptd {

constexpr int kLanesMostWarps = 16;
constexpr int kGroupLanes = 16;  // that copy four samples together, [4, C], four numbers each

// The dynamic shared memory of a block, set out by the launcher, in numbers: rows [4, C] of four
// samples each, tiles of weights [tiles, R, kPitch], and then the parts [R, C, kColumns], the
// slack [C, kColumns] and zeros. What the warps add up takes the place of all but the first.
struct LanesLayout {
  int weights, parts;           // where they begin
  int padding;                  // rows of zeros
  int tile_bytes;               // from a tile of weights to the next
  int part_bytes, slack_bytes;  // from a part to the next, from the first part to the slack
  int values;                   // of a block's rows [4, C], with gaps
  int sharing_shift;            // two to its power: the warps that share a tile
  int numbers;                  // of all
};

template <class Tile>
struct LanesBlock {
  static constexpr int kPlaces = Tile::kSamples / kTile;  // groups of four samples in a tile
  const TiledBatch& batch;
  const LanesLayout& layout;
  float* shared;

  __device__ __forceinline__ int threads() const { return static_cast<int>(blockDim.x); }
  __device__ __forceinline__ int groups() const { return batch.tiles * kPlaces; }
  __device__ __forceinline__ int64_t first() const {
    return int64_t(block_number()) * (groups() * kTile);
  }
  // Where a group's rows [4, C] begin. The gaps keep them in different banks.
  __device__ __forceinline__ int group(int g) const { return g * kTile * batch.classes + (g & ~3); }
  __device__ __forceinline__ int tile() const { return warp_number() >> layout.sharing_shift; }
  // Of the rows that this warp has of its tile. Where they do not divide evenly, which warp has one
  // more changes from block to block.
  __device__ __forceinline__ int turn() const {
    return (warp_number() + block_turn()) & (batch.sharing - 1);
  }
  __device__ __forceinline__ int group_of_lane() const {
    return tile() * kPlaces + Tile::group(lane_number());
  }

  // Rows of a [N, C] between memories, in whole vectors where pointers allow it.
  template <class S>
  struct Quad {
    static constexpr int kAtOnce = 2;  // enough for all groups
    Four<float> of[kAtOnce];
  };
  // visit(u, number in the batch, place in shared memory) for the four numbers of this thread.
  template <class Visit>
  __device__ __forceinline__ void each_quad(const Visit& visit) const {
    const int f = static_cast<int>(thread_number() % kGroupLanes);
    const int step = threads() / kGroupLanes;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int g = static_cast<int>(thread_number() / kGroupLanes) + u * step;
      if (f >= batch.classes || g >= groups()) continue;
      visit(u, (first() + g * kTile) * batch.classes + kTile * f, group(g) + kTile * f);
    }
  }
  template <class S>
  __device__ __forceinline__ Quad<S> load_rows(const S* from) const {
    Quad<S> held;
    each_quad([&](int u, int64_t at, int) {
      held.of[u] = {};
      if (batch.aligned && at + kTile <= batch.samples * batch.classes) {
        held.of[u] = load_four(from + at);
        return;
      }
#pragma unroll
      for (int v = 0; v < kTile; ++v) {
        if (at + v < batch.samples * batch.classes) held.of[u].of[v] = load<float>(from + at + v);
      }
    });
    return held;
  }
  template <class S>
  __device__ __forceinline__ void put_rows(const Quad<S>& held, float* to) const {
    each_quad([&](int u, int64_t, int place) { store_four(to + place, held.of[u]); });
  }
  template <class S>
  __device__ __forceinline__ void write_rows(const float* from, S* to) const {
    each_quad([&](int, int64_t at, int place) {
      const Four<float> four = load_four(from + place);
      if (batch.aligned && at + kTile <= batch.samples * batch.classes) {
        return store_four(to + at, four);
      }
#pragma unroll
      for (int v = 0; v < kTile; ++v) {
        if (at + v < batch.samples * batch.classes) store(to + at + v, four.of[v]);
      }
    });
  }

  // `count` rows [C] to rows [kColumns].
  __device__ __forceinline__ void stage_matrix(const float* from, int count, float* to) const {
    const int classes = batch.classes;
    if (classes == Tile::kColumns && batch.matrix.vectors) {
      const int vectors = count * Tile::kColumns / kTile;
#pragma unroll 2
      for (int t = static_cast<int>(thread_number()); t < vectors; t += threads()) {
        reinterpret_cast<float4*>(to)[t] = reinterpret_cast<const float4*>(from)[t];
      }
      return;
    }
    const int c = static_cast<int>(thread_number() % kGroupLanes);
    if (c >= Tile::kColumns) return;
#pragma unroll 4
    for (int row = static_cast<int>(thread_number() / kGroupLanes); row < count;
         row += threads() / kGroupLanes) {
      to[row * Tile::kColumns + c] = c < classes ? from[row * classes + c] : 0.0f;
    }
  }
  __device__ __forceinline__ void stage_parts() const {
    const int rows = batch.parts * batch.classes;
    float* const to = shared + layout.parts;
    stage_matrix(batch.matrix.parts, rows, to);
    float* const after = to + rows * Tile::kColumns;
    if (batch.matrix.slacks) stage_matrix(batch.matrix.slack, batch.classes, after);
    float* const zeros = after + batch.matrix.slacks * batch.classes * Tile::kColumns;
    for (int t = static_cast<int>(thread_number()); t < layout.padding * Tile::kColumns;
         t += threads()) {
      zeros[t] = 0.0f;
    }
  }

  // Sums over the rows a that this warp has of T(x), or over the columns where kAcross;
  // `use(place of coefficient a, m, sum)` adds a finished one.
  template <bool kAcross, class Use>
  __device__ __forceinline__ void add_rows(Tile& sum, const Use& use) const {
    constexpr int kStep = kAcross ? Tile::kColumns : 1;
    sum.clear();
#pragma unroll 1
    for (int a = turn(); a < batch.classes; a += batch.sharing) {
      const int h = 4 * layout.weights + tile() * layout.tile_bytes;
      const int row = 4 * layout.parts + 4 * a * (kAcross ? 1 : Tile::kColumns);
      Tile m;
      const typename Tile::template Place<kStep> place(row, lane_id() % Tile::kLanes, Tile::kLanes);
      m.template set_parts<2, kStep>(shared, h, place, layout.part_bytes, batch.parts,
                                     batch.matrix.slacks, layout.slack_bytes);
      if (batch.matrix.slacks) m.clamp();
      use(shared + group(group_of_lane()) + a, m, sum);
    }
  }

  // Sums of the warps of a tile, in the first of them: true there. A block barrier comes before,
  // since their place is that of weights and parts, and has to come after.
  __device__ __forceinline__ bool gather(Tile& sum) const {
    const int slot = tile() * (batch.sharing - 1);
    Four<float>* const at = reinterpret_cast<Four<float>*>(shared + layout.weights) +
                            slot * Tile::kEach * kWarp + lane_number();
    __syncthreads();
    if (turn() > 0) {
#pragma unroll
      for (int v = 0; v < Tile::kEach; ++v) {
        Four<float> four;
#pragma unroll
        for (int s = 0; s < kTile; ++s) four.of[s] = sum.of[s][v];
        at[((turn() - 1) * Tile::kEach + v) * kWarp] = four;
      }
    }
    __syncthreads();
    if (turn() > 0) return false;
#pragma unroll 1
    for (int other = 0; other + 1 < batch.sharing; ++other) {
#pragma unroll
      for (int v = 0; v < Tile::kEach; ++v) {
        const Four<float> four = at[(other * Tile::kEach + v) * kWarp];
#pragma unroll
        for (int s = 0; s < kTile; ++s) sum.of[s][v] += four.of[s];
      }
    }
    return true;
  }
  // This lane's sums to rows [4, C].
  __device__ __forceinline__ void put_sums(const Tile& sum, float* to) const {
    float* const rows = to + group(group_of_lane());
#pragma unroll
    for (int v = 0; v < Tile::kEach; ++v) {
      const int c = Tile::column(v, lane_number() % Tile::kLanes, Tile::kLanes);
      if (c >= batch.classes) continue;
#pragma unroll
      for (int s = 0; s < kTile; ++s) rows[s * batch.classes + c] = sum.of[s][v];
    }
  }
  // Row n of the block in rows [4, C].
  __device__ __forceinline__ float* row(float* rows, int n) const {
    return rows + group(n / kTile) + n % kTile * batch.classes;
  }
};

// g = softmax(z); zero beyond the last class.
template <int V>
__device__ __forceinline__ void softmax_of(const float* z, int classes, float (&g)[V]) {
  float top = -infinity<float>(), sum = 0.0f;
#pragma unroll
  for (int c = 0; c < V; ++c) {
    g[c] = c < classes ? z[c] : -infinity<float>();
    top = max_of(top, g[c]);
  }
#pragma unroll
  for (int c = 0; c < V; ++c) sum += g[c] = exp_of(g[c] - top);
  const float inverse = 1.0f / sum;
#pragma unroll
  for (int c = 0; c < V; ++c) g[c] *= inverse;
}

}  // namespace ptd
