// Row sums of the revised matrix before its normalisation: r_i = sum_k max(M_ik, 0),
// M = T(x) + slack. Entries of M are formed column by column, in registers.
//
// What must move, in numbers, is N (C + R) + (R + 1) C^2; from L2 the parts come once per block of
// 16 to 32 samples. Arithmetic takes longer: N R C^2 multiply-adds, 209 us on a V100 at (8192, 100,
// 20). With the loss that reads the sums, and weights and parts once more, 1.6 times as much moves
// there as the operator must move.
//
// A lane has E neighbouring classes of a few samples: four and four where columns are whole
// vectors, so that two loads serve sixteen multiply-adds; else one class of eight (float) or four
// (double). A block's warps have the same classes, and find what they read of the parts in L1.
#pragma once

#include "../math/revision.h"
#include "label_batch.cuh"
#include "reduce.cuh"
#include "scalar.cuh"

namespace ptd {

constexpr int kRowSumWarps = 4;
template <class T, int E>
constexpr int kRowSumSamples = E == 4 ? 4 : 32 / int(sizeof(T));

template <class T, int E>
struct alignas(16) SampleWeights {
  T of[kRowSumSamples<T, E>];
};

// The weights of each warp's samples are in shared memory if kStaged; else they come from L1.
template <class T, int E, bool kStaged>
__global__ void __launch_bounds__(32 * kRowSumWarps, 8) row_sums(LabelBatch<T> batch) {
  constexpr int kSamples = kRowSumSamples<T, E>;
  using Weights = SampleWeights<T, E>;
  PTD_DYNAMIC_SHARED(Weights, shared);  // [warps, R]
  Weights* h = shared + warp_id() * batch.parts;
  const int classes = batch.classes, parts = batch.parts;
  const int i = (static_cast<int>(blockIdx.y) * kWarp + lane_id()) * E;
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
  T sum[kSamples][E] = {};
  const T* part = batch.columns + i;
  const T* slack = batch.slack + i * batch.slack_row_stride;
#pragma unroll 1
  for (int k = 0; k < classes; ++k, slack += batch.slack_stride) {
    T m[kSamples][E];
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const T base = slack[e * batch.slack_row_stride];
#pragma unroll
      for (int s = 0; s < kSamples; ++s) m[s][e] = base;
    }
#pragma unroll 2
    for (int j = 0; j < parts; ++j, part += classes) {
      const auto entries = *reinterpret_cast<const Vector<T, E>*>(part);
#pragma unroll
      for (int s = 0; s < kSamples; ++s) {
        const T h_j = kStaged ? h[j].of[s] : weight(s, j);
#pragma unroll
        for (int e = 0; e < E; ++e) m[s][e] += h_j * entries.of[e];
      }
    }
#pragma unroll
    for (int s = 0; s < kSamples; ++s) {
#pragma unroll
      for (int e = 0; e < E; ++e) sum[s][e] += clamp_entry(m[s][e]);
    }
  }
#pragma unroll
  for (int s = 0; s < kSamples; ++s) {
    if (first + s >= batch.samples) continue;
#pragma unroll
    for (int e = 0; e < E; ++e) batch.row_sums[(first + s) * classes + i + e] = sum[s][e];
  }
}

#ifdef __CUDACC_RTC__
template __global__ void row_sums<float, 4, true>(LabelBatch<float>);
template __global__ void row_sums<float, 4, false>(LabelBatch<float>);
template __global__ void row_sums<float, 1, true>(LabelBatch<float>);
template __global__ void row_sums<float, 1, false>(LabelBatch<float>);
template __global__ void row_sums<double, 1, true>(LabelBatch<double>);
template __global__ void row_sums<double, 1, false>(LabelBatch<double>);
#endif

}  // namespace ptd
