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
// A block decides for itself, and leaves in shared memory what all lanes of its warps read at once.
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

// Four numbers, each times scale between 0 and 255, to the nearest integers.
__device__ __forceinline__ unsigned bytes_of(float a, float b, float c, float d, float scale) {
  constexpr float kUnit = 8388608.0f;  // of which the last bit is worth one
  const auto integer = [&](float x) { return __float_as_uint(__fmaf_rn(x, scale, kUnit)); };
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
#pragma unroll 1
  for (int w = 0; w < DecidedTable::kWarps; ++w) {
    const int count = table.count[w];
#pragma unroll 1
    for (int e = 0; e < count; e += 2) {
      test(table.tests[w][e]);
      test(table.tests[w][e + 1]);
    }
  }
  if (!__any_sync(0xffffffffu, failed)) return 0;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    failed |= __shfl_xor_sync(0xffffffffu, failed, offset);
  }
  return failed;
}

// m + sum_j h_j part_j, of a table of vectors of two or four.
template <class Vector>
__device__ __forceinline__ float add_parts(float m, const float* part,  // shared, [kSlackParts]
                                           const float (&h)[kSlackParts]) {
  constexpr int kNumbers = sizeof(Vector) / sizeof(float);
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
    sum += clamp_entry(add_parts<float2>(table.slack[i][k], table.part[i][k], h));
  }
  return sum;
}

// The test of an entry of parts from zero to `most`. An integer is at most half more than what it
// is rounded from, so that products of them are at most
//   254 scale sum_j h_j P_j + 254 (1 + kWeightsOff) / 2 + sum of the parts' bytes / 2.
__device__ __forceinline__ EntryTest test_of(const float* part,  // shared, [kSlackParts]
                                             float most, float slack) {
  constexpr float kLeast = 1e-30f, kMost = 1e30f;  // scales that are numbers, and not zero
  const float scale = kByteSteps / most;
  EntryTest test;
  unsigned sum = 0;
#pragma unroll
  for (int a = 0; a < kSlackParts / 4; ++a) {
    const float2* const two = reinterpret_cast<const float2*>(part + 4 * a);
    test.part[a] = bytes_of(two[0].x, two[0].y, two[1].x, two[1].y, scale);
    sum = __dp4a(test.part[a], 0x01010101u, sum);
  }
  const float wanted = kRounding * (most - slack) - slack;
  const float rounded = 0.5f * (kByteSteps * (1.0f + kWeightsOff) + float(int(sum)));
  const float least = kByteSteps * scale * wanted + rounded;
  const bool fits = most >= kLeast && most <= kMost && least < 1e6f;
  test.margin = fits ? -1 - int(least) : int(0x80000000u);  // never, if it has no place
  return test;
}

// The table, from parts and slack that are in it. The last warps, which have the fewest samples,
// have some rows each: a lane has an entry first, then a part of a row's linear entries.
__device__ __forceinline__ void decide_entries(int classes, DecidedTable& table) {
  constexpr int kRows = DecidedTable::kRows;
  const int warp = warp_id() - (static_cast<int>(blockDim.x) / kWarp - DecidedTable::kWarps);
  if (warp < 0) return;
  const int first = warp * kRows, of_row = lane_id() / kLoneClasses;
  const int i = first + of_row, k = lane_id() % kLoneClasses;
  const bool inside = of_row < kRows && i < classes && k < classes;
  const float* const part = table.part[inside ? i : 0][inside ? k : 0];
  const float slack = inside ? table.slack[i][k] : 0.0f;
  float least = part[0], most = part[0], sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kSlackParts; ++j) {
    least = fminf(least, part[j]);
    most = fmaxf(most, part[j]);
    sum += part[j];
  }
  const bool known = sum == sum;
  Entry entry = known ? decide(least, most, slack) : Entry::kUndecided;
  if (!inside) entry = Entry::kAlwaysClamped;
  const unsigned never = __ballot_sync(0xffffffffu, entry == Entry::kNeverClamped);
  const unsigned formed = __ballot_sync(0xffffffffu, entry == Entry::kUndecided);

  // Those that are not tested come last, with a test that none fails.
  const bool tested = entry == Entry::kUndecided;
  const unsigned before = (1u << lane_id()) - 1u;
  const int place = tested ? __popc(formed & before) : __popc(formed) + __popc(~formed & before);
  __syncwarp();  // parts are read again, not kept
  EntryTest test = test_of(part, most, slack);
  if (!known || !(least >= 0.0f)) test.margin = int(0x80000000u);
  if (!tested) test.margin = 0;
  test.row = 1u << i;
  if (place < kRows * kLoneClasses) {
    uint4* const to = reinterpret_cast<uint4*>(&table.tests[warp][place]);
    to[0] = {test.part[0], test.part[1], test.part[2], test.part[3]};
    to[1] = {test.part[4], unsigned(test.margin), test.row, 0u};
  }
  if (lane_id() == 0) table.count[warp] = __popc(formed);
  const auto of_a_row = [&](unsigned bits, int row) {
    return bits >> row * kLoneClasses & ((1u << kLoneClasses) - 1u);
  };
  if (inside && k == 0) table.undecided[i] = of_a_row(formed, of_row);

  // A lane for each part, and one for slack.
#pragma unroll 1
  for (int t = lane_id(); t < kRows * (kSlackParts + 1); t += kWarp) {
    const int row = t / (kSlackParts + 1), j = t % (kSlackParts + 1), i = first + row;
    if (i >= kLoneClasses) break;
    const bool a_part = j < kSlackParts;
    const float* const from = a_part ? table.part[i][0] + j : table.slack[i];
    const int step = a_part ? DecidedTable::kPitch : 1;
    const unsigned linear = of_a_row(never, row), open = of_a_row(formed, row);
    float linear_sum = 0.0f, open_sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kLoneClasses; ++k) {
      if (linear >> k & 1u) linear_sum += from[k * step];
      if (open >> k & 1u) open_sum += from[k * step];
    }
    table.never[i][j] = linear_sum;
    table.all[i][j] = linear_sum + open_sum;
  }
}

}  // namespace ptd
