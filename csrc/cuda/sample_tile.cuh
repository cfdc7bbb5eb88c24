// Four samples at a time: what an operator on whole transition matrices does with each entry.
//
// Entry (i, k) of T(x) + slack is m = slack_ik + sum_j h_j P^j_ik. A thread forms it for the same
// (i, k) of four samples, so that an entry of the parts is loaded once for all of them, and their
// weights, which lie together in shared memory, are one 16-byte load.
#pragma once

#include "../math/revision.h"
#include "launch.h"
#include "reduce.cuh"
#include "transition_batch.h"

namespace ptd {

constexpr int kTile = 4;  // samples

template <class T>
struct alignas(16) Four {
  T of[kTile];
};

// Weights of `tiles` tiles from sample `first` on, by all threads of the block. Samples beyond the
// last have weight zero. The caller synchronises.
template <class T>
__device__ __forceinline__ void stage_weights(const TransitionBatch<T>& batch, int64_t first,
                                              int tiles,
                                              Four<T>* h) {  // shared, [tiles, R]
  const int parts = batch.parts;
  for (int e = threadIdx.x; e < tiles * kTile * parts; e += blockDim.x) {
    const int sample = e / parts, j = e % parts;
    const bool inside = first + sample < batch.samples;
    const T weight = !inside ? T(0) : batch.weights ? batch.weights[first * parts + e] : T(1);
    h[sample / kTile * parts + j].of[sample % kTile] = weight;
  }
}

// m = entry (i, k) of T(x) + slack for the samples of a tile.
template <int Unroll = 4, class T>
__device__ __forceinline__ void combine(const TransitionBatch<T>& batch,
                                        const Four<T>* h,  // shared, [R]
                                        int i, int k, T (&m)[kTile]) {
  const int classes = batch.classes, parts = batch.parts;
  const T base = batch.slack ? batch.slack[int64_t(k) * classes + i] : T(0);
#pragma unroll
  for (int s = 0; s < kTile; ++s) m[s] = base;
  const T* part = batch.columns + int64_t(k) * parts * classes + i;
#pragma unroll Unroll
  for (int j = 0; j < parts; ++j, part += classes) {
    const T entry = *part;
    const Four<T> weight = h[j];
#pragma unroll
    for (int s = 0; s < kTile; ++s) m[s] += weight.of[s] * entry;
  }
}

// Sums each of Count values over Lanes neighbouring lanes; the total of value v arrives in value[0]
// of the lanes v Lanes / Count onwards. At every step a lane gives away the half of the values that
// it need not finish, so that this takes Count - 1 + log2(Lanes / Count) shuffles, not
// Count log2(Lanes).
template <int Lanes, int Count, int Offset = Lanes / 2, class T, int Size>
__device__ __forceinline__ void spread_sums_step(T (&value)[Size]) {
  if constexpr (Count > 1) {
    const bool upper = threadIdx.x & Offset;
#pragma unroll
    for (int v = 0; v < Count / 2; ++v) {
      const T given = upper ? value[v] : value[v + Count / 2];
      const T kept = upper ? value[v + Count / 2] : value[v];
      value[v] = kept + __shfl_xor_sync(lanes_mask<Lanes>(), given, Offset);
    }
    spread_sums_step<Lanes, Count / 2, Offset / 2>(value);
  } else if constexpr (Offset > 0) {
    value[0] += __shfl_xor_sync(lanes_mask<Lanes>(), value[0], Offset);
    spread_sums_step<Lanes, 1, Offset / 2>(value);
  }
}

template <int Lanes, class T, int Count>
__device__ __forceinline__ void spread_sums(T (&value)[Count]) {
  static_assert(Count <= Lanes && Lanes <= kWarp);
  spread_sums_step<Lanes, Count>(value);
}

}  // namespace ptd
