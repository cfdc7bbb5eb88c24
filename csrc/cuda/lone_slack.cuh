// Up to ten classes, twenty parts, and slack: a lane per sample, with all its classes and weights
// in registers. Row sums are those of decided.cuh: N R (2 C + U / 4) multiply-adds for U undecided
// entries, of bytes four at once, and R for each that is formed, where all of T(x) would have
// N R C^2. If one sample of a warp has weights off the simplex, all 32 get all of it, and sums of a
// different order. Infinite parts come to NaN.
#pragma once

#include "decide_entries.cuh"
#include "lone.cuh"
#include "lone_slack_stage.cuh"

namespace ptd {

// Blocks take turns, so that none has more than a warp more to do than another, and those of one
// multiprocessor have it for different schedulers.
__device__ __forceinline__ unsigned turn_of_warp() {
  const unsigned turn = (threadIdx.x / kWarp + blockIdx.x / kProcessors) % kNarrowMostWarps;
  return turn * gridDim.x + blockIdx.x;
}

// The samples of a turn, worked out anew each time: a register keeps the turn, not all of this.
__device__ __forceinline__ NarrowRange<kLoneSamples> samples_of(int64_t samples, unsigned turn) {
  return {samples, opaque(turn)};
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

// visit(range, lone, tile) for the samples of a warp that has some, by all threads of the block.
// Row sums are written then, and the warp's tile is free.
template <class S, class Visit>
__device__ __forceinline__ void with_lone_slack(const LabelBatch<S>& batch,
                                                const NarrowLayout& layout, unsigned char* shared,
                                                const Visit& visit) {
  constexpr int V = kLoneClasses;
  const unsigned turn = turn_of_warp();
  const NarrowRange<kLoneSamples> range = samples_of(batch.samples, turn);
  const int classes = batch.classes, parts = batch.parts;
  DecidedTable& table = *reinterpret_cast<DecidedTable*>(shared);
  float* const rows = tile_of_warp(layout, shared);
  TileInFlight<S, (V * int(sizeof(S)) + 15) / 16> z;
  SlackWeights weights;
  LabelInFlight y;
  EntryShare entry;
  // What the whole block waits for comes first: behind the samples of another block it would have
  // to wait for them. Those are on their way to L2 while it decides, weights before what is needed
  // later. They are loaded when nothing else is waited for: loads share the few counters that the
  // hardware has for that, and what comes soon would be waited for together with them.
  entry.load(batch);
  __syncwarp();
  prefetch_rows(batch.weights, range, parts, kSlackParts);
  entry.decide_entry(classes, table);
  __syncthreads();
  if (range.count > 0) prefetch(LabelInFlight::at(batch.labels, range.first + sample_of(range)));
  prefetch_rows(batch.logits, range, classes, V);
  const EntryBits open = table.is_open;
  entry.place_test(open, table);
  add_up_rows(open, table);
  __syncwarp();
  weights.load(batch.weights, range, parts);
  __syncthreads();
  const NarrowRange<kLoneSamples> here = samples_of(batch.samples, turn);
  if (here.count == 0) return;

  float h[kSlackParts];
  weights.turn(rows, h);
  y.load(batch.labels, here.first + sample_of(here));
  const unsigned entries = (1u << classes) - 1u;
  const bool decided = __all_sync(0xffffffffu, on_simplex(h));
  unsigned failed = decided ? failed_rows(table, h) : entries;
  __syncwarp();  // weights make room for row sums
  float* const sums = rows + lane_id() * classes;
#pragma unroll 1
  for (int i = 0; i < classes; i += 2) {
    const float first = add_parts<float4>(table.all[i], h);
    const float second = add_parts<float4>(table.all[i + 1], h);
    sums[i] = first;
    if (i + 1 < classes) sums[i + 1] = second;
  }
#pragma unroll 1
  for (; failed; failed &= failed - 1) {
    const int i = __ffs(static_cast<int>(failed)) - 1;
    float sum = 0.0f;
    if (decided) sum = add_parts<float4>(table.never[i], h);
    sums[i] = add_entries(table, i, decided ? table.undecided[i] : entries, h, sum);
  }
  const int label = class_of(batch, y.of(batch.labels)), k = class_or_first(label);
  float column[V];
#pragma unroll
  for (int v = 0; v < V; ++v) column[v] = add_parts<float2>(table.part[v][k], h);
  // Not before: there are no registers for them.
  const NarrowRange<kLoneSamples> last = samples_of(batch.samples, turn);
  z.load(batch.logits, last, classes);
  float* const done = tile_of_warp(layout, shared);
  const float uniform = 1.0f / float(classes);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    // Beyond the last class the quotient is zero.
    const float sum = v < classes ? done[lane_id() * classes + v] : infinity<float>();
    column[v] = quickly_normalised(clamp_entry(column[v]), sum, uniform);
  }
  write_tile(done, batch.row_sums, last, classes);
  __syncwarp();  // row sums make room for logits
  S* const logits = reinterpret_cast<S*>(done);
  z.store(batch.logits, last, classes, logits);
  __syncwarp();
  Lone lone(batch, label, logits, sample_of(last), true);
#pragma unroll
  for (int v = 0; v < V; ++v) lone.share.column[v] = column[v];
  visit(last, lone, done);
}

}  // namespace ptd
