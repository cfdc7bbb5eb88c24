// The sign table of T(x) + slack.
//
// Weights on the simplex keep T_ik(x) between the least and the largest P^j_ik. An entry that is
// then positive for every sample adds to its row sum a term that is linear in the weights; one that
// is never positive adds nothing. The others are undecided: they are evaluated per sample.
//
// A block has kSignTableRows rows i. Its threads run over (k, i) with i fastest, so that whole
// sectors of the parts are read. 2 (R + 1) C^2 numbers must move, and C^2 places.
#pragma once

#include "common/reductions.cuh"
#include "math/revision.h"
#include "row_sums/row_sums.h"

namespace ptd {

// How far the sum of a sample's weights may be from one for the table to hold.
constexpr float kWeightSumTolerance = 1.0f / 256;
// The rounding error that an entry may have, relative to the numbers it is the difference of.
constexpr float kEntryRounding = 1.0f / 65536;

enum class Sign { kUndecided, kPositive, kNotPositive };

// The sign of an entry between least + slack and most + slack, all finite. A positive entry is far
// from zero or a sum of nothing negative: the order in which its row is summed up does not matter.
template <class T>
__device__ __forceinline__ Sign known_sign(T least, T most, T slack) {
  if (clamp_entry(most) * T(1.0f + kWeightSumTolerance) + slack <= T(0)) return Sign::kNotPositive;
  if (!(least >= T(0))) return Sign::kUndecided;
  const T lowest = least * T(1.0f - kWeightSumTolerance) + slack;
  const bool positive = slack >= T(0) || lowest >= T(kEntryRounding) * (most - slack);
  return positive ? Sign::kPositive : Sign::kUndecided;
}

// Of entry (i, k). NaN or infinity among its parts leaves it undecided.
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
  return not_finite == T(0) ? known_sign(least, most, slack) : Sign::kUndecided;
}

template <class T>
__global__ void __launch_bounds__(kSignTableThreads, 2)
    sign_table(Transition<T> transition, SignTable<T> table) {
  constexpr int kRows = kSignTableRows, kColumns = kSignTableThreads / kRows;
  __shared__ unsigned char is_undecided[kColumns][kRows];
  __shared__ T sums[kColumns][kRows];
  const int classes = transition.classes, parts = transition.parts;
  const int row = threadIdx.x % kRows, column = threadIdx.x / kRows;
  const int i = blockIdx.x * kRows + row;

  // Undecided entries take the places from the front of their row, the others from the back.
  int undecided = 0;
  for (int first = 0; first < classes; first += kColumns) {
    const int k = first + column;
    const bool inside = i < classes && k < classes;
    const Sign sign = inside ? entry_sign(transition, i, k) : Sign::kNotPositive;
    __syncthreads();
    is_undecided[column][row] = sign == Sign::kUndecided;
    __syncthreads();
    int before = undecided;
    for (int c = 0; c < kColumns; ++c) {
      if (c < column) before += is_undecided[c][row];
      undecided += is_undecided[c][row];
    }
    const int place = sign == Sign::kUndecided ? before : classes - 1 - (k - before);
    if (inside) {
      table.places[int64_t(k) * classes + i] = 2 * place + (sign == Sign::kPositive ? 1 : 0);
    }
  }
  if (column == 0 && i < classes) table.undecided[i] = undecided;

  // Each thread reads back the places that it has written itself.
  for (int j = 0; j <= parts; ++j) {
    T sum = T(0);
    for (int k = column; i < classes && k < classes; k += kColumns) {
      const T entry = j < parts ? transition.column(k, j)[i] : transition.slack_at(i, k);
      const int place = table.places[int64_t(k) * classes + i] / 2;
      const bool positive = table.places[int64_t(k) * classes + i] % 2;
      const int64_t tile = int64_t(i) * table.tiles + place / kRowSumEntries;
      table.entries[(tile * (parts + 1) + j) * kRowSumEntries + place % kRowSumEntries] = entry;
      if (positive) sum += entry;
    }
    __syncthreads();
    sums[column][row] = sum;
    __syncthreads();
    if (column == 0 && i < classes) {
      for (int c = 1; c < kColumns; ++c) sum += sums[c][row];
      table.linear[int64_t(j) * classes + i] = sum;
    }
  }
}

}  // namespace ptd
