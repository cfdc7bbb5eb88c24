// Up to sixteen classes: two lanes per sample, each with V classes, V = 5 or 8.
//
// A warp takes a tile of sixteen samples; lane l has classes (l / 16) V onwards of sample l % 16.
// Their rows of logits and weights are neighbours in memory: the warp copies them to shared memory
// as one run of 16-byte vectors, so that every byte is read once and in whole lines, and results go
// back the same way. The parts are in shared memory, the same for the whole block.
//
// Samples of a warp have different labels, so its lanes read different columns at once. Each half
// of the classes of a column is kept in planes: [C, R] of four classes each, and [C, R] of single
// ones for what is left of V. With an odd number of rows per column, columns start in different
// banks: reads of single classes are free of conflicts (the planes of the two halves are sixteen
// banks apart), and eight lanes that read four classes each meet only if labels differ by eight.
#pragma once

#include "column.cuh"
#include "label_batch.cuh"

namespace ptd {

constexpr int kNarrowThreads = 256;
constexpr int kNarrowWarps = kNarrowThreads / 32;
constexpr int kNarrowTile = 16;  // samples of a warp
constexpr int kNarrowBlockSamples = kNarrowWarps * kNarrowTile;
constexpr int kNarrowMaxClasses = 16;

// The dynamic shared memory of a block, in bytes from its start; launcher and kernel agree by it.
template <int V>
struct NarrowLayout {
  static constexpr int kVectors = V / 4;  // planes of four classes, per half
  static constexpr int kSingles = V % 4;  // planes of one class, per half

  int pitch;            // rows of a column in a plane: R made odd
  int singles_of_half;  // floats
  int singles, slack, weights, logits, bytes;

  __host__ __device__ NarrowLayout(int classes, int parts, bool has_slack, int logit_bytes) {
    pitch = parts | 1;
    // Padded to sixteen banks more than a multiple of all 32.
    const int rows = kSingles * classes * pitch;
    singles_of_half = kSingles ? (rows + 15) / 32 * 32 + 16 : 0;
    singles = 2 * kVectors * classes * pitch * 16;
    slack = singles + 2 * singles_of_half * 4;
    weights = slack + (has_slack ? classes * 2 * V * 4 : 0);
    weights = (weights + 15) / 16 * 16;
    logits = weights + kNarrowWarps * tile_of(parts, classes) * 4;
    bytes = logits + kNarrowWarps * kNarrowTile * classes * logit_bytes;
  }

  // Floats of a warp's tile: its rows of weights, and later rows of results.
  static __host__ __device__ int tile_of(int parts, int classes) {
    return kNarrowTile * (parts > classes ? parts : classes);
  }
};

// Between global and shared memory, by the lanes of a warp; both start at a multiple of 16 bytes.
template <class S>
__device__ __forceinline__ void copy_flat(const S* from, S* to, int count) {
  constexpr int kPerVector = 16 / sizeof(S);
  const int vectors = count / kPerVector;
#pragma unroll 4
  for (int t = lane_id(); t < vectors; t += kWarp) {
    reinterpret_cast<uint4*>(to)[t] = reinterpret_cast<const uint4*>(from)[t];
  }
  for (int t = vectors * kPerVector + lane_id(); t < count; t += kWarp) to[t] = from[t];
}

template <class S>
__device__ __forceinline__ void read_tile(const Rows<const S>& rows, int64_t first, int count,
                                          int width,
                                          S* tile) {  // shared, [count, width]
  if (rows.flat) return copy_flat(rows.data + first * width, tile, count * width);
  for (int t = lane_id(); t < count * width; t += kWarp) {
    tile[t] = rows.data[(first + t / width) * rows.row_stride + t % width * rows.stride];
  }
}

// What a warp holds of a block's shared memory, and of the samples it works on.
template <class S, int V, bool kSlack>
struct NarrowTile {
  static_assert(sizeof(Accumulation<S>) == 4, "planes are made of floats");
  using Layout = NarrowLayout<V>;

  const LabelBatch<S>& batch;
  Layout layout;
  unsigned char* shared;
  int slot, half;
  float* rows;  // [16, R], then [16, C]
  S* logits;    // [16, C]

  __device__ __forceinline__ NarrowTile(const LabelBatch<S>& batch, unsigned char* shared)
      : batch(batch),
        layout(batch.classes, batch.parts, kSlack, sizeof(S)),
        shared(shared),
        slot(lane_id() % kNarrowTile),
        half(lane_id() / kNarrowTile) {
    rows = reinterpret_cast<float*>(shared + layout.weights) +
           warp_id() * Layout::tile_of(batch.parts, batch.classes);
    logits = reinterpret_cast<S*>(shared + layout.logits) + warp_id() * kNarrowTile * batch.classes;
  }

  // The samples of this warp: where they start, and how many there are.
  __device__ __forceinline__ int64_t first() const {
    return int64_t(blockIdx.x) * kNarrowBlockSamples + warp_id() * kNarrowTile;
  }
  __device__ __forceinline__ int count(int64_t first) const {
    const int64_t left = batch.samples - first;
    return left < 0 ? 0 : left < kNarrowTile ? int(left) : kNarrowTile;
  }
  // A label that is no class stands for class 0; what comes of it is not used.
  __device__ __forceinline__ int class_of(int64_t y) const {
    return y >= 0 && y < batch.classes ? int(y) : 0;
  }

  // By the whole block, sixteen threads a row; the caller synchronises.
  __device__ __forceinline__ void stage_parts() const {
    const int classes = batch.classes, parts = batch.parts;
    const int i = threadIdx.x % 16, v = i % V, side = i / V;
    if (i < 2 * V) {
      float* to = reinterpret_cast<float*>(shared);
      int unit = 4;
      if (v < 4 * Layout::kVectors) {
        to += (side * Layout::kVectors + v / 4) * classes * layout.pitch * 4 + v % 4;
      } else {
        unit = 1;
        to = reinterpret_cast<float*>(shared + layout.singles) + side * layout.singles_of_half +
             (v - 4 * Layout::kVectors) * classes * layout.pitch;
      }
      constexpr int kStep = kNarrowThreads / 16;
      int k = threadIdx.x / 16 / parts, j = threadIdx.x / 16 % parts;
      const int k_step = kStep / parts, j_step = kStep % parts;
#pragma unroll 4
      for (int row = threadIdx.x / 16; row < classes * parts; row += kStep) {
        to[(k * layout.pitch + j) * unit] = i < classes ? batch.columns[row * classes + i] : 0.0f;
        k += k_step;
        j += j_step;
        if (j >= parts) {
          j -= parts;
          ++k;
        }
      }
    }
    if (kSlack) {
      float* to = reinterpret_cast<float*>(shared + layout.slack);  // [C, 2 V]
      for (int t = threadIdx.x; t < classes * 2 * V; t += kNarrowThreads) {
        const int at = t % (2 * V);
        to[t] = at < classes ? slack_at(batch, at, t / (2 * V)) : 0.0f;
      }
    }
  }

  __device__ __forceinline__ void read(int64_t first, int count) const {
    read_tile(batch.logits, first, count, batch.classes, logits);
    if (batch.weights.data) {
      read_tile(batch.weights, first, count, batch.parts, rows);
    } else {
      for (int t = lane_id(); t < count; t += kWarp) rows[t] = 1.0f;
    }
  }

  // m += weight * row j of the planes' column k, at = k * pitch + j.
  __device__ __forceinline__ void add_part(float weight, int at, float (&m)[V]) const {
    const int plane = batch.classes * layout.pitch;
#pragma unroll
    for (int q = 0; q < Layout::kVectors; ++q) {
      const float4 four =
          reinterpret_cast<const float4*>(shared)[(half * Layout::kVectors + q) * plane + at];
      m[4 * q] += weight * four.x;
      m[4 * q + 1] += weight * four.y;
      m[4 * q + 2] += weight * four.z;
      m[4 * q + 3] += weight * four.w;
    }
    const float* single =
        reinterpret_cast<const float*>(shared + layout.singles) + half * layout.singles_of_half;
#pragma unroll
    for (int q = 0; q < Layout::kSingles; ++q) {
      m[4 * Layout::kVectors + q] += weight * single[q * plane + at];
    }
  }

  // m = this lane's classes of column k of T(x) + slack.
  __device__ __forceinline__ void combine(int sample, int k, float (&m)[V]) const {
    const float* h = rows + sample * batch.parts;
    const float* slack = reinterpret_cast<const float*>(shared + layout.slack);
#pragma unroll
    for (int v = 0; v < V; ++v) m[v] = kSlack ? slack[(2 * k + half) * V + v] : 0.0f;
    const int at = k * layout.pitch;
    if (batch.parts % 4 == 0) {
#pragma unroll 1
      for (int j = 0; j < batch.parts; j += 4) {
        const float4 four = *reinterpret_cast<const float4*>(h + j);
        add_part(four.x, at + j, m);
        add_part(four.y, at + j + 1, m);
        add_part(four.z, at + j + 2, m);
        add_part(four.w, at + j + 3, m);
      }
    } else {
#pragma unroll 2
      for (int j = 0; j < batch.parts; ++j) add_part(h[j], at + j, m);
    }
  }

  // r_i = sum_k max(m_ik, 0) of this lane's classes.
  __device__ __forceinline__ void row_sums(int sample, float (&sums)[V]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] = 0.0f;
#pragma unroll 1
    for (int k = 0; k < batch.classes; ++k) {
      float m[V];
      combine(sample, k, m);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += clamp_entry(m[v]);
    }
  }

  // The row sums that the forward pass kept.
  __device__ __forceinline__ void read_sums(int64_t n, float (&sums)[V]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = half * V + v;
      sums[v] = i < batch.classes ? batch.row_sums[n * batch.classes + i] : 1.0f;
    }
  }

  // This lane's logits and column y; sums are read with slack. A sample beyond the last stands in
  // for another, so that all lanes go the same way.
  __device__ __forceinline__ Share<float, V> share(int sample, int y,
                                                   const float (&sums)[V]) const {
    Share<float, V> share;
    share.first = half * V;
    share.step = 1;
    combine(sample, y, share.column);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = share.index(v);
      share.z[v] =
          i < batch.classes ? load<float>(logits + sample * batch.classes + i) : -infinity<float>();
      if (kSlack) {
        share.column[v] =
            normalised_entry(clamp_entry(share.column[v]), sums[v], 1.0f / float(batch.classes));
      }
      if (i >= batch.classes) share.column[v] = 0.0f;
    }
    return share;
  }

  // Every lane's V numbers of its sample to rows `first` on of a contiguous [N, C], through `tile`.
  template <class Out>
  __device__ __forceinline__ void write(const float (&values)[V], Out* out, int64_t first,
                                        int count,
                                        Out* tile) const {  // shared, [16, C]
    const int classes = batch.classes;
    __syncwarp();
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = half * V + v;
      if (slot < count && i < classes) store(tile + slot * classes + i, values[v]);
    }
    __syncwarp();
    copy_flat(tile, out + first * classes, count * classes);
  }
};

}  // namespace ptd
