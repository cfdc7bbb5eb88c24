// T(x) of many samples, a row at a time, formed in registers and used at once.
//
//   m_c = slack_ac + sum_j h_j P^j_ac       for one a, all c
//   sum_c += coefficient_a m_c              over all a
//
// Forward a is the row i of T(x), c the column k, the coefficient g_i / r_i; backward a is the
// column k, c the row i, the coefficient G_k. A lane has K entries c of S samples, and Q lanes all
// entries that a warp has of them. So a number that a lane reads from shared memory, of weights or
// parts, serves K or S multiply-adds: 15 of them for 8 numbers, in three loads.
#pragma once

#include "sample_tile.cuh"
#include "scalar.cuh"

namespace ptd {

// blockIdx.x and threadIdx.x, read anew each time: kept in registers from the start of a kernel to
// its end, what follows from them would take the room that the sums need.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ int block_number() {
  int number;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
  return number;
}
__device__ __forceinline__ unsigned thread_number() {
  unsigned number;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
  return number;
}
#else
__device__ __forceinline__ int block_number() { return static_cast<int>(blockIdx.x); }
__device__ __forceinline__ unsigned thread_number() { return threadIdx.x; }
#endif
__device__ __forceinline__ int warp_number() { return static_cast<int>(thread_number() / kWarp); }
__device__ __forceinline__ int lane_number() { return static_cast<int>(thread_number() % kWarp); }

// The parts and slack, from where a row of T(x), or a column, is read: entry (a, c) of part j is
// parts[a outer + j inner + c], that of the slack slack[a C + c]. The kernels for up to sixteen
// classes read parts and slack as they are, and have no use for outer and inner.
struct MatrixView {
  const float* parts;  // [R, C, C]
  int outer, inner;
  const float* slack;  // [C, C]
  int slacks;          // 1, or 0: there is none
  bool vectors;        // rows are whole vectors of 16 bytes at aligned addresses
};

// What the tiled kernels take.
struct TiledBatch {
  const float* weights;  // [N, R], or nullptr where the one part is T
  MatrixView matrix;
  int64_t samples;
  int classes, parts;
  int tiles;           // of samples, in a block
  int sharing;         // warps that have a tile together
  bool aligned;        // all [N, C] begin at multiples of 16 bytes
  bool whole_weights;  // weights of a sample are whole vectors of 16 bytes
};

template <int Q, int K, int S>
struct LaneTile {
  static_assert(Q == 5 && K == 5 && S <= kTile);
  static constexpr int kLanes = Q, kEach = K;
  static constexpr int kGroups = kWarp / Q;
  static constexpr int kSamples = kGroups * S;  // of a warp
  // Numbers by sample have a slot each in shared memory, of which every group has four. Rows of
  // them have this pitch: neighbours start four banks apart.
  static constexpr int kSlots = kGroups * kTile, kPitch = kSlots + 4;

  float of[S][K];

  static __device__ __forceinline__ int slot(int n) { return n / S * kTile + n % S; }
  // Lanes that are left over have a copy of the last samples.
  static __device__ __forceinline__ int group(int lane) {
    return lane / Q < kGroups ? lane / Q : kGroups - 1;
  }
  static __device__ __forceinline__ int first_slot(int lane = lane_number()) {
    return group(lane) * kTile;
  }
  static __device__ __forceinline__ bool is_spare(int lane) { return lane >= kGroups * Q; }
  // Column v of the lane that is number `at` of the `lanes` that have a row: four neighbours, so
  // that they are one vector, and one of the rest.
  static __device__ __forceinline__ int column(int v, int at, int lanes) {
    return v < 4 ? 4 * at + v : 4 * lanes + at;
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int v = 0; v < K; ++v) of[s][v] = 0.0f;
    }
  }

  // Numbers at `bytes` of shared memory. Offsets of 32 bits, in bytes, are what loads take as they
  // are: pointers would cost as many instructions as the arithmetic.
  template <class V>
  static __device__ __forceinline__ V at(const float* shared, int bytes) {
    return *reinterpret_cast<const V*>(reinterpret_cast<const char*>(shared) + bytes);
  }

  // Where the entries of a row are that belong to the lane that is number `at` of `lanes`: its four
  // neighbours, and the last.
  struct Place {
    int four, last;  // bytes

    __device__ __forceinline__ Place(int row, int at, int lanes)
        : four(row + 16 * at), last(row + 4 * (4 * lanes + at)) {}

    __device__ __forceinline__ void load(const float* shared, float (&entry)[K]) const {
      const Four<float> all = at<Four<float>>(shared, four);
#pragma unroll
      for (int v = 0; v < 4; ++v) entry[v] = all.of[v];
      entry[4] = at<float>(shared, last);
    }
  };

  // += sum_j h_j P^j over `count` parts. `weights` [count, kPitch] are this warp's, and rows are
  // `pitch` apart; all in bytes of shared memory.
  template <int kUnroll>
  __device__ __forceinline__ void add_parts(const float* shared, int weights, Place place,
                                            int pitch, int count) {
    int h = weights + 4 * first_slot();
#pragma unroll kUnroll
    for (int j = 0; j < count; ++j) {
      float entry[K];
      place.load(shared, entry);
      const Four<float> weight = at<Four<float>>(shared, h);
#pragma unroll
      for (int s = 0; s < S; ++s) {
#pragma unroll
        for (int v = 0; v < K; ++v) of[s][v] += weight.of[s] * entry[v];
      }
      h += 4 * kPitch;
      place.four += pitch;
      place.last += pitch;
    }
  }
  // = a row of slack, for all samples.
  __device__ __forceinline__ void start(const float* shared, const Place& place) {
    float slack[K];
    place.load(shared, slack);
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int v = 0; v < K; ++v) of[s][v] = slack[v];
    }
  }
  __device__ __forceinline__ void clamp() {
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int v = 0; v < K; ++v) of[s][v] = clamp_entry(of[s][v]);
    }
  }

  // += coefficient m.
  __device__ __forceinline__ void add(const Four<float>& coefficient, const LaneTile& m) {
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int v = 0; v < K; ++v) of[s][v] += coefficient.of[s] * m.of[s][v];
    }
  }

  // Sums over the Q lanes of the warp that have the same samples, in the first of these.
  static __device__ __forceinline__ Four<float> over_lanes(const Four<float>& part) {
    Four<float> sum = part;
#pragma unroll
    for (int s = 0; s < S; ++s) {
      sum.of[s] += __shfl_down_sync(0xffffffffu, sum.of[s], 1);
      sum.of[s] += __shfl_down_sync(0xffffffffu, sum.of[s], 2);
      sum.of[s] += __shfl_down_sync(0xffffffffu, part.of[s], 4);
    }
    return sum;
  }
  // This lane's part of the sums of the rows.
  __device__ __forceinline__ Four<float> sums() const {
    Four<float> sum = {};
#pragma unroll
    for (int s = 0; s < S; ++s) {
      sum.of[s] = of[s][0];
#pragma unroll
      for (int v = 1; v < K; ++v) sum.of[s] += of[s][v];
    }
    return sum;
  }
};

}  // namespace ptd
