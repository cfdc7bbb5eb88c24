// A tile of kPosteriorSamples samples: an entry of T(x) + slack is computed for all of them, so
// that an entry of the parts is loaded once for the tile, and their weights are one vector load.
#pragma once

#include "common/reductions.cuh"
#include "common/scalars.cuh"
#include "common/transition.h"
#include "common/tuning.h"
#include "math/revision.h"

namespace ptd {

template <class T>
struct alignas(16) SampleTile {
  T of[kPosteriorSamples];
};

// Stages the weights of samples from `first` on in shared memory, as tiles. Samples beyond the last
// have weight zero. The caller synchronises.
template <class T>
__device__ __forceinline__ void stage_weights(const Transition<T>& transition, int64_t first,
                                              int count,            // a multiple of a tile's
                                              SampleTile<T>* to) {  // shared, [tiles, R]
  const int parts = transition.parts;
  for (int e = threadIdx.x; e < count * parts; e += blockDim.x) {
    const int s = e / parts, j = e % parts;
    const bool inside = first + s < transition.samples;
    to[s / kPosteriorSamples * parts + j].of[s % kPosteriorSamples] =
        inside ? transition.weight(first + s, j) : T(0);
  }
}

template <class T>
__device__ __forceinline__ SampleTile<T> filled_tile(T value) {
  SampleTile<T> tile;
#pragma unroll
  for (int s = 0; s < kPosteriorSamples; ++s) tile.of[s] = value;
  return tile;
}

// m += sum_j h_j part_j, where the parts of an entry are `stride` apart.
template <class T>
__device__ __forceinline__ void add_parts(const SampleTile<T>* weights,  // [R]
                                          const T* part, int64_t stride, int parts,
                                          SampleTile<T>& m) {
#pragma unroll 4
  for (int j = 0; j < parts; ++j) {
    const T entry = part[j * stride];
    const SampleTile<T> h = weights[j];
#pragma unroll
    for (int s = 0; s < kPosteriorSamples; ++s) m.of[s] += h.of[s] * entry;
  }
}

}  // namespace ptd
