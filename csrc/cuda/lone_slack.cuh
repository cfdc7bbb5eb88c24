// Up to ten classes, twenty parts, and slack: a lane per sample, with all its classes and weights
// in registers. Row sums are those of decided.cuh, N R (2 C + undecided entries) multiply-adds
// where all of T(x) would have N R C^2. If one sample of a warp has weights off the simplex, all 32
// get all of it, and sums of a different order. Infinite parts come to NaN.
#pragma once

#include "decided.cuh"
#include "lone.cuh"

namespace ptd {

// Blocks take turns, so that none has more than a warp more to do than another, and those of one
// multiprocessor have it for different schedulers.
__device__ __forceinline__ int64_t turn_of_warp() {
  const unsigned turn = (warp_id() + blockIdx.x / kProcessors) % (blockDim.x / kWarp);
  return int64_t(turn) * gridDim.x + blockIdx.x;
}

// r_i of all entries, for weights of any kind.
__device__ __forceinline__ float full_row_sum(const NarrowLayout& layout, int classes, int parts,
                                              const float* columns,  // shared, [padded]
                                              const float* slack,    // shared, [C, 16]
                                              int i, const float (&h)[kSlackParts]) {
  float sum = 0.0f;
#pragma unroll 1
  for (int k = 0; k < classes; ++k) {
    float m = slack[k * kNarrowSlackPitch + i];
#pragma unroll
    for (int j = 0; j < kSlackParts; ++j) {
      if (j < parts) m += h[j] * columns[k * layout.column_pitch + j * layout.row_pitch + i];
    }
    sum += clamp_entry(m);
  }
  return sum;
}

// As lone_sample, with slack. The warp's row sums are written, and its tile is free then.
template <class S>
__device__ __forceinline__ Lone lone_slack_sample(const LabelBatch<S>& batch,
                                                  const NarrowLayout& layout,
                                                  const NarrowRange<kLoneSamples>& range,
                                                  int sample, unsigned char* shared,
                                                  unsigned char* tile) {
  constexpr int V = kLoneClasses;
  const int classes = batch.classes, parts = batch.parts;
  float* const columns = reinterpret_cast<float*>(shared);
  float* const slack = reinterpret_cast<float*>(shared + layout.slack);
  float* const table = reinterpret_cast<float*>(shared + layout.table);
  float* const rows = reinterpret_cast<float*>(tile);
  TileInFlight<S, (V * int(sizeof(S)) + 15) / 16> z;
  WeightsInFlight staged;
  // What the whole block waits for comes first. The rest is under way while it decides.
  stage_parts(batch, layout, V > classes, columns);
  stage_slack(batch, slack);
  z.load(batch.logits, range.first, range.count, classes);
  staged.load(batch.weights, range.first, range.count, 0, parts);
  const int64_t y = range.count > 0 ? label_at(batch.labels, range.first + sample) : 0;
  __syncthreads();
  decide_entries(layout, classes, parts, columns, slack, table);
  __syncthreads();
  z.store(batch.logits, range.first, range.count, classes, reinterpret_cast<S*>(tile));
  __syncwarp();

  Lone lone(batch, y, reinterpret_cast<const S*>(tile), sample, range.count > 0);
  Share<float, V>& share = lone.share;
  if (range.count == 0) return lone;

  float h[kSlackParts];
#pragma unroll
  for (int j0 = 0; j0 < 4; j0 += 2) {
    __syncwarp();
    staged.store(batch.weights, range.first, range.count, j0, parts, rows);
    staged.load(batch.weights, range.first, range.count, WeightsInFlight::after(j0), parts);
    __syncwarp();
#pragma unroll
    for (int j = j0; j < kSlackParts; j += 4) {
      const float2 two = reinterpret_cast<const float2*>(rows + sample * kLoneParts)[j / 4];
      h[j] = two.x;
      h[j + 1] = two.y;
    }
  }
  __syncwarp();  // weights make room for row sums
  const bool decided = __all_sync(0xffffffffu, on_simplex(h));
#pragma unroll 1
  for (int i = 0; i < classes; ++i) {
    rows[lane_id() * classes + i] =
        decided ? decided_row_sum(table + i * (classes + 1) * kEntryPitch, h)
                : full_row_sum(layout, classes, parts, columns, slack, i, h);
  }
  const float* part = columns + class_or_first(lone.label) * layout.column_pitch;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    share.column[v] = slack[class_or_first(lone.label) * kNarrowSlackPitch + v];
  }
#pragma unroll
  for (int j = 0; j < kSlackParts; ++j) {
    add_part(h[j], part, share.column);  // beyond the last part, zero times that
    if (j + 1 < parts) part += layout.row_pitch;
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const float sum = v < classes ? rows[lane_id() * classes + v] : 1.0f;
    const float entry = clamp_entry(share.column[v]);
    share.column[v] = v < classes ? normalised_entry(entry, sum, 1.0f / float(classes)) : 0.0f;
  }
  write_tile(rows, batch.row_sums, range.first, range.count, classes);
  return lone;
}

}  // namespace ptd
