// Rows on their way between memories, four numbers at a time, and the weights of a block's samples
// (noisy_posterior_tile.cuh).
#pragma once

#include "noisy_posterior_tile.cuh"

namespace ptd {

// Four neighbours, which begin at a multiple of their size.
template <class S>
__device__ __forceinline__ Four<float> load_four(const S* from) {
  const Vector<S, kTile> stored = *reinterpret_cast<const Vector<S, kTile>*>(from);
  Four<float> four;
#pragma unroll
  for (int v = 0; v < kTile; ++v) four.of[v] = load<float>(stored.of + v);
  return four;
}
template <class S>
__device__ __forceinline__ void store_four(S* to, const Four<float>& four) {
  Vector<S, kTile> stored;
#pragma unroll
  for (int v = 0; v < kTile; ++v) store(stored.of + v, four.of[v]);
  *reinterpret_cast<Vector<S, kTile>*>(to) = stored;
}

__device__ __forceinline__ Four<float> load_four(const float* from) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  return {{four.x, four.y, four.z, four.w}};
}
__device__ __forceinline__ void store_four(float* to, const Four<float>& four) {
  *reinterpret_cast<float4*>(to) = make_float4(four.of[0], four.of[1], four.of[2], four.of[3]);
}

// Weights of the block's samples, from `first` on, transposed, by the whole block. Samples beyond
// the last have weight zero.
template <class Tile>
__device__ __forceinline__ void stage_tile_weights(const TiledBatch& batch, int64_t first,
                                                   float* to) {  // [tiles, R, kPitch]
  const int parts = batch.parts, samples = batch.tiles * Tile::kSamples;
  const auto place = [&](int n, int j) {
    return to + (n / Tile::kSamples * parts + j) * Tile::kPitch + n % Tile::kSamples;
  };
  // Eight lanes have a sample, four parts each at a time.
  constexpr int kLanes = 8;
  const int lane = static_cast<int>(thread_number() % kLanes);
  const int step = static_cast<int>(blockDim.x) / kLanes;
  if (batch.whole_weights) {
#pragma unroll 1
    for (int j = kTile * lane; j < parts; j += kTile * kLanes) {
#pragma unroll 4
      for (int n = static_cast<int>(thread_number() / kLanes); n < samples; n += step) {
        Four<float> four = {};
        if (first + n < batch.samples) four = load_four(batch.weights + (first + n) * parts + j);
#pragma unroll
        for (int v = 0; v < kTile; ++v) *place(n, j + v) = four.of[v];
      }
    }
    return;
  }
#pragma unroll 1
  for (int n = static_cast<int>(thread_number() / kLanes); n < samples; n += step) {
    const float* const from = batch.weights ? batch.weights + (first + n) * parts : nullptr;
#pragma unroll 2
    for (int j = lane; j < parts; j += kLanes) {
      *place(n, j) = first + n >= batch.samples ? 0.0f : from ? from[j] : 1.0f;
    }
  }
}

}  // namespace ptd
