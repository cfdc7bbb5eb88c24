// A block of the kernels for 33 to 128 classes (noisy_posterior_warps_kernels.cuh): `sharing` warps
// have a tile of 24 samples, six times four; five lanes of each have the same four. The parts pass
// through shared memory a row of T(x) at a time.
//
// There are four warps, or a multiple, so that all schedulers of a multiprocessor have as much to
// do. Other blocks compute while one waits for a row.
#pragma once

#include "noisy_posterior_stage.cuh"

namespace ptd {

constexpr int kWarpsLanes = 5;  // of a warp that have the same samples
constexpr int kWarpsMostWarps = 16;
constexpr int kMostClassesOfWarps = 128;

// The dynamic shared memory of a block, set out by the launcher, in numbers: tiles of weights
// [tiles, R, kPitch], and then, by sample of the block, where these begin.
struct WarpsLayout {
  int samples;                  // of the block
  int sharing_shift;            // two to its power: the warps that share a tile
  int coefficients;             // [samples]: of the row
  int tops, inverses;           // [samples]: largest logit, inverse sum of exponentials
  int uniforms;                 // [samples]: mean of G
  int sums;                     // [warps, kSamples]: what the warps of a tile add up
  int places;                   // [threads], of their sums
  int rows, pitch;              // [1 + R or R, pitch]: slack, if any, and parts
  int tile_bytes, pitch_bytes;  // of a tile of weights, of a slice
  int started;                  // bytes of a row's slack, if any
  int numbers;                  // of all
};

// A block's place in the batch, and its shared memory.
template <class Tile>
struct WarpsBlock {
  const TiledBatch& batch;
  const WarpsLayout& layout;
  float* shared;

  __device__ __forceinline__ int64_t first() const {
    return int64_t(block_number()) * layout.samples;
  }
  __device__ __forceinline__ int warps() const { return static_cast<int>(blockDim.x) / kWarp; }
  __device__ __forceinline__ bool has_slack() const { return batch.matrix.slacks; }
  // This warp's tile, and its place among those that share it.
  __device__ __forceinline__ int tile() const { return warp_number() >> layout.sharing_shift; }
  __device__ __forceinline__ int place() const { return warp_number() - tile() * batch.sharing; }
  // Number of this lane, of all that have a row.
  __device__ __forceinline__ int lane_of_row() const {
    return place() * kWarpsLanes + lane_number() % kWarpsLanes;
  }
  __device__ __forceinline__ int lanes_of_row() const { return batch.sharing * kWarpsLanes; }
  // First of this lane's samples.
  __device__ __forceinline__ int sample() const {
    return tile() * Tile::kSamples + Tile::first_sample(lane_number());
  }
  __device__ __forceinline__ bool inside(int n) const {
    return n < layout.samples && first() + n < batch.samples;
  }

  // What is known of each sample from the start; a warp has one. `grad` may be nullptr.
  template <class Z>
  __device__ __forceinline__ void reduce(const Z* logits, const float* grad) const {
    constexpr int kEach = kMostClassesOfWarps / kWarp;
    const int classes = batch.classes;
#pragma unroll 1
    for (int n = warp_id(); inside(n); n += warps()) {
      const int64_t row = (first() + n) * classes;
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
      shared[layout.tops + n] = top;
      shared[layout.inverses + n] = 1.0f / sum;
      shared[layout.uniforms + n] = mean / static_cast<float>(classes);
    }
  }

  // Zeros beyond the last class, by the whole block.
  __device__ __forceinline__ void pad_rows() const {
    for (int s = warp_id(); s < batch.parts + batch.matrix.slacks; s += warps()) {
      for (int c = batch.classes + lane_id(); c < layout.pitch; c += kWarp) {
        shared[layout.rows + s * layout.pitch + c] = 0.0f;
      }
    }
  }

  // Row a of slack and parts; a warp takes one at a time.
  __device__ __forceinline__ void load_row(int a) const {
    const MatrixView& matrix = batch.matrix;
    const int mine = warp_number();
    float* to = shared + layout.rows;
    if (has_slack() && mine == warps() - 1) {  // the one that has least to do else
#pragma unroll 1
      for (int c = lane_id(); c < batch.classes; c += kWarp) {
        to[c] = matrix.slack[a * matrix.slack_outer + c * matrix.slack_step];
      }
    }
    to += (matrix.slacks + mine) * layout.pitch;
    const float* from = matrix.parts + (a * matrix.outer + mine * matrix.inner);
    int left = batch.parts - mine;
    if (matrix.vectors) {
      // There is a lane for every vector.
      if (4 * lane_id() >= batch.classes) return;
      from += 4 * lane_id();
      to += 4 * lane_id();
#pragma unroll 1
      for (; left > 0; left -= warps()) {
        *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
        from += warps() * matrix.inner;
        to += warps() * layout.pitch;
      }
      return;
    }
#pragma unroll 1
    for (; left > 0; left -= warps()) {
#pragma unroll 2
      for (int c = lane_id(); c < batch.classes; c += kWarp) to[c] = from[c * matrix.step];
      from += warps() * matrix.inner;
      to += warps() * layout.pitch;
    }
  }

  // Sums over all rows. `coefficient(n, a)` is the one of row a and the block's sample n;
  // `use(a, m, sum)` adds a finished row.
  template <class Coefficient, class Use>
  __device__ __forceinline__ void add_rows(Tile& sum, const Coefficient& coefficient,
                                           const Use& use) const {
    using Place = typename Tile::template Place<1>;
    sum.clear();
#pragma unroll 1
    for (int a = 0; a < batch.classes; ++a) {
      __syncthreads();
      if (const int n = static_cast<int>(thread_number()); n < layout.samples) {
        shared[layout.coefficients + n] = inside(n) ? coefficient(n, a) : 0.0f;
      }
      load_row(a);
      __syncthreads();
      Tile m;
      const Place place(4 * layout.rows + layout.started, lane_of_row(), lanes_of_row());
      m.template set_parts<1, 1>(shared, tile() * layout.tile_bytes, place, layout.pitch_bytes,
                                 batch.parts, has_slack(), -layout.started);
      if (has_slack()) m.clamp();
      use(a, m, sum);
    }
  }

  // Where the first of the lanes with the same samples puts their sums; the others have none. In
  // shared memory, since there is no register for it while a row is formed.
  __device__ __forceinline__ void set_place() const {
    const bool is_first = lane_id() % kWarpsLanes == 0 && !Tile::is_spare(lane_id());
    const int to = layout.sums + warp_id() * Tile::kSamples + Tile::first_sample();
    reinterpret_cast<int*>(shared)[layout.places + thread_number()] = is_first ? to : -1;
  }
  // Coefficients of the row, for the samples of this lane.
  __device__ __forceinline__ Four<float> coefficients() const {
    return Tile::template at<Four<float>>(shared, 4 * (layout.coefficients + sample()));
  }
  // Where the sums of the block's sample n begin, one for each warp of its tile, kSamples apart.
  __device__ __forceinline__ int sums(int n) const {
    const int warp = n / Tile::kSamples * batch.sharing;
    return layout.sums + warp * Tile::kSamples + n % Tile::kSamples;
  }
  // Sums over the warps of a tile, each with its part, for the samples of this lane.
  __device__ __forceinline__ Four<float> over_warps(const Four<float>& part) const {
    const Four<float> of_warp = Tile::over_lanes(part);
    const int to = Tile::template at<int>(shared, 4 * (layout.places + thread_number()));
    if (to >= 0) store_four(shared + to, of_warp);
    __syncthreads();
    int from = 4 * sums(sample());
    Four<float> sum = {};
#pragma unroll 1
    for (int warp = 0; warp < batch.sharing; ++warp, from += 4 * Tile::kSamples) {
      const Four<float> four = Tile::template at<Four<float>>(shared, from);
#pragma unroll
      for (int s = 0; s < kTile; ++s) sum.of[s] += four.of[s];
    }
    return sum;
  }

  // visit(place in a [N, C], sample of the block, s, v) for what this lane has of the results.
  template <class Visit>
  __device__ __forceinline__ void each(const Visit& visit) const {
    if (Tile::is_spare(lane_number())) return;
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      const int n = sample() + s;
      if (first() + n >= batch.samples) continue;
#pragma unroll
      for (int v = 0; v < Tile::kEach; ++v) {
        const int c = Tile::column(v, lane_of_row(), lanes_of_row());
        if (c < batch.classes) visit((first() + n) * batch.classes + c, n, s, v);
      }
    }
  }
};

}  // namespace ptd
