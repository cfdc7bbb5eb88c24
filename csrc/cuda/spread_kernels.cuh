// Gradients of slack and parts, sums over all samples, from the factors of dL/dM (label_batch.h):
//
//   dL/dslack = sum_n dL/dM,   dL/dP^j = sum_n h_j dL/dM
//
// A block has one column k, with lanes over the classes i and groups of lanes over the samples: a
// thread's sums stay in registers. No entry of M is kept: it is formed where it is used. The order
// of additions is fixed: each chunk of samples has sums of its own, which sum_chunks adds up.
//
// What must move, in numbers, is N (C + R + 2) and the result, with slack N (2 C + R + 2) and
// (2 R + 2) C^2; a label is two numbers. spread_plain reads the labels for every column, the rest
// once per tile of parts; spread_revised reads it all for every column, at 200 classes 104 times
// what must move. Blocks that are at work at once, on a V100 640 of them or more, have the same
// samples at about the same time, so that all but the first read is from L2. Where a chunk has more
// blocks, they go through its samples in turns, and L2 has to hold N C numbers for that. The time
// of spread_revised goes into N R C^2 multiply-adds.
#pragma once

#include "../math/revision.h"
#include "label_batch.cuh"
#include "reduce.cuh"

namespace ptd {

constexpr int kSpreadThreads = 128;
template <class T>
constexpr int kSpreadParts = 32 / int(sizeof(T));  // accumulators of a thread
constexpr int kSpreadSamples = 4;                  // at a time
constexpr int kSpreadStaged = 32;                  // parts staged at a time

// Where a block's sums go; blockIdx.y is the chunk. Absent ones are nullptr.
template <class T>
struct SpreadSums {
  T* slack;    // [chunks, C, C], by column
  T* columns;  // [chunks, C, R, C]
};

// The block's column k, its lanes' class i and the samples they look at. `lanes` threads, a power
// of two, stand side by side over the classes; groups of them take turns over the samples.
struct SpreadPlace {
  int k, i, group, groups;
  int64_t begin, end;

  __device__ __forceinline__ SpreadPlace(int classes, int lanes, int64_t chunk, int64_t samples) {
    const int tiles = (classes + lanes - 1) / lanes, x = static_cast<int>(blockIdx.x);
    k = x / tiles;
    i = x % tiles * lanes + static_cast<int>(threadIdx.x) % lanes;
    group = static_cast<int>(threadIdx.x) / lanes;
    groups = kSpreadThreads / lanes;
    begin = int64_t(blockIdx.y) * chunk;
    end = begin + chunk < samples ? begin + chunk : samples;
  }
};

// Adds up what the groups have, in order, and writes it.
template <class T>
__device__ __forceinline__ void write_spread(const LabelBatch<T>& batch, const SpreadPlace& at,
                                             const SpreadSums<T>& sums, T slack,
                                             T (&parts)[kSpreadParts<T>]) {
  __shared__ T scratch[kSpreadThreads];
  const int lanes = kSpreadThreads / at.groups, classes = batch.classes;
  const int j0 = static_cast<int>(blockIdx.z) * kSpreadParts<T>;
  const auto total = [&](T own) {
    __syncthreads();
    scratch[threadIdx.x] = own;
    __syncthreads();
    T sum = T(0);
    for (int g = 0; g < at.groups; ++g) sum += scratch[g * lanes + threadIdx.x % lanes];
    return sum;
  };
  const bool writes = at.group == 0 && at.i < classes;
  if (sums.slack && j0 == 0) {
    const T sum = total(slack);
    const int64_t to = (int64_t(blockIdx.y) * classes + at.k) * classes + at.i;
    if (writes) sums.slack[to] = sum;
  }
  if (!sums.columns) return;
#pragma unroll
  for (int p = 0; p < kSpreadParts<T>; ++p) {
    const T sum = total(parts[p]);
    const int j = j0 + p;
    const int64_t column = (int64_t(blockIdx.y) * classes + at.k) * batch.parts;
    if (writes && j < batch.parts) sums.columns[(column + j) * classes + at.i] = sum;
  }
}

// Parts, without slack. Grid: [C tiles of classes, chunks, tiles of parts].
template <class T>
__global__ void __launch_bounds__(kSpreadThreads, 8)
    spread_plain(LabelBatch<T> batch, ColumnGradient<T> grad, SpreadSums<T> sums, int lanes,
                 int64_t chunk) {
  const SpreadPlace at(batch.classes, lanes, chunk, batch.samples);
  const int j0 = static_cast<int>(blockIdx.z) * kSpreadParts<T>;
  T acc[kSpreadParts<T>] = {};
  for (int64_t n = at.begin + at.group; n < at.end; n += at.groups) {
    if (class_label(batch, n) != at.k || at.i >= batch.classes) continue;
    const T entry = grad.entry[n * batch.classes + at.i];
#pragma unroll
    for (int p = 0; p < kSpreadParts<T>; ++p) {
      const int j = j0 + p;
      if (j < batch.parts) acc[p] += weight_at(batch.weights, n, j) * entry;
    }
  }
  write_spread(batch, at, sums, T(0), acc);
}

// Slack, and parts where they are asked for (kParts). The same grid; without parts its last extent
// is one.
template <class T, bool kParts>
__global__ void __launch_bounds__(kSpreadThreads, 8)
    spread_revised(LabelBatch<T> batch, ColumnGradient<T> grad, SpreadSums<T> sums, int lanes,
                   int64_t chunk) {
  struct alignas(16) Weights {
    T of[kSpreadSamples];
  };
  __shared__ Weights staged[kSpreadStaged * kSpreadThreads / 16];  // [parts, groups]
  const SpreadPlace at(batch.classes, lanes, chunk, batch.samples);
  const int classes = batch.classes, parts = batch.parts;
  const int j0 = static_cast<int>(blockIdx.z) * kSpreadParts<T>;
  const bool inside = at.i < classes;
  const T base = inside ? slack_at(batch, at.i, at.k) : T(0);
  const T* column = batch.columns + int64_t(at.k) * parts * classes + (inside ? at.i : 0);
  T slack = T(0), acc[kSpreadParts<T>] = {};
  const int step = at.groups * kSpreadSamples;
  for (int64_t tile = at.begin; tile < at.end; tile += step) {
    const int64_t first = tile + at.group * kSpreadSamples;
    T m[kSpreadSamples];
#pragma unroll
    for (int s = 0; s < kSpreadSamples; ++s) m[s] = base;
    for (int start = 0; start < parts; start += kSpreadStaged) {
      const int count = parts - start < kSpreadStaged ? parts - start : kSpreadStaged;
      __syncthreads();
      for (int t = threadIdx.x; t < count * step; t += kSpreadThreads) {
        const int j = t % count, s = t / count;
        const int64_t n = tile + s;
        staged[j * at.groups + s / kSpreadSamples].of[s % kSpreadSamples] =
            n < at.end ? weight_at(batch.weights, n, start + j) : T(0);
      }
      __syncthreads();
#pragma unroll 2
      for (int j = 0; j < count; ++j) {
        const T part = column[int64_t(start + j) * classes];
        const Weights h = staged[j * at.groups + at.group];
#pragma unroll
        for (int s = 0; s < kSpreadSamples; ++s) m[s] += h.of[s] * part;
      }
    }
#pragma unroll
    for (int s = 0; s < kSpreadSamples; ++s) {
      const int64_t n = first + s;
      if (!inside || n >= at.end || m[s] <= T(0)) continue;
      const int label = class_label(batch, n);
      if (label < 0) continue;  // weights that are NaN must not get through
      const T entry = label == at.k ? grad.entry[n * classes + at.i] : T(0);
      const T dm = entry - grad.row[n * classes + at.i];
      slack += dm;
      if constexpr (kParts) {
#pragma unroll
        for (int p = 0; p < kSpreadParts<T>; ++p) {
          if (j0 + p < parts) acc[p] += weight_at(batch.weights, n, j0 + p) * dm;
        }
      }
    }
  }
  write_spread(batch, at, sums, slack, acc);
}

// out[a stride_a + b stride_b] = sum over chunks of partial[chunk][a][b], in order. As many numbers
// move as there are in partial and out.
template <class T>
__global__ void __launch_bounds__(256)
    sum_chunks(const T* __restrict__ partial,  // [chunks, rows, columns]
               T* __restrict__ out, int64_t chunks, int64_t rows, int64_t columns,
               int64_t row_stride, int64_t stride) {
  const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * columns) return;
  T sum = T(0);
#pragma unroll 8
  for (int64_t c = 0; c < chunks; ++c) sum += partial[c * rows * columns + at];
  out[at / columns * row_stride + at % columns * stride] = sum;
}

#ifdef __CUDACC_RTC__

#define PTD_SPREAD(T)                                                                            \
  template __global__ void spread_plain<T>(LabelBatch<T>, ColumnGradient<T>, SpreadSums<T>, int, \
                                           int64_t);                                             \
  template __global__ void spread_revised<T, true>(LabelBatch<T>, ColumnGradient<T>,             \
                                                   SpreadSums<T>, int, int64_t);                 \
  template __global__ void spread_revised<T, false>(LabelBatch<T>, ColumnGradient<T>,            \
                                                    SpreadSums<T>, int, int64_t);                \
  template __global__ void sum_chunks<T>(const T*, T*, int64_t, int64_t, int64_t, int64_t, int64_t);

PTD_SPREAD(float)
PTD_SPREAD(double)

#endif

}  // namespace ptd
