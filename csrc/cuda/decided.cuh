// Which entries of T(x) + slack need to be formed to know the row sums r_i = sum_k max(m_ik, 0).
//
// Weights are on the simplex, so that T_ik(x) is between the least and the largest P^j_ik of all
// parts. An entry that is never negative there adds to r_i what is linear in the weights, and all
// of a row come together in one table; one that is never positive adds nothing. What is left,
// undecided, is formed sample by sample. Where slack is zero that is nothing.
//
// A block decides that for itself and leaves in shared memory, row after row, the parts' numbers of
// the linear entry and of the undecided ones: all lanes of a warp read the same of them at once, in
// vectors of four.
#pragma once

#include "decide.cuh"
#include "narrow.cuh"

namespace ptd {

// One entry: its parts, zeros beyond the last, then its slack and, in the linear entry, which comes
// first, the number of entries of the row.
constexpr int kHalfParts = kSlackParts / 2;
constexpr int kEntrySlack = kSlackParts, kEntryCount = kSlackParts + 1;

// The sum of kEntries entries of the table, each clamped.
template <int kEntries>
__device__ __forceinline__ float sum_entries(const float* entry,  // shared, [kEntryPitch]
                                             const float (&h)[kSlackParts]) {
  float m[kEntries], sum = 0.0f;
#pragma unroll
  for (int e = 0; e < kEntries; ++e) m[e] = entry[e * kEntryPitch + kEntrySlack];
#pragma unroll
  for (int j = 0; j < kSlackParts; j += 4) {
#pragma unroll
    for (int e = 0; e < kEntries; ++e) {
      const float4 four = *reinterpret_cast<const float4*>(entry + e * kEntryPitch + j);
      m[e] += h[j] * four.x;
      m[e] += h[j + 1] * four.y;
      m[e] += h[j + 2] * four.z;
      m[e] += h[j + 3] * four.w;
    }
  }
#pragma unroll
  for (int e = 0; e < kEntries; ++e) sum += clamp_entry(m[e]);
  return sum;
}

// r_i, given the entries of row i: two at a time, which do not wait for each other.
__device__ __forceinline__ float decided_row_sum(const float* row,  // shared, [C + 1, kEntryPitch]
                                                 const float (&h)[kSlackParts]) {
  const int count = __float_as_int(row[kEntryCount]);
  float sum = 0.0f;
#pragma unroll 1
  for (int e = 0; e + 1 < count; e += 2, row += 2 * kEntryPitch) sum += sum_entries<2>(row, h);
  if (count % 2) sum += sum_entries<1>(row, h);
  return sum;
}

// Whether a sample's weights are where entries are decided. NaN is not.
__device__ __forceinline__ bool on_simplex(const float (&h)[kSlackParts]) {
  float sum = 0.0f;
  bool positive = true;
#pragma unroll
  for (int j = 0; j < kSlackParts; ++j) {
    sum += h[j];
    positive = positive && h[j] >= 0.0f;
  }
  return positive && fabsf(sum - 1.0f) <= kWeightsOff;
}

// The table, by all threads of the block, from the parts and the slack in shared memory. A warp has
// a row: for each entry two lanes, with every other part.
__device__ __forceinline__ void decide_entries(const NarrowLayout& layout, int classes, int parts,
                                               const float* columns,  // [padded]
                                               const float* slack,    // [C, 16]
                                               float* table) {        // [C, C + 1, kEntryPitch]
  constexpr int kHalf = kWarp / 2;
  const int k = lane_id() % kHalf, odd = lane_id() / kHalf;
#pragma unroll 1
  for (int i = warp_id(); i < classes; i += static_cast<int>(blockDim.x) / kWarp) {
    float* const row = table + i * (classes + 1) * kEntryPitch;
    const auto part_at = [&](int k, int j) {
      return columns[k * layout.column_pitch + j * layout.row_pitch + i];
    };
    const bool inside = k < classes;
    float part[kHalfParts], least = infinity<float>(), most = -infinity<float>();
    bool known = true;
#pragma unroll
    for (int a = 0; a < kHalfParts; ++a) {
      const int j = 2 * a + odd;
      part[a] = inside && j < parts ? part_at(k, j) : 0.0f;
      if (j >= parts) continue;
      least = fminf(least, part[a]);
      most = fmaxf(most, part[a]);
      known = known && part[a] == part[a];
    }
    least = fminf(least, __shfl_xor_sync(0xffffffffu, least, kHalf));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, kHalf));
    const unsigned unknown = __ballot_sync(0xffffffffu, !known);
    const float shift = inside ? slack[k * kNarrowSlackPitch + i] : 0.0f;
    Entry entry = inside ? decide(least, most, shift) : Entry::kAlwaysClamped;
    if ((unknown >> k | unknown >> (k + kHalf)) & 1u) entry = Entry::kUndecided;
    const unsigned linear = __ballot_sync(0xffffffffu, entry == Entry::kNeverClamped);
    const unsigned formed = __ballot_sync(0xffffffffu, entry == Entry::kUndecided) & 0xffffu;
    if (entry == Entry::kUndecided) {
      float* const to = row + (1 + __popc(formed & ((1u << k) - 1u))) * kEntryPitch;
#pragma unroll
      for (int a = 0; a < kHalfParts; ++a) to[2 * a + odd] = part[a];
      if (!odd) to[kEntrySlack] = shift;
    }
    // The linear entry: a lane for each part, one for slack, and one for the count.
    float sum = 0.0f;
#pragma unroll 2
    for (int k = 0; k < classes; ++k) {
      const bool adds = linear >> k & 1u;
      if (adds && lane_id() < parts) sum += part_at(k, lane_id());
      if (adds && lane_id() == kEntrySlack) sum += slack[k * kNarrowSlackPitch + i];
    }
    if (lane_id() == kEntryCount) sum = __int_as_float(1 + __popc(formed));
    if (lane_id() <= kEntryCount) row[lane_id()] = sum;
  }
}

}  // namespace ptd
