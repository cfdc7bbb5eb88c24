// The table that row sums are formed from: which entries of T(x) + slack can be clamped at all.
//
// An entry that is never negative for weights on the simplex adds to r_i what is linear in the
// weights, and all of a row come together in one linear entry; one that is never positive adds
// nothing. What is left, undecided, is formed sample by sample. Where slack is zero that is
// nothing. Samples with weights off the simplex are marked: for them all entries are formed.
//
// What must move, in numbers, is 2 N R + 2 (R + 1) C^2: the weights are turned, so that neighbours
// in a warp are neighbours in memory, and the entries are gathered. A block decides four rows, two
// threads for each column, and then writes them, a warp for each part, which it has asked for by
// then; other blocks turn weights.
#pragma once

#include "decide.cuh"
#include "label_batch.cuh"
#include "reduce.cuh"
#include "row_sums_table.h"

namespace ptd {

constexpr int kTableWarps = 8;
constexpr int kTableThreads = kTableWarps * kWarp;
constexpr int kTableColumns = kTableThreads / 2;  // of a block at once
// Vectors of four rows under way at once, to be written, and to decide.
template <class T, bool kVector>
constexpr int kTableLoads = kVector && sizeof(T) == 4 ? 4 : 1;
template <class T, bool kVector>
constexpr int kTableDecided = kVector && sizeof(T) == 4 ? 4 : 1;
constexpr int kTableTurned = 5;  // weights of a sample

// Numbers of four rows, of which `rows` exist; the rest is zero. kVector: all do, in one vector.
template <bool kVector, class T>
__device__ __forceinline__ Vector<T, kRowSumRows> load_rows(const T* from, int rows) {
  using Four = Vector<T, kRowSumRows>;
  if constexpr (kVector) {
    return *reinterpret_cast<const Four*>(from);
  } else {
    Four four;
#pragma unroll
    for (int r = 0; r < kRowSumRows; ++r) four.of[r] = r < rows ? from[r] : T(0);
    return four;
  }
}

// Of entries (i .. i + 3, k) part j, or slack if that is -1, for some columns, 32 apart from k on:
// zero where there is none, and nothing if there is no such part.
template <bool kVector, class T>
__device__ __forceinline__ void load_columns(
    const LabelBatch<T>& batch, int i, int k, int j,
    Vector<T, kRowSumRows> (&entry)[kTableLoads<T, kVector>]) {
  constexpr int kLoads = kTableLoads<T, kVector>;
  const int classes = batch.classes;
  if (j >= batch.parts) return;
#pragma unroll
  for (int a = 0; a < kLoads; ++a) entry[a] = {};
  if (j >= 0) {
    const int64_t step = int64_t(kWarp) * batch.parts * classes;
    const T* part = batch.columns + (int64_t(k) * batch.parts + j) * classes + i;
#pragma unroll
    for (int a = 0; a < kLoads; ++a, part += step) {
      if (k + a * kWarp < classes) entry[a] = load_rows<kVector>(part, classes - i);
    }
  } else {
#pragma unroll
    for (int a = 0; a < kLoads; ++a) {
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) {
        if (k + a * kWarp >= classes || (!kVector && i + r >= classes)) break;
        entry[a].of[r] = slack_at(batch, i + r, k + a * kWarp);
      }
    }
  }
}

// Two of four numbers, the last two in the upper half of a warp, combined with those of the lane in
// the other half.
template <class T, class F>
__device__ __forceinline__ void join_halves(const T (&all)[kRowSumRows], F&& combine,
                                            T (&own)[kRowSumRows / 2]) {
  const bool upper = lane_id() >= kWarp / 2;
#pragma unroll
  for (int r = 0; r < kRowSumRows / 2; ++r) {
    const T other = __shfl_xor_sync(0xffffffffu, upper ? all[r] : all[r + 2], kWarp / 2);
    own[r] = combine(upper ? all[r + 2] : all[r], other);
  }
}

// Decides two of entries (i .. i + 3, k), the last two in the upper half of a warp. Each half goes
// through every other part.
template <bool kVector, class T>
__device__ __forceinline__ void decide_pair(const LabelBatch<T>& batch, int i, int k,
                                            Entry (&kind)[kRowSumRows / 2]) {
  constexpr int kLoads = kTableDecided<T, kVector>;
  const int classes = batch.classes, parts = batch.parts, half = lane_id() / (kWarp / 2);
  T slack[kRowSumRows / 2] = {};
#pragma unroll
  for (int r = 0; r < kRowSumRows / 2; ++r) {
    const int row = i + 2 * half + r;
    if (k < classes && (kVector || row < classes)) slack[r] = slack_at(batch, row, k);
  }
  T negated[kRowSumRows], most[kRowSumRows];  // of all parts: max(-P), max(P)
  float off[kRowSumRows];                     // NaN unless all are finite
#pragma unroll
  for (int r = 0; r < kRowSumRows; ++r) {
    negated[r] = most[r] = -infinity<T>();
    off[r] = 0.0f;
  }
  const T* const part = batch.columns + int64_t(k) * parts * classes + i;
#pragma unroll 1
  for (int first = half; k < classes && first < parts; first += 2 * kLoads) {
    Vector<T, kRowSumRows> four[kLoads];
#pragma unroll
    for (int a = 0; a < kLoads; ++a) {  // the last again and again: it changes nothing
      const int j = first + 2 * a < parts ? first + 2 * a : parts - 1;
      four[a] = load_rows<kVector>(part + unsigned(j * classes), classes - i);
    }
#pragma unroll
    for (int a = 0; a < kLoads; ++a) {
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) {
        negated[r] = max_of(negated[r], -four[a].of[r]);
        most[r] = max_of(most[r], four[a].of[r]);
        off[r] += static_cast<float>(four[a].of[r] * T(0));
      }
    }
  }
  const auto larger = [](T a, T b) { return max_of(a, b); };
  T own_negated[kRowSumRows / 2], own_most[kRowSumRows / 2];
  float own_off[kRowSumRows / 2];
  join_halves(negated, larger, own_negated);
  join_halves(most, larger, own_most);
  join_halves(off, [](float a, float b) { return a + b; }, own_off);
#pragma unroll
  for (int r = 0; r < kRowSumRows / 2; ++r) {
    kind[r] =
        own_off[r] == 0.0f ? decide(-own_negated[r], own_most[r], slack[r]) : Entry::kUndecided;
    if (k >= classes) kind[r] = Entry::kAlwaysClamped;
  }
}

// Rows i .. i + 3, by a block, some columns at a time. All are decided; of slack and parts, which
// are -1 and on, every `step`-th is written.
template <bool kVector, class T>
__device__ __forceinline__ void decide_rows(const LabelBatch<T>& batch, const RowSumTable<T>& table,
                                            int i, int begin, int step) {
  constexpr unsigned kTile = kRowSumTile<T>;
  constexpr int kLoads = kTableLoads<T, kVector>, kHalf = kWarp / 2;
  __shared__ int counts[kRowSumRows][kTableWarps];
  // Where an entry goes in its row, times two, and one more if it is never clamped.
  __shared__ unsigned places[kRowSumRows][kTableColumns];
  const int classes = batch.classes, parts = batch.parts, padded = table.tiles * int(kTile);
  const int half = lane_id() / kHalf, lane = lane_id() % kHalf;
  int undecided[kRowSumRows / 2] = {};  // of a thread's rows
  Vector<T, kRowSumRows> entry[kLoads];
#pragma unroll 1
  for (int first = 0; first < padded; first += kTableColumns) {
    int j = begin + warp_id() - 1;
    load_columns<kVector>(batch, i, first + lane_id(), j, entry);  // on their way meanwhile
    const int column = warp_id() * kHalf + lane, k = first + column;
    Entry kind[kRowSumRows / 2];
    decide_pair<kVector>(batch, i, k, kind);
    int before[kRowSumRows / 2];  // undecided ones, in the warp
#pragma unroll
    for (int r = 0; r < kRowSumRows / 2; ++r) {
      const unsigned both = __ballot_sync(0xffffffffu, kind[r] == Entry::kUndecided);
      const unsigned found = both >> half * kHalf & ((1u << kHalf) - 1u);
      before[r] = __popc(found & ((1u << lane) - 1u));
      if (lane == 0) counts[2 * half + r][warp_id()] = __popc(found);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRowSumRows / 2; ++r) {
      before[r] += undecided[r];
#pragma unroll
      for (int w = 0; w < kTableWarps; ++w) {
        const int count = counts[2 * half + r][w];
        if (w < warp_id()) before[r] += count;
        undecided[r] += count;
      }
      int place = k < classes ? classes - 1 - (k - before[r]) : k;
      if (kind[r] == Entry::kUndecided) place = before[r];
      const unsigned to = unsigned(place) / kTile * kTile * (parts + 1) + unsigned(place) % kTile;
      places[2 * half + r][column] = 2 * to + (kind[r] == Entry::kNeverClamped);
    }
    __syncthreads();
    const int64_t row_size = int64_t(opaque(padded)) * (parts + 1);
    T* const rows = table.entries + i * row_size;
    const int end = padded - first < kTableColumns ? padded - first : kTableColumns;
#pragma unroll 1
    for (; j < parts; j += step) {
      T sum[kRowSumRows] = {};
      T* const to = rows + (j + 1) * int(kTile);
#pragma unroll 1
      for (int at = 0; at < end; at += kLoads * kWarp) {
#pragma unroll
        for (int a = 0; a < kLoads; ++a) {
          const int t = at + a * kWarp + lane_id();
          if (t >= end) break;
#pragma unroll
          for (int r = 0; r < kRowSumRows; ++r) {
            if (!kVector && i + r >= classes) break;
            const unsigned place = places[r][t];
            to[r * row_size + place / 2] = entry[a].of[r];
            if (place % 2) sum[r] += entry[a].of[r];
          }
        }
        const bool more = at + kLoads * kWarp < end;
        load_columns<kVector>(batch, i, first + (more ? at + kLoads * kWarp : 0) + lane_id(),
                              more ? j : j + step, entry);
      }
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) {
        sum[r] = lanes_sum<kWarp>(sum[r]);
        if (lane_id() == 0) {
          T& total = table.linear[(j + 1) * table.fours * kRowSumRows + i + r];
          total = first ? total + sum[r] : sum[r];
        }
      }
    }
    __syncthreads();
  }
  if (warp_id() == 0 && lane == 0 && begin == 0) {
#pragma unroll
    for (int r = 0; r < kRowSumRows / 2; ++r) table.undecided[i + 2 * half + r] = undecided[r];
  }
}

// Samples of a chunk, by a warp: 32 of them, from `at` on.
template <class T>
__device__ __forceinline__ void turn_weights(const LabelBatch<T>& batch,
                                             const RowSumTable<T>& table, int64_t chunk, int at) {
  constexpr int kLoads = kTableTurned;
  if (chunk >= table.chunks) return;
  const int sample = at + lane_id();
  const int64_t n = chunk * kRowSumSamples + sample;
  T* to = table.weights + chunk * batch.parts * kRowSumSamples + sample;
  const bool inside = n < batch.samples;
  T sum = T(0);
  bool positive = true;
#pragma unroll 1
  for (int first = 0; first < batch.parts; first += kLoads) {
    T h[kLoads];
#pragma unroll
    for (int a = 0; a < kLoads; ++a) {
      const int j = first + a;
      h[a] = inside && j < batch.parts ? weight_at(batch.weights, n, j) : T(0);
    }
#pragma unroll
    for (int a = 0; a < kLoads; ++a, to += kRowSumSamples) {
      if (first + a < batch.parts) *to = h[a];
      sum += h[a];
      positive = positive && h[a] >= T(0);
    }
  }
  const T off = sum - T(1);
  const bool on = positive && off <= T(kWeightsOff) && off >= -T(kWeightsOff);  // NaN is not
  const unsigned found = __ballot_sync(0xffffffffu, inside && !on);
  if (lane_id() == 0) table.off[chunk * 4 + at / kWarp] = found;
}

// Blocks for weights, then `shares` for every four rows: these take longer, and go first where both
// are on one multiprocessor.
template <class T, bool kVector>
__global__ void __launch_bounds__(kTableThreads, 4)
    tabulate_rows(LabelBatch<T> batch, RowSumTable<T> table, int shares) {
  const int turning = static_cast<int>(gridDim.x) - table.fours * shares;
  const int block = static_cast<int>(blockIdx.x);
  if (block < turning) {
    constexpr int kChunks = kTableThreads / kRowSumSamples;  // of a block
    const int at = static_cast<int>(threadIdx.x) / kWarp * kWarp;
    turn_weights(batch, table, int64_t(block) * kChunks + at / kRowSumSamples, at % kRowSumSamples);
  } else {
    const unsigned four = unsigned(block - turning) / unsigned(shares);
    const int share = block - turning - int(four) * shares;
    decide_rows<kVector>(batch, table, int(four) * kRowSumRows, share * kTableWarps,
                         shares * kTableWarps);
  }
}

#ifdef __CUDACC_RTC__
template __global__ void tabulate_rows<float, true>(LabelBatch<float>, RowSumTable<float>, int);
template __global__ void tabulate_rows<float, false>(LabelBatch<float>, RowSumTable<float>, int);
template __global__ void tabulate_rows<double, true>(LabelBatch<double>, RowSumTable<double>, int);
template __global__ void tabulate_rows<double, false>(LabelBatch<double>, RowSumTable<double>, int);
#endif

}  // namespace ptd
