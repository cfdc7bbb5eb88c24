// Reading a LabelBatch.
#pragma once

#include "label_batch.h"
#include "scalar.cuh"

namespace ptd {

__device__ __forceinline__ int64_t label_at(const LabelView& labels, int64_t n) {
  const int64_t at = n * labels.stride;
  return labels.is_int64 ? static_cast<const int64_t*>(labels.data)[at]
                         : static_cast<const int32_t*>(labels.data)[at];
}

// A label that names a class counts, unless it is ignore_index. Any other than that is bad: it
// makes the sample's loss NaN, and its gradient zero, without stopping the rest.
constexpr int kIgnored = -1, kBad = -2;

// The class that a label names, or one of these two.
template <class S>
__device__ __forceinline__ int class_of(const LabelBatch<S>& batch, int64_t y) {
  if (y == batch.ignore_index) return kIgnored;
  return y >= 0 && y < batch.classes ? int(y) : kBad;
}

template <class S>
__device__ __forceinline__ int class_label(const LabelBatch<S>& batch, int64_t n) {
  return class_of(batch, label_at(batch.labels, n));
}

// Class 0 stands in where there is none; what comes of it is not used.
__device__ __forceinline__ int class_or_first(int label) { return label < 0 ? 0 : label; }

template <class S>
__device__ __forceinline__ Accumulation<S> logit_at(const LabelBatch<S>& batch, int64_t n, int i) {
  const Rows<const S>& logits = batch.logits;
  return load<Accumulation<S>>(logits.data + n * logits.row_stride + i * logits.stride);
}

template <class T>
__device__ __forceinline__ T weight_at(const Rows<const T>& weights, int64_t n, int j) {
  return weights.data ? weights.data[n * weights.row_stride + j * weights.stride] : T(1);
}

template <class S>
__device__ __forceinline__ Accumulation<S> slack_at(const LabelBatch<S>& batch, int i, int k) {
  return batch.slack[i * batch.slack_row_stride + k * batch.slack_stride];
}

}  // namespace ptd
