// Up to ten classes, twenty parts, and slack: a lane per sample, with all its classes and weights
// in registers. Row sums are those of decided.cuh: N R (2 C + U / 4) multiply-adds for U undecided
// entries, of bytes four at once, and R for each that is formed, where all of T(x) would have
// N R C^2. If one sample of a warp has weights off the simplex, all 32 get all of it, and sums of a
// different order. Infinite parts come to NaN.
#pragma once

#include "decided.cuh"
#include "lone.cuh"

namespace ptd {

// Blocks take turns, so that none has more than a warp more to do than another, and those of one
// multiprocessor have it for different schedulers. Worked out anew each time, not kept.
__device__ __forceinline__ NarrowRange<kLoneSamples> turn_of_warp(int64_t samples) {
  const unsigned block = opaque(blockIdx.x), warp = opaque(threadIdx.x) / kWarp;
  const unsigned turn = (warp + block / kProcessors) % kNarrowMostWarps;
  return {samples, int64_t(turn) * gridDim.x + block};
}

// The lane's own, or of lanes beyond the last the first.
__device__ __forceinline__ int sample_of(const NarrowRange<kLoneSamples>& range) {
  const int lane = static_cast<int>(opaque(threadIdx.x) % kWarp);
  return lane < range.count ? lane : 0;
}

__device__ __forceinline__ float* tile_of_warp(const NarrowLayout& layout, unsigned char* shared) {
  const int warp = static_cast<int>(opaque(threadIdx.x) / kWarp);
  return reinterpret_cast<float*>(shared + layout.tiles + warp * layout.tile_bytes);
}

static_assert(DecidedTable::kMostThreads == kNarrowMostThreads);

// All parts on their way to the table, by the whole block: ten threads have a row [k][j].
struct PartsInFlight {
  static constexpr int kRows = kNarrowMostThreads / kLoneClasses;  // at a time
  static constexpr int kEach = (kLoneClasses * kSlackParts + kRows - 1) / kRows;
  float of[kEach];

  template <class S>
  __device__ __forceinline__ void load(const LabelBatch<S>& batch) {
    const int classes = batch.classes, i = threadIdx.x % kLoneClasses;
    const int row = threadIdx.x / kLoneClasses;
    const float* const from = batch.columns + row * classes + i;
    const int left = row < kRows && i < classes ? classes * batch.parts - row : 0;
#pragma unroll
    for (int a = 0; a < kEach; ++a) of[a] = a * kRows < left ? from[a * kRows * classes] : 0.0f;
  }

  template <class S>
  __device__ __forceinline__ void store(const LabelBatch<S>& batch, const NarrowLayout& layout,
                                        DecidedTable& table) const {
    const int classes = batch.classes, parts = batch.parts;
    const int i = threadIdx.x % kLoneClasses, first = threadIdx.x / kLoneClasses;
#pragma unroll
    for (int a = 0; a < kEach; ++a) {
      const int row = first + a * kRows;
      const int k = static_cast<int>(__umulhi(row * classes, layout.by_column));
      if (first < kRows && i < classes && k < classes) table.part[i][k][row - k * parts] = of[a];
    }
    if (classes == kLoneClasses && parts == kSlackParts) return;
    // Whatever is beyond the last part has no weight. It is as the first, so that nothing lies
    // between it and the others.
#pragma unroll 1
    for (int e = threadIdx.x; e < kLoneClasses * kLoneClasses * kSlackParts;
         e += kNarrowMostThreads) {
      const int entry = e / kSlackParts, j = e % kSlackParts;
      const int i = entry / kLoneClasses, k = entry % kLoneClasses;
      const bool inside = i < classes && k < classes;
      if (inside && j < parts) continue;
      table.part[i][k][j] = inside ? batch.columns[k * parts * classes + i] : 0.0f;
    }
  }
};

// visit(range, lone, tile) for the samples of a warp that has some, by all threads of the block.
// Row sums are written then, and the warp's tile is free.
template <class S, class Visit>
__device__ __forceinline__ void with_lone_slack(const LabelBatch<S>& batch,
                                                const NarrowLayout& layout, unsigned char* shared,
                                                const Visit& visit) {
  constexpr int V = kLoneClasses;
  const NarrowRange<kLoneSamples> range = turn_of_warp(batch.samples);
  const int classes = batch.classes, parts = batch.parts;
  DecidedTable& table = *reinterpret_cast<DecidedTable*>(shared);
  float* const rows = tile_of_warp(layout, shared);
  S* const logits = reinterpret_cast<S*>(rows);
  TileInFlight<S, (V * int(sizeof(S)) + 15) / 16> z;
  WeightsInFlight staged;
  PartsInFlight all_parts;
  // What the whole block waits for comes first: behind the samples of another block it would have
  // to wait for them. The rest is under way while it decides.
  const int64_t y = range.count > 0 ? label_at(batch.labels, range.first + sample_of(range)) : 0;
  all_parts.load(batch);
  const int i = threadIdx.x / V, k = threadIdx.x % V;
  const float slack = i < classes && k < classes ? slack_at(batch, i, k) : 0.0f;
  if (threadIdx.x < V * V) table.slack[i][k] = slack;
  all_parts.store(batch, layout, table);
  table.label[threadIdx.x] = static_cast<unsigned char>(class_of(batch, y) - kBad);
  __syncwarp();  // loads that take longer are not to be waited for together with those
  staged.load(batch.weights, range.first, range.count, 0, parts);
  z.load(batch.logits, range.first, range.count, classes);
  __syncthreads();
  decide_entries(classes, table);
  __syncthreads();
  const NarrowRange<kLoneSamples> here = turn_of_warp(batch.samples);
  if (here.count == 0) return;

  float h[kSlackParts];
#pragma unroll
  for (int j0 = 0; j0 < 4; j0 += 2) {
    __syncwarp();
    staged.store(batch.weights, here.first, here.count, j0, parts, rows);
    if (j0 == 0) staged.load(batch.weights, here.first, here.count, 2, parts);
    __syncwarp();
#pragma unroll
    for (int j = j0; j < kSlackParts; j += 4) {
      const float2 two =
          reinterpret_cast<const float2*>(rows + sample_of(here) * kLoneParts)[j / 4];
      h[j] = two.x;
      h[j + 1] = two.y;
    }
  }
  const unsigned entries = (1u << classes) - 1u;
  const bool decided = __all_sync(0xffffffffu, on_simplex(h));
  unsigned failed = decided ? failed_rows(table, h) : entries;
  __syncwarp();  // weights make room for logits
  const NarrowRange<kLoneSamples> again = turn_of_warp(batch.samples);
  z.store(batch.logits, again.first, again.count, classes, logits);
  __syncwarp();
  Lone lone(batch, kIgnored, logits, sample_of(again), true);
  Share<float, V>& share = lone.share;
  // Logits make room for row sums, and for the time being of registers too.
  float* const kept = rows + kLoneSamples * V + lane_id();
#pragma unroll
  for (int v = 0; v < kKeptLogits; ++v) kept[v * kLoneSamples] = share.z[v];
  __syncwarp();
  float* const sums = rows + lane_id() * classes;
#pragma unroll 1
  for (int i = 0; i < classes; i += 2) {
    const float first = add_parts<float4>(table.all[i][kSlackParts], table.all[i], h);
    const float second = add_parts<float4>(table.all[i + 1][kSlackParts], table.all[i + 1], h);
    sums[i] = first;
    if (i + 1 < classes) sums[i + 1] = second;
  }
#pragma unroll 1
  for (; failed; failed &= failed - 1) {
    const int i = __ffs(static_cast<int>(failed)) - 1;
    float sum = 0.0f;
    if (decided) sum = add_parts<float4>(table.never[i][kSlackParts], table.never[i], h);
    sums[i] = add_entries(table, i, decided ? table.undecided[i] : entries, h, sum);
  }
  const int column = class_or_first(table.label[threadIdx.x] + kBad);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    share.column[v] = add_parts<float2>(table.slack[v][column], table.part[v][column], h);
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const float sum = v < classes ? sums[v] : 1.0f;
    const float quotient = quick_quotient(clamp_entry(share.column[v]), sum);
    share.column[v] = v >= classes ? 0.0f : sum == 0.0f ? 1.0f / float(classes) : quotient;
  }
  float* const done = tile_of_warp(layout, shared);
#pragma unroll
  for (int v = 0; v < kKeptLogits; ++v) {
    share.z[v] = done[(V + v) * kLoneSamples + opaque(threadIdx.x) % kWarp];
  }
  lone.label = table.label[threadIdx.x] + kBad;
  const NarrowRange<kLoneSamples> last = turn_of_warp(batch.samples);
  write_tile(done, batch.row_sums, last.first, last.count, classes);
  visit(last, lone, done);
}

}  // namespace ptd
