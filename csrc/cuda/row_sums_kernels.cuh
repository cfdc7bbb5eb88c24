// Row sums of the revised matrix before its normalisation: r_i = sum_k max(M_ik, 0),
// M = T(x) + slack. Entries of M are formed column by column, in registers.
//
// A lane per class i, for 8 (float) or 4 (double) samples per warp; a block's warps have the same
// classes, so that they find what they read of the parts in L1. What must move, in numbers, is
// N (C + R) + (R + 1) C^2; the parts come from L2 for every 64 samples. Arithmetic takes longer:
// N R C^2 multiply-adds, 230 us on a V100 at (8192, 100, 20).
#pragma once

#include "../math/revision.h"
#include "label_batch.cuh"
#include "reduce.cuh"

namespace ptd {

constexpr int kRowSumWarps = 8;
template <class T>
constexpr int kRowSumSamples = 32 / int(sizeof(T));

template <class T>
struct alignas(16) SampleWeights {
  T of[kRowSumSamples<T>];
};

// The weights of each warp's samples are in shared memory if kStaged; else they come from L1.
template <class T, bool kStaged>
__global__ void __launch_bounds__(32 * kRowSumWarps, 4) row_sums(LabelBatch<T> batch) {
  constexpr int kSamples = kRowSumSamples<T>;
  PTD_DYNAMIC_SHARED(SampleWeights<T>, shared);  // [warps, R]
  SampleWeights<T>* h = shared + warp_id() * batch.parts;
  const int classes = batch.classes, parts = batch.parts;
  const int i = static_cast<int>(blockIdx.y) * kWarp + lane_id();
  const int64_t first = (int64_t(blockIdx.x) * kRowSumWarps + warp_id()) * kSamples;
  const auto weight = [&](int s, int j) {
    return first + s < batch.samples ? weight_at(batch.weights, first + s, j) : T(0);
  };
  if (kStaged) {
    for (int at = lane_id(); at < parts * kSamples; at += kWarp) {
      h[at / kSamples].of[at % kSamples] = weight(at % kSamples, at / kSamples);
    }
    __syncwarp();
  }
  if (i >= classes) return;
  T sum[kSamples] = {};
  const T* part = batch.columns + i;
  for (int k = 0; k < classes; ++k) {
    const T base = slack_at(batch, i, k);
    T m[kSamples];
#pragma unroll
    for (int s = 0; s < kSamples; ++s) m[s] = base;
#pragma unroll 2
    for (int j = 0; j < parts; ++j, part += classes) {
#pragma unroll
      for (int s = 0; s < kSamples; ++s) m[s] += (kStaged ? h[j].of[s] : weight(s, j)) * *part;
    }
#pragma unroll
    for (int s = 0; s < kSamples; ++s) sum[s] += clamp_entry(m[s]);
  }
#pragma unroll
  for (int s = 0; s < kSamples; ++s) {
    if (first + s < batch.samples) batch.row_sums[(first + s) * classes + i] = sum[s];
  }
}

#ifdef __CUDACC_RTC__
template __global__ void row_sums<float, true>(LabelBatch<float>);
template __global__ void row_sums<float, false>(LabelBatch<float>);
template __global__ void row_sums<double, true>(LabelBatch<double>);
template __global__ void row_sums<double, false>(LabelBatch<double>);
#endif

}  // namespace ptd
