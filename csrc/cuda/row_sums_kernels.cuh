// Row sums of the revised matrix before its normalisation: r_i = sum_k max(M_ik, 0),
// M = T(x) + slack, from the table of row_sums_table_kernels.cuh: the linear entry of a row, and
// those that are undecided; all entries where a block has samples with weights off the simplex.
//
// What must move, in numbers, is N (C + R), and of the table what is undecided. Arithmetic takes
// longer where that is much: R multiply-adds for each of N U entries, 209 us on a V100 at N = 8192,
// R = 20 and U = 100 x 100.
//
// A warp has one row of 128 samples, and a lane four neighbours: of them it forms a tile of
// entries at a time, 32 in all (8 doubles), so that three loads of a vector serve 32
// multiply-adds. A block's warps have the same samples, whose weights stay in L1. In the end each
// thread has four rows of one sample, and adds the linear entries to them.
//
// Where nothing at all is undecided, as with slack of zero, what is written takes longest: then a
// block has some samples with all their rows, so that it writes whole sectors.
#pragma once

#include "reduce.cuh"
#include "row_sums_table.h"
#include "scalar.cuh"

namespace ptd {

// Of a block: two or four times four rows.
constexpr int kRowSumWarps = 2 * kRowSumRows, kRowSumMostWarps = 4 * kRowSumRows;
constexpr int kRowSumLinearRows = 2;  // of a thread, where there are linear entries only
constexpr int kRowSumOfLane = kRowSumSamples / kWarp;
// In shared memory, so that threads of a warp with four rows each read different banks.
constexpr int kRowSumPitch = kRowSumSamples + 4;

// The sums of entries [0, count) of row i, of the samples of a lane.
template <class T>
__device__ __forceinline__ void sum_entries_of(const RowSumTable<T>& table, int i, int parts,
                                               int count,
                                               const T* weights,  // [R, kRowSumSamples]
                                               T (&sum)[kRowSumOfLane]) {
  constexpr int kTile = kRowSumTile<T>;
  using Entries = Vector<T, kTile>;
  using Samples = Vector<T, kRowSumOfLane>;
  const T* entry = table.entries + int64_t(i) * table.tiles * (parts + 1) * kTile;
#pragma unroll 1
  for (int left = count; left > 0; left -= kTile) {
    T m[kRowSumOfLane][kTile];
    const T* weight = weights;
    {  // the first part apart: it is added to slack, which saves a move for each entry
      const Entries slack = *reinterpret_cast<const Entries*>(entry);
      const Entries part = *reinterpret_cast<const Entries*>(entry + kTile);
      const Samples h = *reinterpret_cast<const Samples*>(weight);
#pragma unroll
      for (int s = 0; s < kRowSumOfLane; ++s) {
#pragma unroll
        for (int e = 0; e < kTile; ++e) m[s][e] = slack.of[e] + h.of[s] * part.of[e];
      }
    }
    entry += 2 * kTile;
#pragma unroll 1
    for (int j = parts - 1; j > 0; --j, entry += kTile) {
      weight += kRowSumSamples;
      const Entries part = *reinterpret_cast<const Entries*>(entry);
      const Samples h = *reinterpret_cast<const Samples*>(weight);
#pragma unroll
      for (int s = 0; s < kRowSumOfLane; ++s) {
#pragma unroll
        for (int e = 0; e < kTile; ++e) m[s][e] += h.of[s] * part.of[e];
      }
    }
#pragma unroll
    for (int e = 0; e < kTile; ++e) {
#pragma unroll
      for (int s = 0; s < kRowSumOfLane; ++s) {
        if (e < left && !(m[s][e] <= T(0))) sum[s] += m[s][e];  // NaN too
      }
    }
  }
}

// Whether no row has undecided entries; the answer is a warp's.
template <class T>
__device__ __forceinline__ bool all_decided(const RowSumTable<T>& table) {
  int found = 0;
#pragma unroll 1
  for (int four = lane_id(); four < table.fours; four += kWarp) {
    const auto counts = reinterpret_cast<const Vector<int, kRowSumRows>*>(table.undecided)[four];
#pragma unroll
    for (int r = 0; r < kRowSumRows; ++r) found |= counts.of[r];
  }
  return !__any_sync(0xffffffffu, found);
}

// kRows rows, as far as they exist, of one sample.
template <int kRows, class T>
__device__ __forceinline__ void store_rows(T* to, const Vector<T, kRows>& sums, int rows,
                                           bool vectors) {
  if (vectors) {
    *reinterpret_cast<Vector<T, kRows>*>(to) = sums;
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r < rows) to[r] = sums.of[r];
    }
  }
}

// A chunk's sums, where nothing is undecided, by the first half of all blocks that have it. A
// thread has two rows of four samples, and neighbours neighbouring rows: what a block writes is in
// one piece.
template <class T>
__device__ __forceinline__ void sum_linear(const RowSumTable<T>& table, int chunk, T* sums,
                                           int64_t samples, int classes, int parts, bool vectors) {
  constexpr int kRows = kRowSumLinearRows, kUnroll = 16 / sizeof(T);
  using Entries = Vector<T, kRows>;
  using Samples = Vector<T, kRowSumOfLane>;
  const unsigned pairs = unsigned(classes + kRows - 1) / kRows;
  const unsigned unit = blockIdx.y * blockDim.x + threadIdx.x;
  if (unit >= pairs * (kRowSumSamples / kRowSumOfLane)) return;
  const int sample = int(unit / pairs) * kRowSumOfLane, i = int(unit % pairs) * kRows;
  const T* weight = table.weights + int64_t(chunk) * parts * kRowSumSamples + sample;
  const T* linear = table.linear + i;
  const int pitch = table.fours * kRowSumRows;
  Entries sum[kRowSumOfLane];
#pragma unroll
  for (int s = 0; s < kRowSumOfLane; ++s) sum[s] = *reinterpret_cast<const Entries*>(linear);
#pragma unroll kUnroll
  for (int j = 0; j < parts; ++j, weight += kRowSumSamples) {
    linear += pitch;
    const Samples h = *reinterpret_cast<const Samples*>(weight);
    const Entries entry = *reinterpret_cast<const Entries*>(linear);
#pragma unroll
    for (int s = 0; s < kRowSumOfLane; ++s) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) sum[s].of[r] += h.of[s] * entry.of[r];
    }
  }
  const int64_t n = int64_t(chunk) * kRowSumSamples + sample;
  T* to = sums + n * classes + i;
#pragma unroll
  for (int s = 0; s < kRowSumOfLane; ++s, to += classes) {
    if (n + s < samples) store_rows(to, sum[s], classes - i, vectors);
  }
}

// A warp for each row of a block, and so one for each 32 samples of four rows.
template <class T>
__global__ void __launch_bounds__(kRowSumMostWarps* kWarp, 2)
    row_sums(RowSumTable<T> table,
             T* __restrict__ sums,  // [N, C]
             int64_t samples, int classes, int parts, bool vectors) {
  using Four = Vector<T, kRowSumRows>;
  PTD_DYNAMIC_SHARED(T, shared);  // [warps, kRowSumPitch]
  const int chunk = static_cast<int>(blockIdx.z * gridDim.x + blockIdx.x);
  if (chunk >= table.chunks) return;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int row = static_cast<int>(blockIdx.y) * warps + warp_id();
  const int undecided = row < classes ? table.undecided[row] : 0;
  const auto marks = reinterpret_cast<const Vector<unsigned, 4>*>(table.off)[chunk];
  const bool off = marks.of[0] | marks.of[1] | marks.of[2] | marks.of[3];
  if (all_decided(table) && !off) {
    sum_linear(table, chunk, sums, samples, classes, parts, vectors);
    return;
  }

  const T* const weights = table.weights + int64_t(chunk) * parts * kRowSumSamples;
  const T* const mine = weights + lane_id() * kRowSumOfLane;
  Vector<T, kRowSumOfLane> sum{};
  if (row < classes) {
    sum_entries_of(table, row, parts, off ? classes : undecided, mine, sum.of);
  }
  const int place = warp_id() * kRowSumPitch + lane_id() * kRowSumOfLane;
  *reinterpret_cast<Vector<T, kRowSumOfLane>*>(shared + place) = sum;
  __syncthreads();

  const int thread = static_cast<int>(threadIdx.x), log2_fours = warps == kRowSumWarps ? 1 : 2;
  const int sample = thread >> log2_fours, four = thread & ((1 << log2_fours) - 1);
  // Rows again from the block's index, as registers are all taken before.
  const int i = opaque(static_cast<int>(blockIdx.y)) * warps + four * kRowSumRows;
  const int64_t n = int64_t(chunk) * kRowSumSamples + sample;
  if (n >= samples || i >= classes) return;
  Four result{};
  if (!off) {
    auto linear = reinterpret_cast<const Four*>(table.linear + i);
    const T* weight = weights + sample;
    result = *linear;
#pragma unroll 4
    for (int j = 0; j < parts; ++j, weight += kRowSumSamples) {
      const T h = *weight;
      const Four entry = linear[(j + 1) * table.fours];
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) result.of[r] += h * entry.of[r];
    }
  }
#pragma unroll
  for (int r = 0; r < kRowSumRows; ++r) {
    result.of[r] += shared[(four * kRowSumRows + r) * kRowSumPitch + sample];
  }
  store_rows(sums + n * classes + i, result, classes - i, vectors);
}

#ifdef __CUDACC_RTC__
template __global__ void row_sums<float>(RowSumTable<float>, float*, int64_t, int, int, bool);
template __global__ void row_sums<double>(RowSumTable<double>, double*, int64_t, int, int, bool);
#endif

}  // namespace ptd
