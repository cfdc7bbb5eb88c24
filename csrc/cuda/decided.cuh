// Which entries of T(x) + slack need to be formed to know the row sums r_i = sum_k max(m_ik, 0).
//
// Weights are on the simplex, so that T_ik(x) is between the least and the largest P^j_ik of all
// parts. An entry that is never negative there adds to r_i what is linear in the weights; one that
// is never positive adds nothing. What is left is undecided. Where slack is zero that is nothing.
//
// Slack is small against most of T(x), so that most undecided entries are positive for all samples
// of a warp. Each lane makes sure of that with its own weights, four parts an instruction: weights
// and parts in steps of 1/254, as bytes, and a margin for what rounding to them may add. If all are
// positive, row i is linear in the weights, one table for all entries. If not, those of row i that
// are undecided are formed.
//
// A block decides for itself (decide_entries.cuh), and leaves in shared memory what all lanes of
// its warps read at once.
#pragma once

#include "../math/revision.h"
#include "decide.cuh"
#include "decided_table.h"
#include "reduce.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr float kByteSteps = 254.0f;  // of a weight of one, or the largest part of an entry

// Whether a sample's weights are where entries are decided. NaN is not, nor is -0.
__device__ __forceinline__ bool on_simplex(const float (&h)[kSlackParts]) {
  float even = 0.0f, odd = 0.0f;
  unsigned signs = 0;
#pragma unroll
  for (int j = 0; j < kSlackParts; j += 2) {
    even += h[j];
    odd += h[j + 1];
    signs |= __float_as_uint(h[j]) | __float_as_uint(h[j + 1]);
  }
  return !(signs >> 31) & (fabsf(even + odd - 1.0f) <= kWeightsOff);
}

// A number that times scale is between 0 and 255, to the nearest integer: the lowest byte.
__device__ __forceinline__ unsigned byte_of(float x, float scale) {
  constexpr float kUnit = 8388608.0f;  // of which the last bit is worth one
  return __float_as_uint(__fmaf_rn(x, scale, kUnit));
}

// Four of them.
__device__ __forceinline__ unsigned bytes_of(float a, float b, float c, float d, float scale) {
  const auto integer = [&](float x) { return byte_of(x, scale); };
  const unsigned low = __byte_perm(integer(a), integer(b), 0x0040);
  return __byte_perm(low, __byte_perm(integer(c), integer(d), 0x0040), 0x5410);
}

// Rows, a bit for each, with an entry that may be negative for one of a warp's samples.
__device__ __forceinline__ unsigned failed_rows(const DecidedTable& table,
                                                const float (&h)[kSlackParts]) {
  constexpr int kWords = kSlackParts / 4;
  unsigned weight[kWords], failed = 0;
#pragma unroll
  for (int a = 0; a < kWords; ++a) {
    weight[a] = bytes_of(h[4 * a], h[4 * a + 1], h[4 * a + 2], h[4 * a + 3], kByteSteps);
  }
  const auto test = [&](const EntryTest& entry) {
    const uint4* const words = reinterpret_cast<const uint4*>(&entry);
    const uint4 first = words[0], rest = words[1];
    unsigned sum = __dp4a(first.x, weight[0], rest.y);
    sum = __dp4a(first.y, weight[1], sum);
    sum = __dp4a(first.z, weight[2], sum);
    sum = __dp4a(first.w, weight[3], sum);
    sum = __dp4a(rest.x, weight[4], sum);
    if (static_cast<int>(sum) < 0) failed |= rest.z;
  };
  const EntryTest* entry = table.tests;
#pragma unroll 1
  for (int left = table.count; left > 0; left -= kTestsAtOnce, entry += kTestsAtOnce) {
#pragma unroll
    for (int e = 0; e < kTestsAtOnce; ++e) test(entry[e]);
  }
  if (!__any_sync(0xffffffffu, failed)) return 0;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    failed |= __shfl_xor_sync(0xffffffffu, failed, offset);
  }
  return failed;
}

// slack + sum_j h_j part_j, of a table of vectors of two or four.
template <class Vector>
__device__ __forceinline__ float add_parts(const float* part,  // shared, [kSlackParts + 1]
                                           const float (&h)[kSlackParts]) {
  constexpr int kNumbers = sizeof(Vector) / sizeof(float);
  float m = part[kSlackParts];
#pragma unroll
  for (int j = 0; j < kSlackParts; j += kNumbers) {
    const Vector some = *reinterpret_cast<const Vector*>(part + j);
    m += h[j] * some.x;
    m += h[j + 1] * some.y;
    if constexpr (kNumbers == 4) {
      m += h[j + 2] * some.z;
      m += h[j + 3] * some.w;
    }
  }
  return m;
}

// r_i, where the entries k with a bit in `formed` add to `sum` what they come to.
__device__ __forceinline__ float add_entries(const DecidedTable& table, int i, unsigned formed,
                                             const float (&h)[kSlackParts], float sum) {
#pragma unroll 1
  for (; formed; formed &= formed - 1) {
    const int k = __ffs(static_cast<int>(formed)) - 1;
    sum += clamp_entry(add_parts<float2>(table.part[i][k], h));
  }
  return sum;
}

}  // namespace ptd
