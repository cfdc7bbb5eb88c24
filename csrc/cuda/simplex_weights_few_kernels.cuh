// simplex_weights of floats and up to 32 parts: the method is in math/simplex.h.
//
// A row has L lanes, and a lane V of its entries: in registers, but for the weights and what is
// added in every step. The product with the contraction takes the other lanes' entries by shuffles,
// and a column of the contraction for each from shared memory, where all rows of a warp read the
// same. Lanes of a row are 32 / L apart, so that neighbours read the same numbers, and get them
// two at a time. So of the B N R^2 multiply-adds a step, few instructions are anything else.
//
// B N R numbers must move for the linear terms, the weights and a start, if there is one: no more
// do. Arithmetic takes longer: 0.05 ns a row and step on a V100 at R = 20 if nothing else were
// done.
#pragma once

#include "../math/simplex.h"
#include "reduce.cuh"
#include "scalar.cuh"
#include "simplex_weights_args.h"

namespace ptd {

constexpr int kFewBlock = 128;  // threads

// V entries, in as many vectors of four as hold them.
template <int V>
struct FewEntries {
  static constexpr int kFours = (V + 3) / 4;
  float4 of[kFours];

  __device__ __forceinline__ float operator[](int v) const {
    const float4& four = of[v / 4];
    return v % 4 == 0 ? four.x : v % 4 == 1 ? four.y : v % 4 == 2 ? four.z : four.w;
  }
};

// What a block keeps in shared memory.
template <int L, int V>
struct FewMemory {
  FewEntries<V> contraction[L * V][L];  // [j][lane]: of entry j, the lane's columns; zero beyond R
  float offset[V][kFewBlock], weights[V][kFewBlock];  // of each thread alone
};

// Over a row's lanes, by all of the warp: rows stay together, and a mask of each would take time.
template <int L, class T>
__device__ __forceinline__ T row_sum(T x) {
#pragma unroll
  for (int apart = kWarp / 2; apart >= kWarp / L; apart /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, apart);
  }
  return x;
}

// Of a row's lanes, NaN if one is.
template <int L>
__device__ __forceinline__ float row_top(float x) {
#pragma unroll
  for (int apart = kWarp / 2; apart >= kWarp / L; apart /= 2) {
    x = larger_or_nan(x, __shfl_xor_sync(0xffffffffu, x, apart));
  }
  return x;
}

template <int L, int V>
class FewRow {
  FewMemory<L, V>& memory;

  // Of the row's, not of the warp's.
  static __device__ __forceinline__ int lane() {
    return static_cast<int>(opaque(threadIdx.x) % kWarp / kWarpRows);
  }

 public:
  static constexpr int kWarpRows = kWarp / L, kRows = kFewBlock / L;  // of a warp, of a block

  __device__ __forceinline__ explicit FewRow(FewMemory<L, V>& memory) : memory(memory) {}

  // Which of the block's rows it is, and the first of the lane's entries.
  static __device__ __forceinline__ int index() {
    const unsigned thread = opaque(threadIdx.x);
    return static_cast<int>(thread / kWarp * kWarpRows + thread % kWarpRows);
  }
  static __device__ __forceinline__ int entry() { return lane() * V; }
  __device__ __forceinline__ float& offset(int v) const { return memory.offset[v][threadIdx.x]; }
  __device__ __forceinline__ float& weight(int v) const { return memory.weights[v][threadIdx.x]; }

  // e(x) = x M + o
  __device__ __forceinline__ void image_of(const float (&x)[V], float (&out)[V]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) out[v] = offset(v);
#pragma unroll
    for (int other = 0; other < L; ++other) {
      const FewEntries<V>* const columns = &memory.contraction[(lane() ^ other) * V][lane()];
#pragma unroll
      for (int u = 0; u < V; ++u) {
        const float factor =
            other == 0 ? x[u] : __shfl_xor_sync(0xffffffffu, x[u], kWarpRows * other);
        const FewEntries<V> column = columns[u * L];
#pragma unroll
        for (int v = 0; v < V; ++v) out[v] += factor * column[v];
      }
    }
  }

  // The theta of the row's projection, from any start, and NaN if an entry is.
  __device__ __forceinline__ float threshold(const float (&x)[V], float from) const {
    float theta = not_a_number<float>();  // the first step may come from the right, and fall
    bool moves;
    do {
      float sum = 0.0f;
      unsigned ones = 0;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float above = x[v] <= from ? 0.0f : 1.0f;
        sum += above * x[v];
        ones += __float_as_uint(above);
      }
      // The bits of 1.0f are 127 * 2^23. Of k times as much, mod 2^32, 127 * -129 = 1 - 2^14 makes
      // k * 2^23: so counting leaves the pipe alone that multiplies and adds.
      const float count = float(int(row_sum<L>(ones) * -129u >> 23));
      // newton_threshold, to a few units in the last place.
      const float next = (row_sum<L>(sum) - 1.0f) * quick_inverse(count);
      moves = !(next <= theta) && (next < from || next > from);
      theta = next <= theta ? theta : next;
      from = theta;
    } while (__any_sync(0xffffffffu, moves));
    return theta;
  }
};

template <int L, int V>
__global__ void __launch_bounds__(kFewBlock, 8)
    simplex_weights_few(WeightArgs<float> args, unsigned blocks) {  // for each problem
  __shared__ FewMemory<L, V> memory;
  const unsigned problem = blockIdx.x / blocks;
  const int parts = args.parts;
  const FewRow<L, V> row(memory);
  // Where the lane's entries start; worked out again at the end, for registers are scarce.
  const auto number = [&] {
    return int64_t(opaque(blockIdx.x) % blocks) * row.kRows + row.index();
  };
  const auto start_of = [&](int64_t n) {
    return (int64_t(opaque(blockIdx.x) / blocks) * args.rows + n) * parts + row.entry();
  };
  // A row beyond the last repeats it.
  const int64_t start = start_of(number() < args.rows ? number() : args.rows - 1);
  const int own = parts - row.entry();  // entries of the row, from the lane's first
  float image[V], x[V], shift[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const bool has = v < own;
    image[v] = has ? args.linear[start + v] : 0.0f;
    x[v] = !has ? 0.0f : args.start ? args.start[start + v] : 1.0f / float(parts);
    shift[v] = has ? args.shift[int64_t(problem) * parts + row.entry() + v] : 0.0f;
  }
  float* const columns = reinterpret_cast<float*>(memory.contraction);
  constexpr int kPadded = 4 * FewEntries<V>::kFours, kWidth = L * kPadded;
#pragma unroll
  for (int first = 0; first < L * V * kWidth; first += kFewBlock) {
    const int i = first + threadIdx.x;
    const int j = i / kWidth, v = i % kPadded, k = i % kWidth / kPadded * V + v;
    const bool inside = j < parts && k < parts && v < V;
    const float entry =
        inside ? args.contraction[(int64_t(problem) * parts + j) * parts + k] : 0.0f;
    if (i < L * V * kWidth) columns[i] = entry;
  }
  __syncthreads();

  // o = s b + shift, less its largest entry.
  float top = -infinity<float>();
  const float step = args.step[problem];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    image[v] = step * image[v] + shift[v];
    if (v < own) top = larger_or_nan(image[v], top);
  }
  top = row_top<L>(top);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    // Entries beyond the last never have a weight.
    row.offset(v) = v < own ? offset_below(image[v], top) : kFarBelow;
    row.weight(v) = image[v] = x[v];
  }
  row.image_of(image, x);
#pragma unroll
  for (int v = 0; v < V; ++v) image[v] = x[v];

  float theta = -infinity<float>(), age = 0.0f;  // steps since the momentum was zero
  bool moving = true;
#pragma unroll 1
  for (int64_t k = 0; k < args.steps && __any_sync(0xffffffffu, moving); ++k) {
    float c[V], c_image[V];
    theta = row.threshold(x, theta);
#pragma unroll
    for (int v = 0; v < V; ++v) c[v] = max_of(x[v] - theta, 0.0f);
    row.image_of(c, c_image);

    float rise = 0.0f, moved = 0.0f;  // how far q rises, and how far the weights move
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float h = row.weight(v);
      rise += rise_term(c[v], c_image[v], h, image[v], theta);
      moved += moved_term(c[v], h);
    }
    const bool risen = row_sum<L>(rise) > 0.0f;
    const bool stalled = row_sum<L>(moved) <= args.tolerance * args.tolerance || risen;
    const bool taken = !risen && moving;
    moving = moving && !(stalled && age == 0.0f);
    age = stalled ? 0.0f : age + 1.0f;
    // momentum(age), to a unit in the last place; NaN in theta stays there.
    const float ahead = (taken ? age * quick_inverse(age + 3.0f) : 0.0f) + 0.0f * theta;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float change = c_image[v] - image[v];
      if (taken) row.weight(v) = c[v];
      image[v] = taken ? c_image[v] : image[v];
      x[v] = image[v] + ahead * change;
    }
  }
  if (number() >= args.rows) return;
  float* const to = args.weights + start_of(number());
  const int left = parts - row.entry();
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (v < left) to[v] = theta != theta ? theta : row.weight(v);
  }
}

#ifdef __CUDACC_RTC__
template __global__ void simplex_weights_few<1, 10>(WeightArgs<float>, unsigned);
template __global__ void simplex_weights_few<2, 10>(WeightArgs<float>, unsigned);
template __global__ void simplex_weights_few<4, 8>(WeightArgs<float>, unsigned);
#endif

}  // namespace ptd
