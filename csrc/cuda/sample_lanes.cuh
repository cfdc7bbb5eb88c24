// A warp with K samples, two or four, and 32 / K lanes for each of them: lane l of sample s has the
// K E classes
//
//   E l + (32 E / K) (c ^ s) + 0 ... E - 1,   c < K
//
// where E is 1 for up to 32 classes and 4 for up to 128. The order, different for each sample, is
// what shuffles leave behind that take the classes from all 32 lanes to a sample's own.
#pragma once

#include "column.cuh"

namespace ptd {

// A lane's sample, and its place among the lanes of that.
template <int K>
__device__ __forceinline__ int own_sample() {
  return lane_id() / (kWarp / K);
}
template <int K>
__device__ __forceinline__ int sample_lane() {
  return lane_id() % (kWarp / K);
}

// Lanes that have the same sample; all of a warp take part.
template <class T, int K>
struct SampleTeam {
  __device__ __forceinline__ T sum(T x) const {
#pragma unroll
    for (int o = kWarp / K / 2; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
  }
  __device__ __forceinline__ T max(T x) const {
#pragma unroll
    for (int o = kWarp / K / 2; o > 0; o /= 2) x = max_of(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
  }
};

template <class T, int E, int K>
__device__ __forceinline__ Share<T, E * K> sample_share() {
  Share<T, E * K> share;
  share.run = E;
  share.first = E * sample_lane<K>();
  share.step = E * (kWarp / K);
  share.flip = own_sample<K>();
  return share;
}

// A lane's classes of a row, `beyond` past the last. kVector: rows are whole vectors of four.
template <bool kVector, class S, class Offset, class T, int V>
__device__ __forceinline__ void load_sample(const S* rows, Offset row, int64_t stride, int classes,
                                            T beyond, const Share<T, V>& share, T (&to)[V]) {
  if constexpr (kVector) {
    static_assert(V % 4 == 0);
#pragma unroll
    for (int v = 0; v < V; v += 4) {
#pragma unroll
      for (int e = 0; e < 4; ++e) to[v + e] = beyond;
      if (share.index(v) >= classes) continue;
      const auto four = *reinterpret_cast<const Vector<S, 4>*>(rows + (row + share.index(v)));
#pragma unroll
      for (int e = 0; e < 4; ++e) to[v + e] = load<T>(four.of + e);
    }
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      to[v] = beyond;
      if (share.index(v) < classes) to[v] = load<T>(rows + (row + share.index(v) * stride));
    }
  }
}

// Asks for a lane's classes of a row.
template <class S, class T, int V>
__device__ __forceinline__ void prefetch_sample(const S* row, int classes,
                                                const Share<T, V>& share) {
#pragma unroll
  for (int v = 0; v < V; v += 4) prefetch(row + share.index(v), share.index(v) < classes);
}

// Loads a lane's classes of a row one after the other, zero past the last: get(v) in the order of
// v.
template <bool kVector, class T, int V>
struct SampleLoad {
  const T* row;
  int classes;
  Vector<T, 4> four;

  __device__ __forceinline__ SampleLoad(const T* row, int classes) : row(row), classes(classes) {}

  __device__ __forceinline__ T get(const Share<T, V>& share, int v) {
    const int i = share.index(v);
    if (v == 0) __syncwarp();  // what was read before is read again, not kept
    if constexpr (kVector) {
      if (v % 4 == 0) {
        four = {};
        if (i < classes) four = *reinterpret_cast<const Vector<T, 4>*>(row + i);
      }
      return four.of[v % 4];
    } else {
      return i < classes ? row[i] : T(0);
    }
  }
};

// Stores a lane's classes of a row, one after the other: put(v, x) in the order of v.
template <bool kVector, class S, class T, int V>
struct SampleStore {
  S* row;  // nullptr where nothing is to be stored
  int classes;
  Vector<S, 4> four;

  __device__ __forceinline__ SampleStore(S* row, int classes) : row(row), classes(classes) {}

  __device__ __forceinline__ void put(const Share<T, V>& share, int v, T x) {
    if constexpr (kVector) {
      store(four.of + v % 4, x);
      if (v % 4 == 3 && row && share.index(v) < classes) {
        *reinterpret_cast<Vector<S, 4>*>(row + share.index(v - 3)) = four;
      }
    } else {
      if (row && share.index(v) < classes) store(row + share.index(v), x);
    }
  }
};

// From classes divided among all lanes, E l onwards in lane l for each sample, to those of a lane's
// own sample: a transposition of K rows held by lanes 32 / K apart.
template <class T, int E>
__device__ __forceinline__ void to_sample_lanes(const T (&from)[2][E], T (&to)[2 * E]) {
  const bool second = own_sample<2>() != 0;
#pragma unroll
  for (int e = 0; e < E; ++e) {
    to[e] = second ? from[1][e] : from[0][e];
    to[E + e] = __shfl_xor_sync(0xffffffffu, second ? from[0][e] : from[1][e], 16);
  }
}

template <class T, int E>
__device__ __forceinline__ void to_sample_lanes(const T (&from)[4][E], T (&to)[4 * E]) {
  const bool odd = (own_sample<4>() & 1) != 0, upper = (own_sample<4>() & 2) != 0;
#pragma unroll
  for (int e = 0; e < E; ++e) {
    T low[2], high[2];  // of samples 0 or 1, 2 or 3; from this lane, and from its neighbour
    low[0] = odd ? from[1][e] : from[0][e];
    low[1] = __shfl_xor_sync(0xffffffffu, odd ? from[0][e] : from[1][e], 8);
    high[0] = odd ? from[3][e] : from[2][e];
    high[1] = __shfl_xor_sync(0xffffffffu, odd ? from[2][e] : from[3][e], 8);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      to[c * E + e] = upper ? high[c] : low[c];
      to[(c + 2) * E + e] = __shfl_xor_sync(0xffffffffu, upper ? low[c] : high[c], 16);
    }
  }
}

}  // namespace ptd
