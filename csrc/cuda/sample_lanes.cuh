// A warp with K samples, two or four, and E classes in each of its lanes: lane l has
//
//   E l + e   if rows are vectors of E classes (kVector),   l + 32 e   if not,   e < E
//
// where E is 1 for up to 32 classes and 4 (in quartet.cuh also 2) for up to 128. Then again, a
// sample has 32 / K lanes of its own, which have the classes of lanes l ^ (32 / K) c, c < K, for l
// the lane itself. The order, different for each sample, is what shuffles leave behind that take
// the classes from all 32 lanes to a sample's own.
#pragma once

#include "column.cuh"
#include "global_memory.cuh"
#include "grouped_layout.h"

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
  static constexpr int kRuns = K;
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

template <int E, bool kVector>
__device__ __forceinline__ int class_of_lane(int lane, int e) {
  return kVector ? E * lane + e : lane + kWarp * e;
}

template <class T, int E, int K, bool kVector>
__device__ __forceinline__ Share<T, E * K> sample_share() {
  const int lane = opaque(lane_id());  // what comes of it is not kept
  Share<T, E * K> share;
  share.run = E;
  share.apart = kVector ? 1 : kWarp;
  share.first = class_of_lane<E, kVector>(lane, 0);
  share.step = 0;
  share.flip = class_of_lane<E, kVector>(kWarp / K, 0);  // a power of two
  return share;
}

// A lane's logits of a row, -infinity past the last class. kVector: rows are whole vectors of four,
// and past the last class there is anything until leave_out_beyond is called.
template <bool kVector, class S, class T, int V>
__device__ __forceinline__ void load_sample(const S* row, int64_t stride, int classes,
                                            const Share<T, V>& share, T (&to)[V]) {
  if constexpr (kVector) {
    static_assert(V % 4 == 0);
    row = opaque(row);  // offsets are added to it, and not to what it came from
#pragma unroll
    for (int v = 0; v < V; v += 4) {
      const int within = share.index(v) < classes ? share.index(v) : 0;
      const auto four = read_once(reinterpret_cast<const Vector<S, 4>*>(row + within));
#pragma unroll
      for (int e = 0; e < 4; ++e) to[v + e] = load<T>(four.of + e);
    }
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      to[v] = -infinity<T>();
      if (share.index(v) < classes) to[v] = load<T>(row + share.index(v) * stride);
    }
  }
}

// By selects, which wait for the logits: not before other work is done.
template <bool kVector, class T, int V>
__device__ __forceinline__ void leave_out_beyond(int classes, Share<T, V>& share) {
  if constexpr (kVector) {
#pragma unroll
    for (int v = 0; v < V; v += 4) {
      const bool beyond = share.index(v) >= opaque(classes);
#pragma unroll
      for (int e = 0; e < 4; ++e) share.z[v + e] = beyond ? -infinity<T>() : share.z[v + e];
    }
  }
}

// Asks for a row, of neighbours, of each lane's own sample.
template <int K, class S>
__device__ __forceinline__ void prefetch_row(const S* row, int classes) {
  constexpr int kSector = 32, kAtOnce = kSector * (kWarp / K);
  const int thread = opaque(static_cast<int>(threadIdx.x));  // what comes of it is not kept
  const int own = kSector * (thread % (kWarp / K)), bytes = classes * int(sizeof(S));
  const char* const from = opaque(reinterpret_cast<const char*>(row) + own);
#pragma unroll
  for (int at = 0; at < kGroupedMaxClasses * int(sizeof(S)); at += kAtOnce) {
    prefetch(from + at, own + at < bytes);
  }
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

// Stores a lane's classes of a row, one after the other: put(row, v, x) in the order of v; row is
// nullptr where nothing is to be stored.
template <bool kVector, class S, class T, int V>
struct SampleStore {
  int classes;
  Vector<S, 4> four;

  __device__ __forceinline__ explicit SampleStore(int classes) : classes(classes) {}

  __device__ __forceinline__ void put(S* row, const Share<T, V>& share, int v, T x) {
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
