// Up to ten classes, twenty parts, and slack: a lane per sample, with all its classes and weights
// in registers. Row sums are those of decided.cuh: N R (2 C + U / 4) multiply-adds for U undecided
// entries, of bytes four at once, and R for each that is formed, where all of T(x) would have
// N R C^2. If one sample of a warp has weights off the simplex, all 32 get all of it, and sums of a
// different order. Infinite parts come to NaN.
#pragma once

#include "decide_entries.cuh"
#include "lone.cuh"

namespace ptd {

// Blocks take turns, so that none has more than a warp more to do than another, and those of one
// multiprocessor have it for different schedulers.
__device__ __forceinline__ unsigned turn_of_warp() {
  const unsigned turn = (threadIdx.x / kWarp + blockIdx.x / kProcessors) % kNarrowMostWarps;
  return turn * gridDim.x + blockIdx.x;
}

// The samples of a turn, worked out anew each time: kept is only the turn.
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

// A label as it is stored, in two halves of which one may be all: what is made of it would have to
// wait for it.
struct LabelInFlight {
  int low, high;

  static __device__ __forceinline__ const int32_t* at(const LabelView& labels, int64_t n) {
    const int64_t words = n * labels.stride << int(labels.is_int64);
    return static_cast<const int32_t*>(labels.data) + words;
  }
  __device__ __forceinline__ void load(const LabelView& labels, int64_t n) {
    const int32_t* const from = at(labels, n);
    low = from[0];
    high = from[labels.is_int64];
  }
  __device__ __forceinline__ int64_t of(const LabelView& labels) const {
    const uint64_t both = uint64_t(uint32_t(high)) << 32 | uint32_t(low);
    return labels.is_int64 ? static_cast<int64_t>(both) : low;
  }
};

// Asks for a warp's rows of a [N, width], if they are one run of memory.
template <class S>
__device__ __forceinline__ void prefetch_rows(const Rows<const S>& rows,
                                              const NarrowRange<kLoneSamples>& range, int width,
                                              int most) {
  constexpr int kSector = 32;
  if (!rows.flat || !rows.data) return;
  const int bytes = range.count * width * int(sizeof(S));
  const char* const from = reinterpret_cast<const char*>(rows.data + range.start(width));
#pragma unroll
  for (int a = 0; a < most * kLoneSamples * int(sizeof(S)); a += kSector * kWarp) {
    const int at = a + kSector * lane_id();
    if (at < bytes) prefetch(from + at);
  }
}

// All weights of a warp's samples on their way to registers, by way of the warp's tile, which has
// room for those of half of them: as rows of twenty, with zeros beyond the last part.
struct SlackWeights {
  static constexpr int kVectors = kSlackParts / 4;  // of a row, and of a lane
  static constexpr int kHalf = kLoneSamples / 2;
  float4 of[kVectors];

  __device__ __forceinline__ void load(const Rows<const float>& weights,
                                       const NarrowRange<kLoneSamples>& range, int parts) {
    const bool whole = weights.flat && parts == kSlackParts;
    const float4* const from =
        reinterpret_cast<const float4*>(weights.data + range.start(kSlackParts));
#pragma unroll
    for (int a = 0; a < kVectors; ++a) {
      const int t = lane_id() + kWarp * a;
      of[a] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (whole && t < range.count * kVectors) of[a] = from[t];
    }
    if (whole) return;
#pragma unroll
    for (int a = 0; a < kVectors; ++a) {
      const int t = lane_id() + kWarp * a, sample = t / kVectors, j = t % kVectors * 4;
      const auto weight = [&](int j) {
        const bool inside = sample < range.count && j < parts;
        return inside ? weight_at(weights, range.first + sample, j) : 0.0f;
      };
      of[a] = {weight(j), weight(j + 1), weight(j + 2), weight(j + 3)};
    }
  }

  // Those of the lane's sample. All lanes of the warp call.
  __device__ __forceinline__ void turn(float* tile,  // [kHalf, kSlackParts]
                                       float (&h)[kSlackParts]) const {
    float4* const vectors = reinterpret_cast<float4*>(tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      __syncwarp();
#pragma unroll
      for (int a = 0; a < kVectors; ++a) {
        const int t = lane_id() + kWarp * a - half * kHalf * kVectors;
        if (t >= 0 && t < kHalf * kVectors) vectors[t] = of[a];
      }
      __syncwarp();
      if (lane_id() / kHalf != half) continue;
#pragma unroll
      for (int a = 0; a < kVectors; ++a) {
        const float4 four = vectors[lane_id() % kHalf * kVectors + a];
        h[4 * a] = four.x;
        h[4 * a + 1] = four.y;
        h[4 * a + 2] = four.z;
        h[4 * a + 3] = four.w;
      }
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
  const unsigned turn = turn_of_warp();
  const NarrowRange<kLoneSamples> range = samples_of(batch.samples, turn);
  const int classes = batch.classes, parts = batch.parts;
  DecidedTable& table = *reinterpret_cast<DecidedTable*>(shared);
  float* const rows = tile_of_warp(layout, shared);
  S* const logits = reinterpret_cast<S*>(rows);
  TileInFlight<S, (V * int(sizeof(S)) + 15) / 16> z;
  SlackWeights weights;
  LabelInFlight y;
  EntryShare entry;
  // What the whole block waits for comes first: behind the samples of another block it would have
  // to wait for them. The rest is under way while it decides.
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
  z.load(batch.logits, here, classes);
  const unsigned entries = (1u << classes) - 1u;
  const bool decided = __all_sync(0xffffffffu, on_simplex(h));
  unsigned failed = decided ? failed_rows(table, h) : entries;
  table.label[threadIdx.x] = static_cast<unsigned char>(class_of(batch, y.of(batch.labels)) - kBad);
  __syncwarp();  // weights make room for logits
  const NarrowRange<kLoneSamples> again = samples_of(batch.samples, turn);
  z.store(batch.logits, again, classes, logits);
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
  const int column = class_or_first(table.label[threadIdx.x] + kBad);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    share.column[v] = add_parts<float2>(table.part[v][column], h);
  }
  const float uniform = 1.0f / float(classes);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const float sum = v < classes ? sums[v] : infinity<float>();  // for a quotient of zero
    const float quotient = quick_quotient(clamp_entry(share.column[v]), sum);
    share.column[v] = sum == 0.0f ? uniform : quotient;
  }
  float* const done = tile_of_warp(layout, shared);
  const float* const kept_there = done + (V * kLoneSamples + opaque(threadIdx.x) % kWarp);
#pragma unroll
  for (int v = 0; v < kKeptLogits; ++v) share.z[v] = kept_there[v * kLoneSamples];
  lone.label = table.label[threadIdx.x] + kBad;
  const NarrowRange<kLoneSamples> last = samples_of(batch.samples, turn);
  write_tile(done, batch.row_sums, last, classes);
  visit(last, lone, done);
}

}  // namespace ptd
