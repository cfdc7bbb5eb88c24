// How a block fills its table of decided entries (decided.cuh): what is decided is left before one
// barrier, and what follows from it before another.
//
// Four lanes of a warp have an entry, eight lanes apart, so that the eight entries of a warp are
// neighbours in memory, and their bits in a ballot make a byte. A lane has five of the parts: those
// that make one word of an entry's test, and one that makes a byte of the fifth word.
#pragma once

#include "decided.cuh"
#include "label_batch.cuh"

namespace ptd {

// A lane's share of an entry.
class EntryShare {
  static constexpr int kLanes = 4, kWarpEntries = kWarp / kLanes;  // of an entry; of a warp
  static constexpr int kParts = kSlackParts / kLanes;
  static_assert(kParts == kLanes + 1);
  static_assert(DecidedTable::kMostThreads / kLanes >= DecidedTable::kEntries + kTestsAtOnce - 1);

  float of[kParts], slack;
  unsigned word, rest;  // of the entry's test, at [quarter()] and [kLanes + quarter()]

  static __device__ __forceinline__ int quarter() { return lane_id() / kWarpEntries; }
  static __device__ __forceinline__ int entry() {
    return warp_id() * kWarpEntries + lane_id() % kWarpEntries;
  }
  static __device__ __forceinline__ int part_at(int a) {
    return a < kLanes ? kLanes * quarter() + a : kLanes * kLanes + quarter();
  }

  template <class Combine, class T>
  static __device__ __forceinline__ T over_lanes(const Combine& combine, T x) {
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, kWarpEntries));
    return combine(x, __shfl_xor_sync(0xffffffffu, x, 2 * kWarpEntries));
  }

  // The test of an entry of parts from zero to `most`. An integer is at most half more than what it
  // is rounded from, so that products of them are at most
  //   254 scale sum_j h_j P_j + 254 (1 + kWeightsOff) / 2 + sum of the parts' bytes / 2.
  __device__ __forceinline__ void make_test(float most, bool possible, unsigned row) {
    constexpr float kLeast = 1e-30f, kMost = 1e30f;  // scales that are numbers, and not zero
    const float scale = quick_quotient(kByteSteps, most);
    word = bytes_of(of[0], of[1], of[2], of[3], scale);
    const unsigned last = byte_of(of[kLanes], scale) & 0xffu;
    const auto add = [](unsigned a, unsigned b) { return a + b; };
    const unsigned fifth = over_lanes(add, last << 8 * quarter());
    const unsigned sum = over_lanes(add, __dp4a(word, 0x01010101u, last));
    const float wanted = kRounding * (most - slack) - slack;
    const float rounded = 0.5f * (kByteSteps * (1.0f + kWeightsOff) + float(int(sum)));
    const float least = kByteSteps * scale * wanted + rounded;
    const bool fits = possible && most >= kLeast && most <= kMost && least < 1e6f;
    const unsigned margin = fits ? unsigned(-1 - int(least)) : 0x80000000u;  // that is, never
    rest = quarter() == 0 ? fifth : quarter() == 1 ? margin : row;
  }

 public:
  // What is beyond the last part has no weight. It is as the last, so that nothing lies between it
  // and the others.
  template <class S>
  __device__ __forceinline__ void load(const LabelBatch<S>& batch) {
    const int k = entry() / kLoneClasses, i = entry() % kLoneClasses;
    const bool inside = k < batch.classes && i < batch.classes;
#pragma unroll
    for (int a = 0; a < kParts; ++a) {
      const int j = part_at(a) < batch.parts ? part_at(a) : batch.parts - 1;
      const unsigned at = (k * batch.parts + j) * batch.classes + i;
      of[a] = inside ? batch.columns[at] : 0.0f;
    }
    slack = inside ? slack_at(batch, i, k) : 0.0f;
  }

  // Before the first barrier: the parts, and what is decided.
  __device__ __forceinline__ void decide_entry(int classes, DecidedTable& table) {
    const int k = entry() / kLoneClasses, i = entry() % kLoneClasses;
    float least = of[0], most = of[0], sum = of[0];
#pragma unroll
    for (int a = 1; a < kParts; ++a) {
      least = fminf(least, of[a]);
      most = fmaxf(most, of[a]);
      sum += of[a];
    }
    if (entry() < DecidedTable::kEntries) {
      float* const to = table.part[i][k];
      float2* const two = reinterpret_cast<float2*>(to + part_at(0));
      two[0] = {of[0], of[1]};
      two[1] = {of[2], of[3]};
      to[part_at(kLanes)] = of[kLanes];
      if (quarter() == 0) to[kSlackParts] = slack;
    }
    least = over_lanes([](float a, float b) { return fminf(a, b); }, least);
    most = over_lanes([](float a, float b) { return fmaxf(a, b); }, most);
    sum = over_lanes([](float a, float b) { return a + b; }, sum);
    const bool known = sum == sum;
    Entry decided = known ? decide(least, most, slack) : Entry::kUndecided;
    if (k >= classes || i >= classes) decided = Entry::kAlwaysClamped;
    const unsigned open = __ballot_sync(0xffffffffu, decided == Entry::kUndecided);
    const unsigned never = __ballot_sync(0xffffffffu, decided == Entry::kNeverClamped);
    if (lane_id() == 0) {
      reinterpret_cast<unsigned char*>(&table.is_open)[warp_id()] = open & 0xffu;
      reinterpret_cast<unsigned char*>(&table.is_never_clamped)[warp_id()] = never & 0xffu;
    }
    make_test(most, known && least >= 0.0f, 1u << i);
  }

  // Between the barriers: tests, one after another, and after the last some that none fails, for
  // those that are tested together with it.
  __device__ __forceinline__ void place_test(const EntryBits& open, DecidedTable& table) const {
    const int at = entry() / kWarp;
    const unsigned bit = 1u << entry() % kWarp;
    unsigned tested = 0;
    int place = 0;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      if (a == at) tested = open.of[a] & bit;
      place += __popc(a < at ? open.of[a] : a == at ? open.of[a] & (bit - 1u) : 0u);
    }
    const int past = entry() - DecidedTable::kEntries;
    if (past == 0 && quarter() == 0) table.count = place;
    if (past >= 0 ? past >= kTestsAtOnce - 1 : !tested) return;
    unsigned* const to = reinterpret_cast<unsigned*>(&table.tests[place + (past > 0 ? past : 0)]);
    to[quarter()] = past >= 0 ? 0u : word;
    to[kLanes + quarter()] = past >= 0 ? 0u : rest;
  }
};

// And sums over k, by the last warps, which have the fewest samples: a thread has sum [i][j], and
// one after these the bits of row i.
__device__ __forceinline__ void add_up_rows(const EntryBits& open, DecidedTable& table) {
  constexpr int kSums = kSlackParts + 1, kRowBits = kLoneClasses * kSums;
  const int t = static_cast<int>(DecidedTable::kMostThreads - 1 - threadIdx.x);
  if (t >= kRowBits + kLoneClasses) return;
  const EntryBits never = table.is_never_clamped;
  const bool a_sum = t < kRowBits;
  const int i = a_sum ? t / kSums : t - kRowBits, j = t % kSums;
  const auto is_set = [i](const EntryBits& bits, int k) {
    const int at = kLoneClasses * k;  // of row 0
    const unsigned high = bits.of[at / kWarp + 1];
    return (uint64_t(high) << 32 | bits.of[at / kWarp]) >> i >> at % kWarp & 1u;
  };
  if (!a_sum) {
    unsigned mask = 0;
#pragma unroll
    for (int k = 0; k < kLoneClasses; ++k) mask |= unsigned(is_set(open, k)) << k;
    table.undecided[i] = mask;
    return;
  }
  float linear = 0.0f, undecided = 0.0f;
#pragma unroll
  for (int k = 0; k < kLoneClasses; ++k) {
    const float part = table.part[i][k][j];
    if (is_set(never, k)) linear += part;
    if (is_set(open, k)) undecided += part;
  }
  table.never[i][j] = linear;
  table.all[i][j] = linear + undecided;
}

}  // namespace ptd
