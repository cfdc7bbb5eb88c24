// Runs of rows between global memory and a warp's tile in shared memory, in whole lines.
#pragma once

#include "label_batch.cuh"
#include "reduce.cuh"

namespace ptd {

// Up to 32 kVectors vectors of 16 bytes on their way between memories, by the lanes of a warp: all
// loads are under way before the first is waited for.
template <int kVectors>
struct InFlight {
  uint4 of[kVectors];

  __device__ __forceinline__ void load(const uint4* from, int count) {
#pragma unroll
    for (int a = 0; a < kVectors; ++a) {
      const int t = lane_id() + kWarp * a;
      if (t < count) of[a] = from[t];
    }
  }
  __device__ __forceinline__ void store(uint4* to, int count) const {
#pragma unroll
    for (int a = 0; a < kVectors; ++a) {
      const int t = lane_id() + kWarp * a;
      if (t < count) to[t] = of[a];
    }
  }
};

// `count` numbers from one memory to the other; both start at a multiple of 16 bytes. The first
// `done` vectors are there already.
template <class S>
__device__ __forceinline__ void copy_flat(const S* from, S* to, int count, int done = 0) {
  constexpr int kPerVector = 16 / sizeof(S), kAtOnce = 2;
  const int vectors = count / kPerVector;
#pragma unroll 1
  for (int start = done; start < vectors; start += kAtOnce * kWarp) {
    InFlight<kAtOnce> part;
    part.load(reinterpret_cast<const uint4*>(from) + start, vectors - start);
    part.store(reinterpret_cast<uint4*>(to) + start, vectors - start);
  }
  const int t = vectors * kPerVector + lane_id();
  if (t < count) to[t] = from[t];
}

// The rows of a range (narrow.cuh) of a [N, width] to shared memory, in two steps between which
// other work fits.
template <class S, int kVectors>
struct TileInFlight {
  static constexpr int kPerVector = 16 / sizeof(S);
  InFlight<kVectors> held;

  template <class Range>
  __device__ __forceinline__ void load(const Rows<const S>& rows, const Range& range, int width) {
    if (!rows.flat) return;
    held.load(reinterpret_cast<const uint4*>(rows.data + range.start(width)),
              range.count * width / kPerVector);
  }
  template <class Range>
  __device__ __forceinline__ void store(const Rows<const S>& rows, const Range& range, int width,
                                        S* tile) const {  // [count, width]
    if (rows.flat) {
      held.store(reinterpret_cast<uint4*>(tile), range.count * width / kPerVector);
      return copy_flat(rows.data + range.start(width), tile, range.count * width, kVectors * kWarp);
    }
#pragma unroll 1
    for (int t = lane_id(); t < range.count * width; t += kWarp) {
      tile[t] = rows.data[(range.first + t / width) * rows.row_stride + t % width * rows.stride];
    }
  }
};

// A warp's tile to the rows of its range of a contiguous [N, C].
template <class S, class Range>
__device__ __forceinline__ void write_tile(const S* tile,  // shared, [count, C]
                                           S* out, const Range& range, int classes) {
  __syncwarp();
  copy_flat(tile, out + range.start(classes), range.count * classes);
}

}  // namespace ptd
