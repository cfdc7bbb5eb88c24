// Any number of classes up to 1024 V: a block per sample, each thread with V classes, the block's
// width apart, so that rows and the column are read in whole lines. The column, R C numbers of it,
// comes from L2, and where slack has contiguous rows, C sectors of it. Of what grows with the
// samples memory moves the least, and for the mean of a loss another six doubles for each block.
#pragma once

#include "column.cuh"
#include "label_batch.cuh"

namespace ptd {

constexpr int kWideThreads = 1024;  // the most; a launch takes no more than the classes need
template <class T>
constexpr int kWideClasses = sizeof(T) == 4 ? 6 : 2;  // V: what 64 registers hold without spilling
template <class T>
constexpr int kMostClasses = kWideThreads * kWideClasses<T>;
constexpr int kWideParts = 256;  // staged at a time

// visit(n, share, team) for every sample, by all threads of a block.
template <class S, int V, class Visit>
__device__ __forceinline__ void for_each_wide(const LabelBatch<S>& batch, const Visit& visit) {
  using T = Accumulation<S>;
  __shared__ T staged[kWideParts];
  __shared__ T scratch[2 * kWarp];
  BlockTeam<T> team{scratch};
  const int classes = batch.classes, parts = batch.parts;
  for (int64_t n = blockIdx.x; n < batch.samples; n += gridDim.x) {
    const int k = class_or_first(class_label(batch, n));
    Share<T, V> share;
    share.first = static_cast<int>(threadIdx.x);
    share.step = static_cast<int>(blockDim.x);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = share.index(v);
      share.z[v] = i < classes ? logit_at(batch, n, i) : -infinity<T>();
      share.column[v] = batch.slack && i < classes ? slack_at(batch, i, k) : T(0);
    }
    for (int start = 0; start < parts; start += kWideParts) {
      const int count = parts - start < kWideParts ? parts - start : kWideParts;
      __syncthreads();
      for (int j = threadIdx.x; j < count; j += blockDim.x) {
        staged[j] = weight_at(batch.weights, n, start + j);
      }
      __syncthreads();
      const T* column = batch.columns + (int64_t(k) * parts + start) * classes;
#pragma unroll 1  // V loads are under way at once, in every warp
      for (int j = 0; j < count; ++j, column += classes) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if (share.index(v) < classes) share.column[v] += staged[j] * column[share.index(v)];
        }
      }
    }
    if (batch.slack) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const int i = share.index(v);
        const T sum = i < classes ? batch.row_sums[n * classes + i] : T(1);
        share.column[v] = normalised_entry(clamp_entry(share.column[v]), sum, T(1) / T(classes));
      }
    }
    visit(n, share, team);
  }
}

}  // namespace ptd
