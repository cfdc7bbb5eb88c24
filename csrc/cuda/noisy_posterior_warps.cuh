// A block of the kernels for 33 to 128 classes with slack (noisy_posterior_warps_kernels.cuh). Most
// warps multiply: `sharing` of them have a tile of 18 samples, six times three; five lanes of each
// have the same three. The other warps load: the next chunk of a row of the parts, and all that a
// row needs besides, while the first use this one.
#pragma once

#include "noisy_posterior_stage.cuh"

namespace ptd {

constexpr int kWarpsMostThreads = 512;
constexpr int kWarpsSamples = 3;  // of a lane
constexpr int kMostClassesOfWarps = 128;
using WarpsTile = LaneTile<5, 5, kWarpsSamples>;
// Numbers from a row of parts to the next, for all columns that the lanes of a tile have.
constexpr int kWarpsRowPitch = 152;

// The dynamic shared memory of a block, set out by the launcher, in numbers: tiles of weights
// [tiles, R, kPitch], and then where these begin. Where there are two, rows or chunks have them in
// turn.
struct WarpsLayout {
  int coefficients;          // [2, slots]: of a row
  int slack;                 // [2, kWarpsRowPitch]: of a row
  int rows;                  // [2, chunk, kWarpsRowPitch]: of the parts
  int sums;                  // [2, warps, kSlots]: what the warps of a tile add up
  int tops, inverses;        // [slots]: largest logit, inverse sum of exponentials
  int uniforms;              // [slots]: mean of G
  int slots, chunk;          // of the block, parts
  int quads, inverse_quads;  // of a row: four neighbours each; 65536 / quads, rounded up
  int numbers;               // of all
};

// A block's place in the batch, and its shared memory.
struct WarpsBlock : LoadingBlock {
  using Tile = WarpsTile;
  using Place = Tile::Place;
  const WarpsLayout& layout;
  float* shared;

  __device__ __forceinline__ int64_t first() const {
    return int64_t(block_number()) * (batch.tiles * Tile::kSamples);
  }
  // The sample of a slot; none beyond the batch's last, or where the slot is not used.
  static __device__ __forceinline__ int sample(int slot) {
    return slot / kTile * kWarpsSamples + slot % kTile;
  }
  __device__ __forceinline__ bool inside(int slot) const {
    return slot % kTile < kWarpsSamples && first() + sample(slot) < batch.samples;
  }

  // What is known of each sample from the start; a warp has one. `grad` may be nullptr.
  template <class Z>
  __device__ __forceinline__ void reduce(const Z* logits, const float* grad) const {
    constexpr int kEach = kMostClassesOfWarps / kWarp;
    const int classes = batch.classes;
#pragma unroll 1
    for (int at = warp_id(); at < layout.slots; at += warps()) {
      if (!inside(at)) continue;
      const int64_t row = (first() + sample(at)) * classes;
      float z[kEach], top = -infinity<float>(), sum = 0.0f, mean = 0.0f;
#pragma unroll
      for (int v = 0; v < kEach; ++v) {
        const int c = lane_id() + v * kWarp;
        z[v] = c < classes ? load<float>(logits + row + c) : -infinity<float>();
        top = max_of(top, z[v]);
        if (grad && c < classes) mean += grad[row + c];
      }
      top = lanes_max<kWarp>(top);
#pragma unroll
      for (int v = 0; v < kEach; ++v) sum += exp_of(z[v] - top);
      sum = lanes_sum<kWarp>(sum);
      if (grad) mean = lanes_sum<kWarp>(mean);
      if (lane_id() > 0) continue;
      shared[layout.tops + at] = top;
      shared[layout.inverses + at] = 1.0f / sum;
      shared[layout.uniforms + at] = mean / static_cast<float>(classes);
    }
  }
  // exp(z - top) / sum of exponentials.
  __device__ __forceinline__ float softmax(float z, int slot) const {
    return exp_of(z - shared[layout.tops + slot]) * shared[layout.inverses + slot];
  }

  // Zeros beyond the last quad of a row, which no chunk brings. By the whole block.
  __device__ __forceinline__ void pad_rows() const {
    for (int row = warp_id(); row < 2 + 2 * layout.chunk; row += warps()) {
      for (int c = kTile * layout.quads + lane_id(); c < kWarpsRowPitch; c += kWarp) {
        shared[layout.slack + row * kWarpsRowPitch + c] = 0.0f;
      }
    }
  }

  // Parts of the chunk that starts with part j.
  __device__ __forceinline__ int left(int j) const {
    return batch.parts - j < layout.chunk ? batch.parts - j : layout.chunk;
  }
  // The chunk of row a that starts with part j, and with the first of a row the slack.
  __device__ __forceinline__ void put_rows(Turns turns, int a, int j, int buffer) const {
    const Way way(turns, layout.quads, layout.inverse_quads);
    float* const to = shared + layout.rows + buffer * layout.chunk * kWarpsRowPitch;
    copy_rows(batch, way, a, j, left(j), to, kWarpsRowPitch);
    if (j > 0 || way.part > 0) return;
    store_four(shared + layout.slack + (a & 1) * kWarpsRowPitch + way.c,
               load_quad(batch, batch.matrix.slack + (a * batch.classes + way.c), way.c));
  }
  // Coefficients of row a: `finish(fetch(place in a [N, C]), slot)`.
  template <class Fetch, class Finish>
  __device__ __forceinline__ void put_coefficients(Turns turns, int a, const Fetch& fetch,
                                                   const Finish& finish) const {
    for (int at = turns.first; at < layout.slots; at += turns.step) {
      float value = 0.0f;
      if (inside(at)) value = finish(fetch((first() + sample(at)) * batch.classes + a), at);
      shared[layout.coefficients + (a & 1) * layout.slots + at] = value;
    }
  }

  // What a lane has: entries of a row, and samples.
  struct Lane {
    int tile;    // of the block
    int of_row;  // number of all that have a row

    __device__ __forceinline__ explicit Lane(const TiledBatch& batch)
        : tile(warp_number() / batch.sharing),
          of_row(warp_number() % batch.sharing * Tile::kLanes + lane_number() % Tile::kLanes) {}
    // First of its slots.
    __device__ __forceinline__ int slot() const {
      return tile * Tile::kSlots + Tile::first_slot(lane_number());
    }
  };
  __device__ __forceinline__ Place place(const Lane& lane, int row) const {
    return Place(4 * row, lane.of_row, Tile::kLanes * batch.sharing);
  }

  // Sums over all rows, in the lanes that multiply. `before(a, m)` sees a row when it is formed,
  // `use(a, m)` after a block barrier. Coefficients are those of put_coefficients.
  template <class Fetch, class Finish, class Before, class Use>
  __device__ __forceinline__ void add_rows(const Lane& lane, const Fetch& fetch,
                                           const Finish& finish, const Before& before,
                                           const Use& use) const {
    put_rows(of_all(), 0, 0, 0);
    __syncthreads();
    Tile m;
    // The buffer, and whether this warp multiplies: one register has both.
    int state = multiplies() ? 2 : 0, a = 0, j = 0;
    do {
      const int buffer = state & 1;
      const int count = left(j);
      const int next_j = j + count < batch.parts ? j + count : 0, next_a = a + (next_j == 0);
      if (state & 2) {
        if (j == 0) m.start(shared, place(lane, layout.slack + (a & 1) * kWarpsRowPitch));
        const int h = 4 * (lane.tile * batch.parts + j) * Tile::kPitch;
        const int row = layout.rows + buffer * layout.chunk * kWarpsRowPitch;
        m.add_parts<4>(shared, h, place(lane, row), 4 * kWarpsRowPitch, count);
        if (next_j == 0) {
          m.clamp();
          before(a, m);
        }
      } else {
        if (next_a < batch.classes) put_rows(of_loading(), next_a, next_j, buffer ^ 1);
        if (next_j == 0) put_coefficients(of_loading(), a, fetch, finish);
      }
      __syncthreads();
      if (next_j == 0 && (state & 2)) use(a, m);
      state ^= 1;
      j = next_j;
      a = next_a;
    } while (a < batch.classes);
  }

  // What this warp adds to the sums over the lanes that have the samples of a tile, of which there
  // are two in turn. Read after a block barrier.
  __device__ __forceinline__ void put_sums(int turn, const Four<float>& part) const {
    const Four<float> sum = Tile::over_lanes(part);
    const int lane = lane_number(), at = (turn & 1) * warps() + warp_number();
    if (lane % Tile::kLanes > 0 || Tile::is_spare(lane)) return;
    store_four(shared + layout.sums + at * Tile::kSlots + Tile::first_slot(lane), sum);
  }
  // The sum for sample s of this lane's.
  __device__ __forceinline__ float sum_of(const Lane& lane, int turn, int s) const {
    int at = ((turn & 1) * warps() + lane.tile * batch.sharing) * Tile::kSlots;
    at += layout.sums + Tile::first_slot() + s;
    float sum = 0.0f;
#pragma unroll 2
    for (int warp = 0; warp < batch.sharing; ++warp) sum += shared[at + warp * Tile::kSlots];
    return sum;
  }
  // What each lane has of one of its samples, for all of these.
  static __device__ __forceinline__ Four<float> over_samples(float value) {
    Four<float> all = {};
    const int first = lane_number() - lane_number() % Tile::kLanes;
#pragma unroll
    for (int s = 0; s < kWarpsSamples; ++s) {
      all.of[s] = __shfl_sync(0xffffffffu, value, (first + s) % kWarp);
    }
    return all;
  }

  // visit(place in a [N, C], slot, s, v) for what this lane has of the results.
  template <class Visit>
  __device__ __forceinline__ void each(const Lane& lane, const Visit& visit) const {
    if (!multiplies() || Tile::is_spare(lane_number())) return;
#pragma unroll
    for (int s = 0; s < kWarpsSamples; ++s) {
      const int at = lane.slot() + s;
      if (!inside(at)) continue;
      const int64_t row = (first() + sample(at)) * batch.classes;
#pragma unroll
      for (int v = 0; v < Tile::kEach; ++v) {
        const int c = Tile::column(v, lane.of_row, Tile::kLanes * batch.sharing);
        if (c < batch.classes) visit(row + c, at, s, v);
      }
    }
  }
};

}  // namespace ptd
