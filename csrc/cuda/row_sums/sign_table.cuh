// The sign table of T(x) + slack.
//
// With weights on the simplex, T_ik(x) lies between the smallest and the largest P^j_ik. If these
// bounds make an entry positive for every sample, its term in the row sum is linear in the weights;
// if it is never positive, it adds nothing. Other signs are unknown: row_sums.cu computes them.
//
// A block has kSignTableRows rows i. Its threads run over (k, i) with i fastest, so that loads of
// the parts use whole sectors. The parts are read twice, the second time from L2 if they fit.
// 2 (R + 1) C^2 numbers must move, and 2 C^2 slots and indices.
#pragma once

#include "common/reductions.cuh"
#include "common/scalars.cuh"
#include "math/revision.h"
#include "row_sums/row_sum_launchers.h"

namespace ptd {

// The table is valid for a sample whose weights sum to one within this tolerance.
constexpr float kWeightSumTolerance = 1.0f / 256;
// A bound on the rounding error of an entry, relative to the sum of the magnitudes of its terms.
constexpr float kEntryRounding = 1.0f / 65536;

enum class Sign { kUnknown, kPositive, kNotPositive };

// The sign of an entry between least + slack and most + slack, all finite. It is known only if the
// entry exceeds its rounding error or is a sum of terms of one sign, so that the order of summation
// cannot change its sign.
template <class T>
__device__ __forceinline__ Sign known_sign(T least, T most, T slack) {
  const T highest = clamp_entry(most) * T(1.0f + kWeightSumTolerance);
  const T margin = highest > T(0) ? T(kEntryRounding) * (highest - slack) : T(0);
  if (highest + slack <= -margin) return Sign::kNotPositive;
  if (!(least >= T(0))) return Sign::kUnknown;
  const T lowest = least * T(1.0f - kWeightSumTolerance) + slack;
  const bool positive = slack >= T(0) || lowest >= T(kEntryRounding) * (most - slack);
  return positive ? Sign::kPositive : Sign::kUnknown;
}

// The sign of entry (i, k); unknown if a part or the slack is NaN or infinite.
template <class T>
__device__ __forceinline__ Sign entry_sign(const Transition<T>& transition, int i, int k) {
  T least = infinity<T>(), most = -infinity<T>(), not_finite = T(0);
#pragma unroll 4
  for (int j = 0; j < transition.parts; ++j) {
    const T part = transition.column(k, j)[i];
    least = -max_of(-least, -part);
    most = max_of(most, part);
    not_finite += part * T(0);
  }
  const T slack = transition.slack_at(i, k);
  not_finite += slack * T(0);
  return not_finite == T(0) ? known_sign(least, most, slack) : Sign::kUnknown;
}

template <class T>
__global__ void __launch_bounds__(kSignTableThreads, 2)
    sign_table(Transition<T> transition, SignTable<T> table) {
  constexpr int kRows = kSignTableRows, kColumns = kSignTableThreads / kRows;
  constexpr int kWarps = kSignTableThreads / kWarp;
  __shared__ int counts[kWarps][kRows];
  __shared__ T sums[kWarps][kRows];
  const int classes = transition.classes, parts = transition.parts;
  // A warp has kWarp / kRows columns, and the lanes of one row are kRows apart.
  const int row = lane_id() % kRows, column = static_cast<int>(threadIdx.x) / kRows;
  const unsigned same_row = 0x01010101u << row;
  static_assert(kRows == 8);
  const int i = static_cast<int>(blockIdx.x) * kRows + row;

  // Entries of unknown sign take the slots from the front of their row, the others from the back.
  int unknown = 0;
  for (int first = 0; first < classes; first += kColumns) {
    const int k = first + column;
    const bool inside = i < classes && k < classes;
    const Sign sign = inside ? entry_sign(transition, i, k) : Sign::kNotPositive;
    const unsigned found = __ballot_sync(0xffffffffu, sign == Sign::kUnknown) & same_row;
    __syncthreads();  // the counts of the previous columns have been read
    if (lane_id() < kRows) counts[warp_id()][row] = __popc(found);
    __syncthreads();
    int before = unknown + __popc(found & ((1u << lane_id()) - 1u));
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp_id()) before += counts[w][row];
      unknown += counts[w][row];
    }
    const int slot = sign == Sign::kUnknown ? before : classes - 1 - (k - before);
    if (inside) {
      const int positive = sign == Sign::kPositive ? 1 : 0;
      table.slots[int64_t(k) * classes + i] = 2 * slot + positive;
      table.indices[int64_t(i) * table.tiles * kRowSumEntries + slot] = 2 * k + positive;
    }
  }
  if (threadIdx.x < kRows && i < classes) table.unknown[i] = unknown;

  // Each thread reads back the slots that it has written itself.
  for (int j = 0; j <= parts; ++j) {
    T sum = T(0);
    for (int k = column; i < classes && k < classes; k += kColumns) {
      const T entry = j < parts ? transition.column(k, j)[i] : transition.slack_at(i, k);
      const int coded = table.slots[int64_t(k) * classes + i], slot = coded / 2;
      const int64_t tile = int64_t(i) * table.tiles + slot / kRowSumEntries;
      table.entries[(tile * (parts + 1) + j) * kRowSumEntries + slot % kRowSumEntries] = entry;
      if (coded % 2) sum += entry;
      if (table.positive) {
        table.positive[(int64_t(k) * (parts + 1) + j) * classes + i] = coded % 2 ? entry : T(0);
      }
    }
    for (int apart = kRows; apart < kWarp; apart *= 2) {
      sum = add_of(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
    }
    __syncthreads();  // the sums of the previous part have been read
    if (lane_id() < kRows) sums[warp_id()][row] = sum;
    __syncthreads();
    if (threadIdx.x < kRows && i < classes) {
      for (int w = 1; w < kWarps; ++w) sum += sums[w][row];
      table.linear[int64_t(j) * classes + i] = sum;
    }
  }
}

}  // namespace ptd
