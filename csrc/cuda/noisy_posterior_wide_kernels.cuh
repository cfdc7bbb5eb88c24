// P(noisy label | x) = T(x)^T g for more classes, or more parts, than noisy_posterior_kernels.cuh
// holds, or for few samples. The formulas are there; here they take a few launches, with [N, C]
// numbers in between:
//
//   forward    pull_rows with G = 1 -> r     softmax_entries -> g / r     push_columns -> out
//   backward   pull_rows -> r d              posterior_gradients -> dz, entries, rows
//
// Numbers that each must move, + what slack adds; and parts and slack for each walk through T(x):
//
//   pull_rows             N (C + R), of a gradient N (2 C + R)
//   softmax_entries       N 2 C + N (C + 1)
//   push_columns          N (2 C + R) + N
//   posterior_gradients   N 3 C + N 2 C, for entries and rows another N C + N C
//
// Memory moves no more. What an operator must move is in noisy_posterior_lanes_kernels.cuh. With
// what goes from launch to launch, or is read by several, these move 2.0 times that forward and 1.7
// times backward, with gradients of parts and weights 3.9 times: counted at (N, C, R) = (2048, 144,
// 2).
//
// That is as long as L2 holds N C numbers, on a V100 some 10,000 samples of 128 classes:
// push_columns reads the entries once for every 8 columns, pull_rows its gradient once for every 32
// classes, with all samples in between. Beyond, memory moves up to C / 8 times N C. Arithmetic,
// N R C^2 multiply-adds for each walk, takes a V100 longer than that too from R = 5 on; at C = 100
// and R = 20 it takes 23 times as long as the bytes that must move.
#pragma once

#include "sample_tile.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr int kWideBlock = 128;                 // threads
constexpr int kWideTiles = kWideBlock / kWarp;  // each warp has a tile of samples, or shares it
constexpr int kColumnsPerBlock = 8;             // results that make whole 32-byte sectors

// sum_k B_ik G_k, and with G = 1 the row sums: a thread has class i of a tile, and no sum crosses
// threads. B is T itself where there is no slack. The warps of a block have the same classes, so
// that an entry of the parts that one of them fetched is in the L1 cache for the others; where the
// weights of so many tiles are too large for shared memory, fewer `tiles` of the block have several
// warps each, with different classes. Blocks: (all tiles / tiles, classes / 32 each warp of a
// tile).
template <class T>
__global__ void __launch_bounds__(kWideBlock, 8)
    pull_rows(TransitionBatch<T> batch,
              const T* __restrict__ grad,  // G, [N, C]; or nullptr: 1
              T* __restrict__ pulled,      // [N, C]
              int tiles) {
  PTD_DYNAMIC_SHARED(Four<T>, h);  // [tiles, R]
  const int tile = warp_id() % tiles, turn = warp_id() / tiles;
  const int classes = batch.classes;
  const int i = (blockIdx.y * (kWideTiles / tiles) + turn) * kWarp + lane_id();
  const int64_t block_first = int64_t(blockIdx.x) * tiles * kTile;
  const int64_t first = block_first + tile * kTile;
  stage_weights(batch, block_first, tiles, h);
  __syncthreads();
  if (i >= classes || first >= batch.samples) return;

  T sum[kTile] = {}, m[kTile];
  for (int k = 0; k < classes; ++k) {
    combine(batch, h + tile * batch.parts, i, k, m);
#pragma unroll
    for (int s = 0; s < kTile; ++s) {
      const bool inside = first + s < batch.samples;
      const T g = grad && inside ? grad[(first + s) * classes + k] : T(1);
      sum[s] += g * (batch.slack ? clamp_entry(m[s]) : m[s]);
    }
  }
#pragma unroll
  for (int s = 0; s < kTile; ++s) {
    if (first + s < batch.samples) pulled[(first + s) * classes + i] = sum[s];
  }
}

// Softmax of one sample by a warp: g_i = exp(z_i - shift) / sum.
template <class T>
struct WarpSoftmax {
  T shift, sum;

  template <class Z>
  __device__ WarpSoftmax(const Z* row, int classes, int lane) {  // row: [C]
    T largest = -infinity<T>(), total = T(0);
    for (int i = lane; i < classes; i += kWarp) {
      const T z = load<T>(row + i);
      largest = z > largest ? z : largest;
    }
    shift = lanes_max<kWarp>(largest);
    for (int i = lane; i < classes; i += kWarp) total += exp_of(load<T>(row + i) - shift);
    sum = lanes_sum<kWarp>(total);
  }

  template <class Z>
  __device__ T at(const Z* logit) const {
    return exp_of(load<T>(logit) - shift) / sum;
  }
};

// g_i, or g_i / r_i and the share of uniform rows: a warp has a sample.
template <class T, class Z>
__global__ void __launch_bounds__(kWideBlock)
    softmax_entries(const Z* __restrict__ logits,    // [N, C]
                    const T* __restrict__ row_sums,  // [N, C]; or nullptr: 1
                    T* __restrict__ entries,         // [N, C]
                    T* __restrict__ uniform_share,   // [N], written with row_sums
                    int64_t samples, int classes) {
  const int lane = lane_id();
  const int64_t n = int64_t(blockIdx.x) * kWideTiles + warp_id();
  if (n >= samples) return;  // a whole warp
  const WarpSoftmax<T> softmax(logits + n * classes, classes, lane);
  T share = T(0);
  for (int i = lane; i < classes; i += kWarp) {
    const T sum = row_sums ? row_sums[n * classes + i] : T(1);
    const T g = softmax.at(logits + n * classes + i);
    // A row without a positive entry is uniform: its share is the same in every column.
    if (sum == T(0)) share += g / T(classes);
    entries[n * classes + i] = g * inverse_row_sum(sum);
  }
  share = lanes_sum<kWarp>(share);
  if (row_sums && lane == 0) uniform_share[n] = share;
}

// out_k = sum_i entry_i B_ik + share: a warp has a tile and goes through the block's columns, its
// lanes have the classes i. Blocks: (all tiles / tiles, classes / kColumnsPerBlock each warp of a
// tile).
template <class T>
__global__ void __launch_bounds__(kWideBlock, 8)
    push_columns(TransitionBatch<T> batch,
                 const T* __restrict__ entries,        // [N, C]
                 const T* __restrict__ uniform_share,  // [N], read with slack
                 T* __restrict__ posterior,            // [N, C]
                 int tiles) {
  PTD_DYNAMIC_SHARED(Four<T>, h);  // [tiles, R]
  const int tile = warp_id() % tiles, turn = warp_id() / tiles;
  const int classes = batch.classes, lane = lane_id();
  const int64_t block_first = int64_t(blockIdx.x) * tiles * kTile;
  const int64_t first = block_first + tile * kTile;
  stage_weights(batch, block_first, tiles, h);
  __syncthreads();
  if (first >= batch.samples) return;  // a whole warp

  const int begin = (blockIdx.y * (kWideTiles / tiles) + turn) * kColumnsPerBlock;
  for (int k = begin; k < begin + kColumnsPerBlock && k < classes; ++k) {
    T term[kTile] = {}, m[kTile];
    for (int i = lane; i < classes; i += kWarp) {
      combine(batch, h + tile * batch.parts, i, k, m);
#pragma unroll
      for (int s = 0; s < kTile; ++s) {
        const bool inside = first + s < batch.samples;
        const T entry = inside ? entries[(first + s) * classes + i] : T(0);
        term[s] += entry * (batch.slack ? clamp_entry(m[s]) : m[s]);
      }
    }
    spread_sums<kWarp>(term);
    const int64_t n = first + lane / (kWarp / kTile);
    if (lane % (kWarp / kTile) == 0 && n < batch.samples) {
      posterior[n * classes + k] = term[0] + (batch.slack ? uniform_share[n] : T(0));
    }
  }
}

// dz, and what the gradient of T(x) is made of, from d: a warp has a sample.
template <class T, class Z>
__global__ void __launch_bounds__(kWideBlock)
    posterior_gradients(const Z* __restrict__ logits,    // [N, C]
                        const T* __restrict__ grad,      // [N, C]
                        const T* __restrict__ row_sums,  // [N, C]; or nullptr without slack
                        Z* __restrict__ grad_logits,     // [N, C] or nullptr
                        T* __restrict__ entries,         // [N, C] or nullptr
                        T* rows,                         // [N, C]: r d on entry, entry d on return
                        int64_t samples, int classes) {
  const int lane = lane_id();
  const int64_t n = int64_t(blockIdx.x) * kWideTiles + warp_id();
  if (n >= samples) return;  // a whole warp
  const int64_t at = n * classes;
  const WarpSoftmax<T> softmax(logits + at, classes, lane);
  T uniform = T(0), mean = T(0);
  if (row_sums) {
    for (int k = lane; k < classes; k += kWarp) uniform += grad[at + k];
    uniform = lanes_sum<kWarp>(uniform) / T(classes);
  }
  const auto pull = [&](int i) {
    return row_sums ? normalised_entry(rows[at + i], row_sums[at + i], uniform) : rows[at + i];
  };
  for (int i = lane; i < classes; i += kWarp) mean += softmax.at(logits + at + i) * pull(i);
  mean = lanes_sum<kWarp>(mean);
  for (int i = lane; i < classes; i += kWarp) {
    const T g = softmax.at(logits + at + i), d = pull(i);
    if (grad_logits) store(grad_logits + at + i, g * (d - mean));
    if (entries) {
      const T entry = row_sums ? g * inverse_row_sum(row_sums[at + i]) : g;
      entries[at + i] = entry;
      if (row_sums) rows[at + i] = entry * d;
    }
  }
}

#ifdef __CUDACC_RTC__
#define PTD_WIDE(T)                                                             \
  template __global__ void pull_rows<T>(TransitionBatch<T>, const T*, T*, int); \
  template __global__ void push_columns<T>(TransitionBatch<T>, const T*, const T*, T*, int);
#define PTD_WIDE_LOGITS(T, Z)                                                                  \
  template __global__ void softmax_entries<T, Z>(const Z*, const T*, T*, T*, int64_t, int);    \
  template __global__ void posterior_gradients<T, Z>(const Z*, const T*, const T*, Z*, T*, T*, \
                                                     int64_t, int);
PTD_WIDE(float)
PTD_WIDE(double)
PTD_WIDE_LOGITS(float, float)
PTD_WIDE_LOGITS(float, Half)
PTD_WIDE_LOGITS(float, BFloat16)
PTD_WIDE_LOGITS(double, double)
#endif

}  // namespace ptd
