// The table that row sums are formed from: which entries of T(x) + slack can be clamped at all.
//
// An entry that is never negative for weights on the simplex adds to r_i what is linear in the
// weights, and all of a row come together in one linear entry; one that is never positive adds
// nothing. What is left, undecided, is formed sample by sample. Where slack is zero that is
// nothing. Samples with weights off the simplex are marked: for them all entries are formed.
//
// What must move, in numbers, is 2 N R + 2 (R + 1) C^2: the weights are turned, so that neighbours
// in a warp are neighbours in memory, and the entries are gathered. A block decides four rows, a
// thread for each column, and then writes them, a warp for each part; other blocks turn weights.
#pragma once

#include "decide.cuh"
#include "label_batch.cuh"
#include "reduce.cuh"
#include "row_sums_table.h"

namespace ptd {

constexpr int kTableWarps = 8;
constexpr int kTableThreads = kTableWarps * kWarp;
// Vectors of four rows, under way at once.
template <class T, bool kVector>
constexpr int kTableLoads = kVector && sizeof(T) == 4 ? 4 : 1;

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

// Of entries (i .. i + 3, k) part j, or slack if that is -1; zero where there is none.
template <bool kVector, class T>
__device__ __forceinline__ Vector<T, kRowSumRows> entry_rows(const LabelBatch<T>& batch, int i,
                                                             int k, int j) {
  const int classes = batch.classes;
  Vector<T, kRowSumRows> four{};
  if (k >= classes) return four;
  if (j >= 0) {
    const T* const part = batch.columns + (int64_t(k) * batch.parts + j) * classes + i;
    return load_rows<kVector>(part, classes - i);
  }
#pragma unroll
  for (int r = 0; r < kRowSumRows; ++r) {
    if (kVector || i + r < classes) four.of[r] = slack_at(batch, i + r, k);
  }
  return four;
}

// Decides entries (i .. i + 3, k).
template <bool kVector, class T>
__device__ __forceinline__ void decide_four(const LabelBatch<T>& batch, int i, int k,
                                            Entry (&kind)[kRowSumRows]) {
  const int classes = batch.classes, rows = classes - i;
  T negated[kRowSumRows], most[kRowSumRows], off[kRowSumRows];  // of all parts: max(-P), max(P)
#pragma unroll
  for (int r = 0; r < kRowSumRows; ++r) {
    negated[r] = most[r] = -infinity<T>();
    off[r] = T(0);
  }
  const T* const part = batch.columns + int64_t(k) * batch.parts * classes + i;
#pragma unroll 1
  for (int first = 0; first < batch.parts; first += kTableLoads<T, kVector>) {
    Vector<T, kRowSumRows> four[kTableLoads<T, kVector>];
#pragma unroll
    for (int a = 0; a < kTableLoads<T, kVector>;
         ++a) {  // the last again and again: it changes nothing
      const int j = first + a < batch.parts ? first + a : batch.parts - 1;
      four[a] = load_rows<kVector>(part + int64_t(j) * classes, rows);
    }
#pragma unroll
    for (int a = 0; a < kTableLoads<T, kVector>; ++a) {
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) {
        negated[r] = max_of(negated[r], -four[a].of[r]);
        most[r] = max_of(most[r], four[a].of[r]);
        off[r] += four[a].of[r] * T(0);  // NaN unless finite
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowSumRows; ++r) {
    const T slack = r < rows ? slack_at(batch, i + r, k) : T(0);
    kind[r] = off[r] == T(0) ? decide(-negated[r], most[r], slack) : Entry::kUndecided;
  }
}

// Rows i .. i + 3, by a block, some columns at a time. All are decided; of slack and parts, which
// are -1 and on, every `step`-th is written.
template <bool kVector, class T>
__device__ __forceinline__ void decide_rows(const LabelBatch<T>& batch, const RowSumTable<T>& table,
                                            int i, int begin, int step) {
  constexpr unsigned kTile = kRowSumTile<T>;
  constexpr int kLoads = kTableLoads<T, kVector>;
  __shared__ int counts[kRowSumRows][kTableWarps];
  // Where an entry goes in its row, times two, and one more if it is never clamped.
  __shared__ unsigned places[kRowSumRows][kTableThreads];
  const int classes = batch.classes, parts = batch.parts, padded = table.tiles * int(kTile);
  const int64_t row_size = int64_t(padded) * (parts + 1);
  T* const rows = table.entries + i * row_size;
  T* const linear = table.linear + i;
  int undecided[kRowSumRows] = {};
#pragma unroll 1
  for (int first = 0; first < padded; first += kTableThreads) {
    const int k = first + static_cast<int>(threadIdx.x);
    Entry kind[kRowSumRows];
    if (k < classes) {
      decide_four<kVector>(batch, i, k, kind);
    } else {
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) kind[r] = Entry::kAlwaysClamped;
    }
    int before[kRowSumRows];  // undecided ones, in the warp
#pragma unroll
    for (int r = 0; r < kRowSumRows; ++r) {
      const unsigned found = __ballot_sync(0xffffffffu, kind[r] == Entry::kUndecided);
      before[r] = __popc(found & ((1u << lane_id()) - 1u));
      if (lane_id() == 0) counts[r][warp_id()] = __popc(found);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRowSumRows; ++r) {
      before[r] += undecided[r];
#pragma unroll
      for (int w = 0; w < kTableWarps; ++w) {
        if (w < warp_id()) before[r] += counts[r][w];
        undecided[r] += counts[r][w];
      }
      int place = k < classes ? classes - 1 - (k - before[r]) : k;
      if (kind[r] == Entry::kUndecided) place = before[r];
      const unsigned to = unsigned(place) / kTile * kTile * (parts + 1) + unsigned(place) % kTile;
      places[r][threadIdx.x] = 2 * to + (kind[r] == Entry::kNeverClamped);
    }
    __syncthreads();
    const int end = padded - first < kTableThreads ? padded - first : kTableThreads;
#pragma unroll 1
    for (int j = begin + warp_id() - 1; j < parts; j += step) {
      T sum[kRowSumRows] = {};
      T* const to = rows + (j + 1) * int(kTile);
#pragma unroll 1
      for (int t = lane_id(); t < end; t += kLoads * kWarp) {
        Vector<T, kRowSumRows> entry[kLoads];
#pragma unroll
        for (int a = 0; a < kLoads; ++a) {
          entry[a] = entry_rows<kVector>(batch, i, first + t + a * kWarp, j);
        }
#pragma unroll
        for (int a = 0; a < kLoads; ++a) {
          if (t + a * kWarp >= end) break;
#pragma unroll
          for (int r = 0; r < kRowSumRows; ++r) {
            if (!kVector && i + r >= classes) break;
            const unsigned place = places[r][t + a * kWarp];
            to[r * row_size + place / 2] = entry[a].of[r];
            if (place % 2) sum[r] += entry[a].of[r];
          }
        }
      }
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) {
        sum[r] = lanes_sum<kWarp>(sum[r]);
        if (lane_id() == 0) {
          T& total = linear[(j + 1) * table.fours * kRowSumRows + r];
          total = first ? total + sum[r] : sum[r];
        }
      }
    }
    __syncthreads();
  }
  if (threadIdx.x == 0 && begin == 0) {
#pragma unroll
    for (int r = 0; r < kRowSumRows; ++r) table.undecided[i + r] = undecided[r];
  }
}

// Samples of a chunk, by a warp: 32 of them, from `at` on.
template <class T>
__device__ __forceinline__ void turn_weights(const LabelBatch<T>& batch,
                                             const RowSumTable<T>& table, int64_t chunk, int at) {
  if (chunk >= table.chunks) return;
  const int sample = at + lane_id();
  const int64_t n = chunk * kRowSumSamples + sample;
  T* const to = table.weights + chunk * batch.parts * kRowSumSamples + sample;
  const bool inside = n < batch.samples;
  T sum = T(0);
  bool positive = true;
#pragma unroll 4
  for (int j = 0; j < batch.parts; ++j) {
    const T h = inside ? weight_at(batch.weights, n, j) : T(0);
    to[int64_t(j) * kRowSumSamples] = h;
    sum += h;
    positive = positive && h >= T(0);
  }
  const T off = sum - T(1);
  const bool on = positive && off <= T(kWeightsOff) && off >= -T(kWeightsOff);  // NaN is not
  const unsigned found = __ballot_sync(0xffffffffu, inside && !on);
  if (lane_id() == 0) table.off[chunk * 4 + at / kWarp] = found;
}

// `shares` blocks for every four rows, then blocks for weights.
template <class T, bool kVector>
__global__ void __launch_bounds__(kTableThreads, 4)
    tabulate_rows(LabelBatch<T> batch, RowSumTable<T> table, int shares) {
  int block = static_cast<int>(blockIdx.x), share = 0;
  for (; block >= table.fours && share < shares; ++share) block -= table.fours;
  if (share < shares) {
    decide_rows<kVector>(batch, table, block * kRowSumRows, share * kTableWarps,
                         shares * kTableWarps);
  } else {
    constexpr int kChunks = kTableThreads / kRowSumSamples;  // of a block
    const int at = static_cast<int>(threadIdx.x) / kWarp * kWarp;
    turn_weights(batch, table, int64_t(block) * kChunks + at / kRowSumSamples, at % kRowSumSamples);
  }
}

#ifdef __CUDACC_RTC__
template __global__ void tabulate_rows<float, true>(LabelBatch<float>, RowSumTable<float>, int);
template __global__ void tabulate_rows<float, false>(LabelBatch<float>, RowSumTable<float>, int);
template __global__ void tabulate_rows<double, true>(LabelBatch<double>, RowSumTable<double>, int);
template __global__ void tabulate_rows<double, false>(LabelBatch<double>, RowSumTable<double>, int);
#endif

}  // namespace ptd
