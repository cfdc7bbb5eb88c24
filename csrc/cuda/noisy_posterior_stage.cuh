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

// Which of so many a thread takes.
struct Turns {
  int first, step;
};

// A thread's way through a chunk of parts: four neighbours from c on, of every so many parts.
struct Way {
  int part, step, c;

  // `fours` to a part; inverse is 65536 / fours, rounded up.
  __device__ __forceinline__ Way(Turns turns, int fours, int inverse) {
    part = turns.first * inverse >> 16;
    step = turns.step * inverse >> 16;
    c = kTile * (turns.first - part * fours);
    if (part >= step) part = 1 << 16;
  }
};

// Four neighbours of a row of parts or slack, from column c on; zeros beyond the last.
__device__ __forceinline__ Four<float> load_quad(const TiledBatch& batch, const float* from,
                                                 int c) {
  if (batch.matrix.vectors) return load_four(from);
  Four<float> four = {};
#pragma unroll
  for (int v = 0; v < kTile; ++v) {
    if (c + v < batch.classes) four.of[v] = from[v];
  }
  return four;
}

// Row a of `count` parts from j on, to rows that are `pitch` apart.
__device__ __forceinline__ void copy_rows(const TiledBatch& batch, const Way& way, int a, int j,
                                          int count, float* to, int pitch) {
  const MatrixView& matrix = batch.matrix;
  int from = a * matrix.outer + (j + way.part) * matrix.inner + way.c;
  to += way.part * pitch + way.c;
#pragma unroll 4
  for (int part = way.part; part < count; part += way.step) {
    store_four(to, load_quad(batch, matrix.parts + from, way.c));
    from += way.step * matrix.inner;
    to += way.step * pitch;
  }
}

// Weights of the block's samples, from `first` on, transposed, by the whole block. Samples beyond
// the last have weight zero.
template <class Tile>
__device__ __forceinline__ void stage_tile_weights(const TiledBatch& batch, int64_t first,
                                                   float* to) {  // [tiles, R, kPitch]
  const int parts = batch.parts, samples = batch.tiles * Tile::kSamples;
  const auto place = [&](int n, int j) {
    return to + (n / Tile::kSamples * parts + j) * Tile::kPitch + Tile::slot(n % Tile::kSamples);
  };
  // Slots without a sample are loaded with the others.
  if constexpr (Tile::kSamples < Tile::kSlots) {
    for (int t = static_cast<int>(thread_number()); t < batch.tiles * parts * Tile::kGroups;
         t += static_cast<int>(blockDim.x)) {
      to[t / Tile::kGroups * Tile::kPitch + t % Tile::kGroups * kTile + kTile - 1] = 0.0f;
    }
  }
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

// A block some of whose warps load while the others multiply.
struct LoadingBlock {
  const TiledBatch& batch;

  __device__ __forceinline__ int warps() const { return static_cast<int>(blockDim.x) / kWarp; }
  // Warps that multiply come first.
  __device__ __forceinline__ int multiplying() const { return batch.tiles * batch.sharing; }
  __device__ __forceinline__ bool multiplies() const { return warp_number() < multiplying(); }
  __device__ __forceinline__ Turns of_all() const {
    return {static_cast<int>(thread_number()), static_cast<int>(blockDim.x)};
  }
  __device__ __forceinline__ Turns of_loading() const {
    const int before = multiplying() * kWarp;
    return {static_cast<int>(thread_number()) - before, static_cast<int>(blockDim.x) - before};
  }
};

}  // namespace ptd
