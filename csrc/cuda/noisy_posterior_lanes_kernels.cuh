// P(noisy label | x) = T(x)^T g for up to sixteen classes, forward and backward in one launch each.
//
//   forward    out_k = sum_i T_ik g_i
//   backward   d_i = sum_k T_ik G_k      dz_i = g_i (d_i - sum_l g_l d_l)
//
// with g = softmax(z) and, where there is slack, T = B / r, B = max(M, 0), r_i = sum_k B_ik.
//
// Bytes that must move, in numbers of four bytes: N (2 C + R) + R C^2 forward, N (3 C + R) + R C^2
// backward, and another N C for the row sums, with slack. These kernels move no more. Arithmetic
// takes longer: N R C^2 multiply-adds, and N C^2 to use what they form, 1.5 times as long as the
// bytes at (C, R) = (10, 20) on a V100.
//
// The mapping is that of noisy_posterior_tile.cuh: Q lanes of a warp have all columns of four
// samples. Warps of a block share the parts; some of them share samples too, and divide the rows of
// T(x), whose sums are added up at the end.
#pragma once

#include "noisy_posterior_tile.cuh"

namespace ptd {

constexpr int kLanesWarps = 8;
constexpr int kLanesBlock = kLanesWarps * kWarp;
constexpr int kRowLanes = 16;  // that read or write a row [C] together
constexpr int kRowGroups = kLanesBlock / kRowLanes;

// Over the lanes that have a row. All lanes of the warp call.
__device__ __forceinline__ float row_sum(float value) {
#pragma unroll
  for (int offset = kRowLanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}
__device__ __forceinline__ float row_max(float value) {
#pragma unroll
  for (int offset = kRowLanes / 2; offset > 0; offset /= 2) {
    value = max_of(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

// A block's place in the batch, and its shared memory: tiles of weights [R, kPitch] and of
// coefficients [C, kSamples], and rows [staged, slices, kColumns] of slack, if any, and parts.
template <class Tile>
struct LanesBlock {
  const TiledBatch& batch;
  float* shared;

  __device__ __forceinline__ int64_t first() const {
    return int64_t(block_number()) * (batch.tiles * Tile::kSamples);
  }
  // Samples that are there.
  __device__ __forceinline__ int count() const {
    const int64_t left = batch.samples - first();
    const int most = batch.tiles * Tile::kSamples;
    return left < most ? static_cast<int>(left) : most;
  }
  // Groups of four samples change places from row to row, so that numbers of neighbouring rows are
  // not in the same bank.
  __device__ __forceinline__ float* coefficient(int n, int c) const {
    const int row = n / Tile::kSamples * batch.classes + c;
    float* const tiles = shared + batch.tiles * batch.parts * Tile::kPitch;
    return tiles + row * Tile::kSamples + (n % Tile::kSamples ^ c % 8 * kTile);
  }
  __device__ __forceinline__ float* rows() const {
    return shared + batch.tiles * (batch.parts * Tile::kPitch + batch.classes * Tile::kSamples);
  }
  __device__ __forceinline__ bool has_slack() const { return batch.matrix.slacks; }
  __device__ __forceinline__ int slices() const { return batch.parts + batch.matrix.slacks; }
  // Of the rows that this warp has of its tile. Where they do not divide evenly, which warp has one
  // more changes from block to block.
  __device__ __forceinline__ int tile() const { return warp_number() * batch.tiles / kLanesWarps; }
  __device__ __forceinline__ int turn() const {
    return (warp_number() + block_number()) & (batch.sharing - 1);
  }

  // Rows of a [N, C] to the coefficients, transposed; zero beyond the last sample.
  template <class S>
  __device__ __forceinline__ void stage_coefficients(const S* from) const {
    const int c = static_cast<int>(thread_number() % kRowLanes);
    if (c >= batch.classes) return;
    from += first() * batch.classes + c;
    const int there = count();
#pragma unroll 4
    for (int n = static_cast<int>(thread_number() / kRowLanes); n < batch.tiles * Tile::kSamples;
         n += kRowGroups) {
      *coefficient(n, c) = n < there ? load<float>(from + n * batch.classes) : 0.0f;
    }
  }

  // Logits, in place of coefficients, to their softmax: a thread has a sample.
  __device__ __forceinline__ void softmax(int n) const {
    float z[Tile::kColumns], top = -infinity<float>(), sum = 0.0f;
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      z[c] = c < batch.classes ? *coefficient(n, c) : -infinity<float>();
      top = max_of(top, z[c]);
    }
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) sum += z[c] = exp_of(z[c] - top);
    const float inverse = 1.0f / sum;
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      if (c < batch.classes) *coefficient(n, c) = z[c] * inverse;
    }
  }

  // `count` rows from `begin` on.
  __device__ __forceinline__ void stage_rows(int begin, int count) const {
    const MatrixView& matrix = batch.matrix;
    const int c = static_cast<int>(thread_number() % kRowLanes);
    if (c >= Tile::kColumns) return;
    const float* const parts = matrix.parts + begin * matrix.outer + c * matrix.step;
    const float* const slack = matrix.slack + begin * matrix.slack_outer + c * matrix.slack_step;
    int a = 0, slice = static_cast<int>(thread_number() / kRowLanes);
    float* to = rows() + slice * Tile::kColumns + c;
#pragma unroll 2
    for (; true; slice += kRowGroups, to += kRowGroups * Tile::kColumns) {
      while (slice >= slices() && a < count) slice -= slices(), ++a;
      if (a >= count) break;
      const int j = slice - matrix.slacks;
      const float* from =
          j < 0 ? slack + a * matrix.slack_outer : parts + (a * matrix.outer + j * matrix.inner);
      *to = c < batch.classes ? *from : 0.0f;
    }
  }

  // Sums over the rows that this warp has, through all chunks of them; `use(coefficient, m, sum)`
  // adds a finished row. The caller has staged weights and coefficients, and synchronises
  // afterwards.
  template <class Use>
  __device__ __forceinline__ void add_rows(Tile& sum, const Use& use) const {
    sum.clear();
#pragma unroll 1
    for (int begin = 0; begin < batch.classes; begin += batch.staged) {
      const int left = batch.classes - begin, count = left < batch.staged ? left : batch.staged;
      if (begin) __syncthreads();
      stage_rows(begin, count);
      __syncthreads();
#pragma unroll 1
      for (int a = turn(); a < count; a += batch.sharing) {
        const float* const h = shared + tile() * batch.parts * Tile::kPitch;
        const float* const row = rows() + a * slices() * Tile::kColumns;
        Tile m;
        m.start(h, row, Tile::kColumns, has_slack());
        m.template add_parts<2>(h + Tile::kPitch, row + (1 + batch.matrix.slacks) * Tile::kColumns,
                                Tile::kColumns, batch.parts - 1);
        if (has_slack()) m.clamp();
        const int n = tile() * Tile::kSamples + Tile::first_sample(lane_number());
        use(reinterpret_cast<Four<float>*>(coefficient(n, begin + a)), m, sum);
      }
    }
  }

  // The sums of this warp to shared memory, [warps, C, kPitch]: there is nothing else in it from
  // here on.
  __device__ __forceinline__ void share(const Tile& sum) const {
    const int slot = tile() * batch.sharing + turn();
    float* const to = shared + slot * batch.classes * Tile::kPitch + Tile::first_sample();
#pragma unroll
    for (int v = 0; v < Tile::kEach; ++v) {
      const int c = Tile::column(v);
      if (c >= batch.classes) continue;
      Four<float> of_samples;
#pragma unroll
      for (int s = 0; s < kTile; ++s) of_samples.of[s] = sum.of[s][v];
      *reinterpret_cast<Four<float>*>(to + c * Tile::kPitch) = of_samples;
    }
  }
  // What the warps of a tile have shared, added up.
  __device__ __forceinline__ float shared_sum(int n, int c) const {
    const int row = n / Tile::kSamples * batch.sharing * batch.classes + c;
    const float* from = shared + row * Tile::kPitch + n % Tile::kSamples;
    float sum = *from;
#pragma unroll 4
    for (int turn = 1; turn < batch.sharing; ++turn) {
      from += batch.classes * Tile::kPitch;
      sum += *from;
    }
    return sum;
  }
};

template <int Q, int K, class Z>
__global__ void __launch_bounds__(kLanesBlock, 4)
    noisy_posterior_lanes(TiledBatch batch,
                          const Z* __restrict__ logits,    // [N, C]
                          float* __restrict__ posterior,   // [N, C]
                          float* __restrict__ row_sums) {  // [N, C], written with slack
  using Tile = LaneTile<Q, K>;
  PTD_DYNAMIC_SHARED(float, shared);
  const LanesBlock<Tile> block{batch, shared};
  const int classes = batch.classes;
  block.stage_coefficients(logits);
  stage_tile_weights<Tile>(batch, block.first(), shared);
  __syncthreads();
  if (const int n = static_cast<int>(thread_number()); n < batch.tiles * Tile::kSamples) {
    block.softmax(n);
  }
  Tile sum;
  block.add_rows(sum, [&](Four<float>* g, const Tile& m, Tile& to) {
    if (!block.has_slack()) return to.add(*g, m);
    Four<float> r = m.sums();
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
#pragma unroll
      for (int offset = 1; offset < Q; offset *= 2) {
        r.of[s] += __shfl_xor_sync(0xffffffffu, r.of[s], offset);
      }
    }
    to.add_normalised(*g, r, m, classes);
    __syncwarp();  // g is used, and r takes its place
    if (lane_id() % Q == 0) *g = r;
  });
  __syncthreads();
  const int c = static_cast<int>(thread_number() % kRowLanes);
  if (block.has_slack()) {
    for (int n = static_cast<int>(thread_number() / kRowLanes); n < block.count() && c < classes;
         n += kRowGroups) {
      row_sums[(block.first() + n) * classes + c] = *block.coefficient(n, c);
    }
    __syncthreads();
  }
  block.share(sum);
  __syncthreads();
  for (int n = static_cast<int>(thread_number() / kRowLanes); n < block.count() && c < classes;
       n += kRowGroups) {
    posterior[(block.first() + n) * classes + c] = block.shared_sum(n, c);
  }
}

template <int Q, int K, class Z>
__global__ void __launch_bounds__(kLanesBlock, 4)
    noisy_posterior_backward_lanes(TiledBatch batch,
                                   const Z* __restrict__ logits,        // [N, C]
                                   const float* __restrict__ grad,      // [N, C]
                                   const float* __restrict__ row_sums,  // [N, C], read with slack
                                   Z* __restrict__ grad_logits,         // [N, C] or nullptr
                                   float* __restrict__ entries,         // [N, C] or nullptr
                                   float* __restrict__ rows) {          // [N, C], see spread
  using Tile = LaneTile<Q, K>;
  PTD_DYNAMIC_SHARED(float, shared);
  const LanesBlock<Tile> block{batch, shared};
  const int classes = batch.classes, i = static_cast<int>(thread_number() % kRowLanes);
  block.stage_coefficients(grad);
  stage_tile_weights<Tile>(batch, block.first(), shared);
  Tile sum;
  block.add_rows(sum, [](const Four<float>* g, const Tile& m, Tile& to) { to.add(*g, m); });
  __syncthreads();
  block.share(sum);
  __syncthreads();

  // Sixteen lanes have a sample, one of its classes each.
  const bool is_class = i < classes, slack = block.has_slack();
#pragma unroll 2
  for (int n = static_cast<int>(thread_number() / kRowLanes); n < batch.tiles * Tile::kSamples;
       n += kRowGroups) {
    const bool inside = is_class && n < block.count();
    const int64_t at = (block.first() + n) * classes + i;
    const float z = inside ? load<float>(logits + at) : -infinity<float>();
    float d = is_class ? block.shared_sum(n, i) : 0.0f, inverse = 1.0f;
    if (slack) {
      const float uniform = row_sum(inside ? grad[at] : 0.0f);
      const float sum = inside ? row_sums[at] : 1.0f;
      inverse = inverse_row_sum(sum);
      d = normalised_entry(d, sum, uniform / static_cast<float>(classes));
    }
    const float exponential = exp_of(z - row_max(z));
    const float g = exponential / row_sum(exponential);
    const float mean = row_sum(is_class ? g * d : 0.0f);
    if (!inside) continue;
    if (grad_logits) store(grad_logits + at, g * (d - mean));
    if (entries) {
      entries[at] = g * inverse;
      if (slack) rows[at] = g * inverse * d;
    }
  }
}

#ifdef __CUDACC_RTC__
#define PTD_LANES(Q, K, Z)                                                                       \
  template __global__ void noisy_posterior_lanes<Q, K, Z>(TiledBatch, const Z*, float*, float*); \
  template __global__ void noisy_posterior_backward_lanes<Q, K, Z>(                              \
      TiledBatch, const Z*, const float*, const float*, Z*, float*, float*);
#define PTD_LANES_OF(Z) PTD_LANES(2, 5, Z) PTD_LANES(4, 4, Z)
PTD_LANES_OF(float)
PTD_LANES_OF(Half)
PTD_LANES_OF(BFloat16)
#endif

}  // namespace ptd
