// A block of the kernels for 33 to 128 classes (noisy_posterior_warps_kernels.cuh): `sharing` warps
// have a tile of 32 samples, each of them its own columns of T(x). The other warps load: while one
// row of T(x), or some parts of it, is used, they bring the next one to shared memory, and its
// coefficients.
#pragma once

#include "noisy_posterior_tile.cuh"

namespace ptd {

constexpr int kWarpsQ = 4;
constexpr int kWarpsOfBlock = 8;
constexpr int kWarpsBlock = kWarpsOfBlock * kWarp;
constexpr int kMostClassesOfWarps = 128;

// A barrier of the whole block that warps reach from different places. Hardware counts warps, not
// places; but C++ leaves __syncthreads in branches that part a block undefined.
__device__ __forceinline__ void meet() {
#ifdef __CUDA_ARCH__
  asm volatile("bar.sync 0;" ::: "memory");
#else
  __syncthreads();
#endif
}

// The dynamic shared memory of a block, set out by the launcher, in numbers: tiles of weights
// [tiles, R, kPitch], and then, by sample of the block, where these begin.
struct WarpsLayout {
  int samples, computing;  // samples, and warps that compute, of the block
  int coefficients;        // [4, samples]: used while those of the second next row are written
  int tops, inverses;      // [samples]: largest logit, inverse sum of exponentials
  int uniforms;            // [samples]: mean of G
  int sums;                // [2, sharing, samples]: what the warps of a tile add up, row by row
  int rows, pitch;         // [2, staged, pitch]: slack, if any, and parts
  int tile_bytes, pitch_bytes, buffer_bytes;  // of a tile of weights, a slice, all staged
  int started;                                // bytes of a row's slack, if any
  int numbers;                                // of all
};

// A block's place in the batch, and its shared memory.
template <class Tile>
struct WarpsBlock {
  static_assert(Tile::kSamples == kWarp);
  const TiledBatch& batch;
  const WarpsLayout& layout;
  float* shared;

  __device__ __forceinline__ int64_t first() const {
    return int64_t(block_number()) * layout.samples;
  }
  __device__ __forceinline__ bool has_slack() const { return batch.matrix.slacks; }
  __device__ __forceinline__ int slices() const { return batch.parts + batch.matrix.slacks; }
  // Of this warp: those that compute come first.
  __device__ __forceinline__ int number() const {
    return (warp_number() + block_turn()) & (kWarpsOfBlock - 1);
  }
  // This warp's tile, its place among those that share it, and where its columns begin.
  __device__ __forceinline__ int tile() const {
    const int warp = number();
    return (warp >= batch.sharing) + (warp >= 2 * batch.sharing);
  }
  __device__ __forceinline__ int place() const { return number() - tile() * batch.sharing; }
  __device__ __forceinline__ int begin() const { return place() * Tile::kColumns; }
  // First of this lane's samples.
  __device__ __forceinline__ int sample() const {
    return tile() * Tile::kSamples + Tile::first_sample(lane_number());
  }
  __device__ __forceinline__ float* coefficients(int row) const {  // [samples]
    return shared + layout.coefficients + (row & 3) * layout.samples;
  }
  __device__ __forceinline__ float* sums(int row) const {  // [sharing, samples]
    return shared + layout.sums + (row & 1) * batch.sharing * layout.samples;
  }
  __device__ __forceinline__ float* rows(int step) const {  // [staged, pitch]
    return shared + layout.rows + (step & 1) * batch.staged * layout.pitch;
  }

  __device__ __forceinline__ int row_of_warp(int step) const {  // in bytes
    return 4 * (layout.rows + begin()) + (step & 1) * layout.buffer_bytes;
  }

  // What is known of each sample from the start; a warp has one. `grad` may be nullptr.
  template <class Z>
  __device__ __forceinline__ void reduce(const Z* logits, const float* grad) const {
    constexpr int kEach = kMostClassesOfWarps / kWarp;
    const int classes = batch.classes;
#pragma unroll 1
    for (int n = warp_id(); n < layout.samples && first() + n < batch.samples; n += kWarpsOfBlock) {
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
    const int padding = layout.pitch - batch.classes;
    for (int t = static_cast<int>(thread_number()); t < 2 * batch.staged * padding;
         t += kWarpsBlock) {
      rows(0)[t / padding * layout.pitch + batch.classes + t % padding] = 0.0f;
    }
  }

  // `count` slices from `start` on, of row a, by the warps that load.
  __device__ __forceinline__ void load_slices(int a, int start, int count, int step) const {
    const MatrixView& matrix = batch.matrix;
    const int loaders = kWarpsOfBlock - layout.computing, mine = number() - layout.computing;
    const int slacks = start == 0 ? matrix.slacks : 0;
    float* to = rows(step);
    if (slacks && mine == loaders - 1) {  // the one that has least to do else
#pragma unroll 1
      for (int c = lane_id(); c < batch.classes; c += kWarp) {
        to[c] = matrix.slack[a * matrix.slack_outer + c * matrix.slack_step];
      }
    }
    to += (slacks + mine) * layout.pitch;
    const float* from =
        matrix.parts + (a * matrix.outer + (start + slacks - matrix.slacks + mine) * matrix.inner);
    int left = count - slacks - mine;
    if (matrix.vectors) {
      // There is a lane for every vector. All loads are under way before the first is waited for.
      constexpr int kAtOnce = 4;
      if (4 * lane_id() >= batch.classes) return;
      from += 4 * lane_id();
      to += 4 * lane_id();
#pragma unroll 1
      for (; left > 0; left -= kAtOnce * loaders) {
        float4 held[kAtOnce];
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u, from += loaders * matrix.inner) {
          if (u * loaders < left) held[u] = *reinterpret_cast<const float4*>(from);
        }
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u, to += loaders * layout.pitch) {
          if (u * loaders < left) *reinterpret_cast<float4*>(to) = held[u];
        }
      }
      return;
    }
#pragma unroll 1
    for (; left > 0; left -= loaders) {
#pragma unroll 4
      for (int c = lane_id(); c < batch.classes; c += kWarp) to[c] = from[c * matrix.step];
      from += loaders * matrix.inner;
      to += loaders * layout.pitch;
    }
  }

  // What the warps that load do: step by step, one ahead of the others. `coefficient(n, a)` is the
  // one of row a and the block's sample n; `finish(n, a)` comes when the others have been through
  // a row.
  template <class Coefficient, class Finish>
  __device__ __forceinline__ void load_rows(const Coefficient& coefficient,
                                            const Finish& finish) const {
    const int before = layout.computing * kWarp,
              there = static_cast<int>(batch.samples - first() < layout.samples
                                           ? batch.samples - first()
                                           : layout.samples);
    int step = 0;
#pragma unroll 1
    for (int a = 0; a <= batch.classes; ++a) {
      const bool is_row = a < batch.classes;
      for (int n = number() * kWarp + lane_id() - before; is_row && n < layout.samples;
           n += kWarpsBlock - before) {
        coefficients(a)[n] = n < there ? coefficient(n, a) : 0.0f;
      }
      int start = 0;
#pragma unroll 1
      do {
        const int left = slices() - start;
        if (is_row) load_slices(a, start, left < batch.staged ? left : batch.staged, step);
        meet();
        if (start == 0 && a > 0) {
          for (int n = number() * kWarp + lane_id() - before; n < there; n += kWarpsBlock - before)
            finish(n, a - 1);
        }
        start += batch.staged;
        ++step;
      } while (is_row && start < slices());
    }
  }

  // What the others do. `prepare(a, m)` follows on a row that is there, `use(a, m, sum)` comes
  // after the next barrier.
  template <class Prepare, class Use>
  __device__ __forceinline__ void add_rows(Tile& sum, const Prepare& prepare,
                                           const Use& use) const {
    Tile m;
    sum.clear();
    int step = 0;
#pragma unroll 1
    for (int a = 0; true; ++a, ++step) {
      meet();
      if (a > 0) use(a - 1, m, sum);
      if (a == batch.classes) break;
      const int count = slices() < batch.staged ? slices() : batch.staged;
      const int row = row_of_warp(step);
      m.template set_parts<1, 1>(shared, tile() * layout.tile_bytes, row + layout.started,
                                 layout.pitch_bytes, count - batch.matrix.slacks, has_slack(), row);
#pragma unroll 1
      for (int start = batch.staged; start < slices(); start += batch.staged) {
        meet();
        const int left = slices() - start;
        const int h = tile() * layout.tile_bytes + 4 * (start - batch.matrix.slacks) * Tile::kPitch;
        m.template add_parts<1, 1>(shared, h, row_of_warp(++step), layout.pitch_bytes,
                                   left < batch.staged ? left : batch.staged);
      }
      if (has_slack()) m.clamp();
      prepare(a, m);
    }
  }

  __device__ __forceinline__ Four<float> coefficients_of_lane(int a) const {
    return *reinterpret_cast<const Four<float>*>(coefficients(a) + sample());
  }
  // This lane's part of what the warps of a tile add up, and, after a barrier, the sums.
  __device__ __forceinline__ void put(int row, Four<float> part) const {
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
#pragma unroll
      for (int offset = 1; offset < kWarpsQ; offset *= 2) {
        part.of[s] += __shfl_xor_sync(0xffffffffu, part.of[s], offset);
      }
    }
    if (thread_number() % kWarpsQ > 0) return;
    *reinterpret_cast<Four<float>*>(sums(row) + place() * layout.samples + sample()) = part;
  }
  __device__ __forceinline__ Four<float> get(int row) const {
    const float* from = sums(row) + sample();
    Four<float> sum = {};
#pragma unroll 1
    for (int warp = 0; warp < batch.sharing; ++warp, from += layout.samples) {
      const Four<float> part = *reinterpret_cast<const Four<float>*>(from);
#pragma unroll
      for (int s = 0; s < kTile; ++s) sum.of[s] += part.of[s];
    }
    return sum;
  }

  // visit(place in a [N, C], sample of the block, s, v) for what this lane has of the results.
  template <class Visit>
  __device__ __forceinline__ void each(const Visit& visit) const {
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      const int n = sample() + s;
      if (first() + n >= batch.samples) continue;
#pragma unroll
      for (int v = 0; v < Tile::kEach; ++v) {
        const int c = begin() + Tile::column(v);
        if (c < batch.classes) visit((first() + n) * batch.classes + c, n, s, v);
      }
    }
  }
};

}  // namespace ptd
