// The gradient of the weights from the factors of dL/dM (label_batch.h): dL/dh_j = <P^j, dL/dM>.
//
// A warp per sample. Without slack its lanes go along column y: N (C + R + 2) numbers must move, a
// label being two, and column y comes from L2 for each. With slack they go through all entries
// (i, k), forming M anew for every few parts: N (2 C + 2 R + 2) must move, and R C^2 comes from L2
// for each.
#pragma once

#include "../math/revision.h"
#include "label_batch.cuh"
#include "reduce.cuh"

namespace ptd {

constexpr int kWeightThreads = 256;
template <class T>
constexpr int kWeightParts = 32 / int(sizeof(T));  // accumulators of a lane

// Sums acc over the warp; lane 0 writes them to row n of grad [N, R].
template <class T>
__device__ __forceinline__ void write_weights(const T (&acc)[kWeightParts<T>], int64_t n, int j0,
                                              int parts, T* grad) {
#pragma unroll
  for (int p = 0; p < kWeightParts<T>; ++p) {
    const T sum = lanes_sum<kWarp>(acc[p]);
    if (lane_id() == 0 && j0 + p < parts) grad[n * parts + j0 + p] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kWeightThreads, 4)
    weights_plain(LabelBatch<T> batch, ColumnGradient<T> grad,
                  T* grad_weights) {  // [N, R]
  const int64_t n = int64_t(blockIdx.x) * (kWeightThreads / kWarp) + warp_id();
  if (n >= batch.samples) return;
  const int classes = batch.classes, parts = batch.parts;
  const int label = class_label(batch, n);
  const int last = label < 0 ? 0 : classes;  // nothing of a sample that does not count
  for (int j0 = 0; j0 < parts; j0 += kWeightParts<T>) {
    T acc[kWeightParts<T>] = {};
    for (int i = lane_id(); i < last; i += kWarp) {
      const T entry = grad.entry[n * classes + i];
      const T* column = batch.columns + int64_t(label) * parts * classes + i;
#pragma unroll
      for (int p = 0; p < kWeightParts<T>; ++p) {
        if (j0 + p < parts) acc[p] += column[int64_t(j0 + p) * classes] * entry;
      }
    }
    write_weights(acc, n, j0, parts, grad_weights);
  }
}

template <class T>
__global__ void __launch_bounds__(kWeightThreads, 4)
    weights_revised(LabelBatch<T> batch, ColumnGradient<T> grad,
                    T* grad_weights) {  // [N, R]
  const int64_t n = int64_t(blockIdx.x) * (kWeightThreads / kWarp) + warp_id();
  if (n >= batch.samples) return;
  const int classes = batch.classes, parts = batch.parts;
  const int label = class_label(batch, n);
  const int64_t last = label < 0 ? 0 : int64_t(classes) * classes;
  for (int j0 = 0; j0 < parts; j0 += kWeightParts<T>) {
    T acc[kWeightParts<T>] = {};
    for (int64_t at = lane_id(); at < last; at += kWarp) {
      const int k = static_cast<int>(at / classes), i = static_cast<int>(at % classes);
      const T* column = batch.columns + int64_t(k) * parts * classes + i;
      T m = slack_at(batch, i, k);
#pragma unroll 4
      for (int j = 0; j < parts; ++j) {
        m += weight_at(batch.weights, n, j) * column[int64_t(j) * classes];
      }
      if (m <= T(0)) continue;
      const T entry = label == k ? grad.entry[n * classes + i] : T(0);
      const T dm = entry - grad.row[n * classes + i];
#pragma unroll
      for (int p = 0; p < kWeightParts<T>; ++p) {
        if (j0 + p < parts) acc[p] += column[int64_t(j0 + p) * classes] * dm;
      }
    }
    write_weights(acc, n, j0, parts, grad_weights);
  }
}

#ifdef __CUDACC_RTC__
template __global__ void weights_plain<float>(LabelBatch<float>, ColumnGradient<float>, float*);
template __global__ void weights_plain<double>(LabelBatch<double>, ColumnGradient<double>, double*);
template __global__ void weights_revised<float>(LabelBatch<float>, ColumnGradient<float>, float*);
template __global__ void weights_revised<double>(LabelBatch<double>, ColumnGradient<double>,
                                                 double*);
#endif

}  // namespace ptd
