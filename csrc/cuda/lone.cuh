// Up to ten classes and no slack: a lane per sample, with all its classes in registers. Weights
// pass through the warp's tile ten parts at a time: every other pair of parts, so that the first
// ten ask for all sectors of twenty, and a sample waits for memory but once. The ten that were left
// out come from a cache.
#pragma once

#include "narrow.cuh"

namespace ptd {

// Weights j0, j0 + 1, j0 + 4, j0 + 5, ... of each of a warp's samples, on their way to shared
// memory: [32, kLoneParts] there, zeros beyond the last. Five lanes take a row, a pair of numbers
// each; 30 of them six rows at a time.
struct WeightsInFlight {
  static constexpr int kLanes = kLoneParts / 2, kRows = kWarp / kLanes;
  static constexpr int kSteps = (kLoneSamples + kRows - 1) / kRows;
  float2 of[kSteps];

  // 0, 2, 20, 22, 40, ...: all j0 in turn.
  static __device__ __forceinline__ int after(int j0) {
    return j0 % 4 ? j0 + 2 * kLoneParts - 2 : j0 + 2;
  }
  // Whether they are read in pairs, which must not cross 8-byte boundaries.
  static __device__ __forceinline__ bool in_pairs(const Rows<const float>& weights, int parts) {
    return weights.flat && parts % 2 == 0;
  }
  // At step a this lane has a row if there are more than a kRows: of `count`, those from its first.
  static __device__ __forceinline__ int rows_left(int count) {
    return lane_id() < kLanes * kRows ? count - lane_id() / kLanes : 0;
  }

  __device__ __forceinline__ void load(const Rows<const float>& weights, int64_t first, int count,
                                       int j0, int parts) {
    const int row = lane_id() / kLanes, j = j0 + 4 * (lane_id() % kLanes);
    const int left = in_pairs(weights, parts) && j < parts ? rows_left(count) : 0;
    const float* from = weights.data + (first + row) * parts + j;
#pragma unroll
    for (int a = 0; a < kSteps; ++a, from += kRows * parts) {
      // Not left as it was, which would take registers from the load before up to here.
      of[a] = {0.0f, 0.0f};
      if (a * kRows < left) of[a] = *reinterpret_cast<const float2*>(from);
    }
  }

  __device__ __forceinline__ void store(const Rows<const float>& weights, int64_t first, int count,
                                        int j0, int parts,
                                        float* tile) const {  // [32, kLoneParts]
    if (in_pairs(weights, parts)) {
      const int left = rows_left(count);
#pragma unroll
      for (int a = 0; a < kSteps; ++a) {
        float2* const to = reinterpret_cast<float2*>(tile) + lane_id() + kLanes * kRows * a;
        if (a * kRows < left) *to = of[a];
      }
      return;
    }
#pragma unroll 1
    for (int t = lane_id(); t < count * kLoneParts; t += kWarp) {
      const int of_row = t % kLoneParts, j = j0 + 4 * (of_row / 2) + of_row % 2;
      tile[t] = j < parts ? weight_at(weights, first + t / kLoneParts, j) : 0.0f;
    }
  }
};

// column += weight * part. Pitches are even.
__device__ __forceinline__ void add_part(float weight,
                                         const float* part,  // shared, [kLoneClasses]
                                         float (&column)[kLoneClasses]) {
#pragma unroll
  for (int v = 0; v < kLoneClasses; v += 2) {
    const float2 two = *reinterpret_cast<const float2*>(part + v);
    column[v] += weight * two.x;
    column[v + 1] += weight * two.y;
  }
}

// column += the staged parts, of which there are `left` from the first to the last of all.
__device__ __forceinline__ void add_staged_parts(const float* h,     // [kLoneParts]
                                                 const float* part,  // [left, row_pitch]
                                                 int row_pitch, int left,
                                                 float (&column)[kLoneClasses]) {
  const int last = left < 2 * kLoneParts ? left : 2 * kLoneParts;  // the rest is not staged
  const int pairs = (last + 2) / 4;
#pragma unroll 1
  for (int p = 0; p < pairs; ++p) {
    const float2 two = *reinterpret_cast<const float2*>(h + 2 * p);
    add_part(two.x, part, column);
    part += row_pitch;
    add_part(two.y, part, column);
    part += 3 * row_pitch;
  }
  if (last == 4 * pairs + 1) add_part(h[2 * pairs], part, column);
}

// A lane's sample.
struct Lone {
  int label;
  Share<float, kLoneClasses> share;

  // With its logits, which are in the warp's tile; none of a range without samples.
  template <class S>
  __device__ __forceinline__ Lone(const LabelBatch<S>& batch, int label, const S* tile, int sample,
                                  bool any)
      : label(label) {
    share.first = 0;
    share.step = 1;
#pragma unroll
    for (int v = 0; v < kLoneClasses; ++v) {
      const S* row = tile + sample * batch.classes;
      share.z[v] = v < batch.classes && any ? load<float>(row + v) : -infinity<float>();
      share.column[v] = 0.0f;
    }
  }
};

// Logits, column and label of the lane's sample, by all threads of the block. Lanes beyond the last
// sample have a copy of the first. `tile` is this warp's.
template <class S>
__device__ __forceinline__ Lone lone_sample(const LabelBatch<S>& batch, const NarrowLayout& layout,
                                            const NarrowRange<kLoneSamples>& range, int sample,
                                            unsigned char* shared, unsigned char* tile) {
  constexpr int V = kLoneClasses;
  const int classes = batch.classes, parts = batch.parts;
  // All that is read is under way before any of it is waited for.
  TileInFlight<S, (V * int(sizeof(S)) + 15) / 16> z;
  WeightsInFlight h;
  z.load(batch.logits, range, classes);
  h.load(batch.weights, range.first, range.count, 0, parts);
  const int64_t y = range.count > 0 ? label_at(batch.labels, range.first + sample) : 0;
  stage_parts(batch, layout, V > classes, reinterpret_cast<float*>(shared));
  __syncthreads();
  z.store(batch.logits, range, classes, reinterpret_cast<S*>(tile));
  __syncwarp();

  Lone lone(batch, class_of(batch, y), reinterpret_cast<const S*>(tile), sample, range.count > 0);
  Share<float, V>& share = lone.share;
  float* const weights = reinterpret_cast<float*>(tile);
  const float* const column =
      reinterpret_cast<const float*>(shared) + class_or_first(lone.label) * layout.column_pitch;
#pragma unroll 1
  for (int j0 = 0; j0 < parts; j0 = WeightsInFlight::after(j0)) {
    __syncwarp();
    h.store(batch.weights, range.first, range.count, j0, parts, weights);
    __syncwarp();
    if (range.count > 0) {
      add_staged_parts(weights + sample * kLoneParts, column + j0 * layout.row_pitch,
                       layout.row_pitch, parts - j0, share.column);
    }
    // Not before: there are no registers for them.
    h.load(batch.weights, range.first, range.count, WeightsInFlight::after(j0), parts);
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (v >= classes) share.column[v] = 0.0f;
  }
  return lone;
}

}  // namespace ptd
