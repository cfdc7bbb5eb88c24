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
#pragma once

#include "reduce.cuh"
#include "row_sums_table.h"
#include "scalar.cuh"

namespace ptd {

// Of a block: two or four times four rows.
constexpr int kRowSumWarps = 2 * kRowSumRows, kRowSumMostWarps = 4 * kRowSumRows;
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
    const Entries slack = *reinterpret_cast<const Entries*>(entry);
    entry += kTile;
#pragma unroll
    for (int s = 0; s < kRowSumOfLane; ++s) {
#pragma unroll
      for (int e = 0; e < kTile; ++e) m[s][e] = slack.of[e];
    }
    const T* weight = weights;
#pragma unroll 1
    for (int j = 0; j < parts; ++j, weight += kRowSumSamples, entry += kTile) {
      const Samples h = *reinterpret_cast<const Samples*>(weight);
      const Entries part = *reinterpret_cast<const Entries*>(entry);
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

// A warp for each row of a block, and so one for each 32 samples of four rows.
template <class T>
__global__ void __launch_bounds__(kRowSumMostWarps* kWarp, 2)
    row_sums(RowSumTable<T> table,
             T* __restrict__ sums,  // [N, C]
             int64_t samples, int classes, int parts, bool vectors) {
  using Four = Vector<T, kRowSumRows>;
  PTD_DYNAMIC_SHARED(T, shared);  // [warps, kRowSumPitch]
  const int64_t chunk = int64_t(blockIdx.z) * gridDim.x + blockIdx.x;
  if (chunk >= table.chunks) return;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int first = static_cast<int>(blockIdx.y) * warps, row = first + warp_id();
  const int undecided = row < classes ? table.undecided[row] : 0;
  const auto marks = reinterpret_cast<const Vector<unsigned, 4>*>(table.off)[chunk];
  const bool off = marks.of[0] | marks.of[1] | marks.of[2] | marks.of[3];
  const T* const weights = table.weights + chunk * parts * kRowSumSamples;

  Vector<T, kRowSumOfLane> sum{};
  if (row < classes) {
    sum_entries_of(table, row, parts, off ? classes : undecided,
                   weights + lane_id() * kRowSumOfLane, sum.of);
  }
  const int place = warp_id() * kRowSumPitch + lane_id() * kRowSumOfLane;
  *reinterpret_cast<Vector<T, kRowSumOfLane>*>(shared + place) = sum;
  __syncthreads();

  const int thread = static_cast<int>(threadIdx.x), log2_fours = warps == kRowSumWarps ? 1 : 2;
  const int sample = thread >> log2_fours, four = thread & ((1 << log2_fours) - 1);
  const int i = first + four * kRowSumRows;
  const int64_t n = chunk * kRowSumSamples + sample;
  if (n >= samples || i >= classes) return;
  Four result{};
  if (!off) {
    auto linear = reinterpret_cast<const Four*>(table.linear + int64_t(i) * (parts + 1));
    const T* weight = weights + sample;
    result = *linear++;
#pragma unroll 4
    for (int j = 0; j < parts; ++j, ++linear, weight += kRowSumSamples) {
      const T h = *weight;
      const Four entry = *linear;
#pragma unroll
      for (int r = 0; r < kRowSumRows; ++r) result.of[r] += h * entry.of[r];
    }
  }
#pragma unroll
  for (int r = 0; r < kRowSumRows; ++r) {
    result.of[r] += shared[(four * kRowSumRows + r) * kRowSumPitch + sample];
  }
  T* const to = sums + n * classes + i;
  if (vectors) {
    *reinterpret_cast<Four*>(to) = result;
  } else {
#pragma unroll
    for (int r = 0; r < kRowSumRows; ++r) {
      if (i + r < classes) to[r] = result.of[r];
    }
  }
}

#ifdef __CUDACC_RTC__
template __global__ void row_sums<float>(RowSumTable<float>, float*, int64_t, int, int, bool);
template __global__ void row_sums<double>(RowSumTable<double>, double*, int64_t, int, int, bool);
#endif

}  // namespace ptd
