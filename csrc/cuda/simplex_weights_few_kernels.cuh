// simplex_weights of floats and up to 32 parts: the method is in math/simplex.h.
//
// A row has L lanes, and a lane V of its entries: in registers, but for the weights and what is
// added in every step. The product with the contraction takes the other lanes' entries by shuffles,
// and a column of the contraction for each from shared memory, where all rows of a warp read the
// same. So of the B N R^2 multiply-adds a step, few instructions are anything else.
//
// B N R numbers must move for the linear terms, the weights and a start, if there is one: no more
// do. Arithmetic takes longer: 0.05 ns a row and step on a V100 at R = 20 if nothing else were
// done.
#pragma once

#include "simplex_group.cuh"
#include "simplex_weights_args.h"

namespace ptd {

constexpr int kFewBlock = 128;  // threads
// What stands for entries beyond the last: far below any other, so that they never have a weight,
// and yet a number, as are sums of them.
constexpr float kFarBelow = -1e36f;

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
template <int L>
__device__ __forceinline__ float row_sum(float x) {
  return lanes_sum<L>(x, 0xffffffffu);
}

template <int L, int V>
class FewRow {
  FewMemory<L, V>& memory;
  int parts;

  static __device__ __forceinline__ int lane() { return static_cast<int>(opaque(threadIdx.x) % L); }

 public:
  __device__ __forceinline__ FewRow(FewMemory<L, V>& memory, int parts)
      : memory(memory), parts(parts) {}

  __device__ __forceinline__ int entry(int v) const { return lane() * V + v; }
  __device__ __forceinline__ bool has(int v) const { return entry(v) < parts; }
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
        const float factor = other == 0 ? x[u] : __shfl_xor_sync(0xffffffffu, x[u], other);
        const FewEntries<V> column = columns[u * L];
#pragma unroll
        for (int v = 0; v < V; ++v) out[v] += factor * column[v];
      }
    }
  }

  // The theta of the row's projection, from any start.
  __device__ __forceinline__ float threshold(const float (&x)[V], float theta) const {
    bool arrived = false;
    for (bool first = true; !__all_sync(0xffffffffu, arrived); first = false) {
      float above_sum = 0.0f, count = 0.0f;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const bool above = x[v] > theta;
        above_sum += above ? x[v] : 0.0f;
        count += above ? 1.0f : 0.0f;
      }
      // newton_threshold, to a few units in the last place.
      const float next = quick_quotient(row_sum<L>(above_sum) - 1.0f, row_sum<L>(count));
      // The first step may come from the right, and fall.
      arrived = !(first ? next != theta : next > theta);
      theta = first || next > theta ? next : theta;
    }
    return theta;
  }
};

template <int L, int V>
__global__ void __launch_bounds__(kFewBlock, 8)
    simplex_weights_few(WeightArgs<float> args, unsigned blocks) {  // for each problem
  __shared__ FewMemory<L, V> memory;
  const unsigned problem = blockIdx.x / blocks;
  const int parts = args.parts;
  float* const columns = reinterpret_cast<float*>(memory.contraction);
  constexpr int kPadded = 4 * FewEntries<V>::kFours, kWidth = L * kPadded;
  for (int i = threadIdx.x; i < L * V * kWidth; i += kFewBlock) {
    const int j = i / kWidth, v = i % kPadded, k = i % kWidth / kPadded * V + v;
    const bool inside = j < parts && k < parts && v < V;
    columns[i] = inside ? args.contraction[(int64_t(problem) * parts + j) * parts + k] : 0.0f;
  }
  __syncthreads();

  const FewRow<L, V> row(memory, parts);
  // Where the row starts; worked out again at the end, for registers are scarce.
  const auto number = [&] {
    return int64_t(opaque(blockIdx.x) % blocks) * (kFewBlock / L) + opaque(threadIdx.x) / L;
  };
  const auto start_of = [&](int64_t n) {
    return (int64_t(opaque(blockIdx.x) / blocks) * args.rows + n) * parts;
  };
  // A row beyond the last repeats it.
  const int64_t start = start_of(number() < args.rows ? number() : args.rows - 1);

  // o = s b + shift, less its mean over the row.
  float image[V], before[V], total = 0.0f;
  const float step = args.step[problem];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int k = row.entry(v);
    image[v] = 0.0f;
    if (row.has(v))
      image[v] = step * args.linear[start + k] + args.shift[int64_t(problem) * parts + k];
    total += image[v];
  }
  const float mean = row_sum<L>(total) / float(parts);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    row.offset(v) = row.has(v) ? image[v] - mean : kFarBelow;
    const float first =
        args.start && row.has(v) ? args.start[start + row.entry(v)] : 1.0f / float(parts);
    image[v] = row.has(v) ? first : 0.0f;
    row.weight(v) = image[v];
  }
  row.image_of(image, before);
#pragma unroll
  for (int v = 0; v < V; ++v) image[v] = before[v];

  float theta = -infinity<float>(), age = 0.0f;  // steps since the momentum was zero
  bool moving = true;
#pragma unroll 1
  for (int64_t k = 0; k < args.steps && __any_sync(0xffffffffu, moving); ++k) {
    float c[V], c_image[V];
    const float ahead = momentum(age);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      c[v] = image[v] + ahead * (image[v] - before[v]);
    }
    theta = row.threshold(c, theta);
#pragma unroll
    for (int v = 0; v < V; ++v) c[v] = above_zero(c[v] - theta);
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
#pragma unroll
    for (int v = 0; v < V; ++v) {
      before[v] = image[v];
      if (taken) row.weight(v) = c[v];
      image[v] = taken ? c_image[v] : image[v];
    }
    moving = moving && !(stalled && age == 0.0f);
    age = stalled ? 0.0f : age + 1.0f;
  }
  if (number() >= args.rows) return;
  float* const to = args.weights + start_of(number());
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (row.has(v)) to[row.entry(v)] = row.weight(v);
  }
}

#ifdef __CUDACC_RTC__
template __global__ void simplex_weights_few<1, 10>(WeightArgs<float>, unsigned);
template __global__ void simplex_weights_few<2, 10>(WeightArgs<float>, unsigned);
template __global__ void simplex_weights_few<4, 8>(WeightArgs<float>, unsigned);
#endif

}  // namespace ptd
