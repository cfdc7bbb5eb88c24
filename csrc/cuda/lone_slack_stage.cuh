// What a warp reads of its samples where each has a lane and there is slack (lone_slack.cuh).
#pragma once

#include "global_memory.cuh"
#include "narrow.cuh"

namespace ptd {

// A label as it is stored, in two halves of which one may be all: what is made of it would have to
// wait for it.
struct LabelInFlight {
  int low, high;

  static __device__ __forceinline__ const int32_t* at(const LabelView& labels, int64_t n) {
    const int64_t words = n * labels.stride * (labels.is_int64 ? 2 : 1);
    return static_cast<const int32_t*>(labels.data) + words;
  }
  __device__ __forceinline__ void load(const LabelView& labels, int64_t n) {
    const int32_t* const from = at(labels, n);
    low = from[0];
    high = from[labels.is_int64];
  }
  __device__ __forceinline__ int64_t of(const LabelView& labels) const {
    const uint64_t both = uint64_t(uint32_t(high)) << 32 | uint32_t(low);
    return labels.is_int64 ? static_cast<int64_t>(both) : low;
  }
};

// Asks for a warp's rows of a [N, width], if they are one run of memory.
template <class S>
__device__ __forceinline__ void prefetch_rows(const Rows<const S>& rows,
                                              const NarrowRange<kLoneSamples>& range, int width,
                                              int most) {
  constexpr int kSector = 32;
  if (!rows.flat || !rows.data) return;
  const int bytes = range.count * width * int(sizeof(S));
  const char* const from = reinterpret_cast<const char*>(rows.data + range.start(width));
#pragma unroll
  for (int a = 0; a < most * kLoneSamples * int(sizeof(S)); a += kSector * kWarp) {
    const int at = a + kSector * lane_id();
    if (at < bytes) prefetch(from + at);
  }
}

// All weights of a warp's samples on their way to registers, by way of the warp's tile, which has
// room for those of half of them: as rows of twenty, with zeros beyond the last part. Lanes beyond
// the last sample have the first's.
struct SlackWeights {
  static constexpr int kVectors = kSlackParts / 4;  // of a row, and of a lane
  static constexpr int kHalf = kLoneSamples / 2;
  static_assert(kHalf * kSlackParts <= kLoneSamples * kLoneParts);  // of a tile
  float4 of[kVectors];

  __device__ __forceinline__ void load(const Rows<const float>& weights,
                                       const NarrowRange<kLoneSamples>& range, int parts) {
    const bool whole = weights.flat && parts == kSlackParts;
    const float4* const from =
        reinterpret_cast<const float4*>(weights.data + range.start(kSlackParts));
#pragma unroll
    for (int a = 0; a < kVectors; ++a) {
      const int t = lane_id() + kWarp * a;
      of[a] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (whole && range.count > 0) of[a] = from[t < range.count * kVectors ? t : t % kVectors];
    }
    if (whole) return;
#pragma unroll
    for (int a = 0; a < kVectors; ++a) {
      const int t = lane_id() + kWarp * a, j = t % kVectors * 4;
      const int sample = t / kVectors < range.count ? t / kVectors : 0;
      const auto weight = [&](int j) {
        const bool inside = range.count > 0 && j < parts;
        return inside ? weight_at(weights, range.first + sample, j) : 0.0f;
      };
      of[a] = {weight(j), weight(j + 1), weight(j + 2), weight(j + 3)};
    }
  }

  // Those of the lane's sample. All lanes of the warp call.
  __device__ __forceinline__ void turn(float* tile,  // [kHalf, kSlackParts]
                                       float (&h)[kSlackParts]) const {
    float4* const vectors = reinterpret_cast<float4*>(tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      __syncwarp();
#pragma unroll
      for (int a = 0; a < kVectors; ++a) {
        const int t = lane_id() + kWarp * a - half * kHalf * kVectors;
        if (t >= 0 && t < kHalf * kVectors) vectors[t] = of[a];
      }
      __syncwarp();
      if (lane_id() / kHalf != half) continue;
#pragma unroll
      for (int a = 0; a < kVectors; ++a) {
        const float4 four = vectors[lane_id() % kHalf * kVectors + a];
        h[4 * a] = four.x;
        h[4 * a + 1] = four.y;
        h[4 * a + 2] = four.z;
        h[4 * a + 3] = four.w;
      }
    }
  }
};

}  // namespace ptd
