// One sample, held in the registers of a cooperative group of threads, and its softmax sums against
// a column of T(x). The formulas are in math/loss_terms.h.
//
// A thread's fragment is the classes rank, rank + size, rank + 2 size, ..., at most V of them,
// where rank is its index in the group and size the number of threads of the group.
#pragma once

#include "column/batch.h"
#include "common/reductions.cuh"
#include "common/scalars.cuh"
#include "math/loss_terms.h"
#include "math/revision.h"

namespace ptd {

struct ThreadGroup {
  static __device__ __forceinline__ int rank() { return 0; }
  static __device__ __forceinline__ int size() { return 1; }
  template <class T>
  __device__ __forceinline__ T sum(T x) const {
    return x;
  }
  template <class T>
  __device__ __forceinline__ T max(T x) const {
    return x;
  }
};

struct WarpGroup {
  static __device__ __forceinline__ int rank() { return lane_id(); }
  static __device__ __forceinline__ int size() { return kWarp; }
  template <class T>
  __device__ __forceinline__ T sum(T x) const {
    return lanes_sum<kWarp>(x);
  }
  template <class T>
  __device__ __forceinline__ T max(T x) const {
    return lanes_max<kWarp>(x);
  }
};

// Two scratch arrays alternate: the barrier in one reduction guarantees that all threads have read
// the array of the reduction before.
template <class T>
struct BlockGroup {
  T* scratch;  // shared, [2, 32]
  int half = 0;

  static __device__ __forceinline__ int rank() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int size() { return static_cast<int>(blockDim.x); }
  __device__ __forceinline__ T* next() { return scratch + kWarp * (half ^= 1); }
  __device__ __forceinline__ T sum(T x) { return block_sum(x, next()); }
  __device__ __forceinline__ T max(T x) { return block_max(x, next()); }
};

// The per-thread fragment of a sample.
template <class T, int V>
struct Fragment {
  T z[V];  // logits
  T u[V];  // column y of T(x), before smoothing

  // Calls visit(v, i) for each class i of the calling thread; v is its index in the fragment.
  template <class Group, class Visit>
  static __device__ __forceinline__ void for_each(const Group& group, int classes,
                                                  const Visit& visit) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = group.rank() + v * group.size();
      if (i >= classes) break;
      visit(v, i);
    }
  }
};

// Loads a sample's logits, and initialises its column with column y of the slack.
template <class S, class T, int V, class Group>
__device__ __forceinline__ void begin_sample(const ColumnBatch<S>& batch, int64_t n, int y,
                                             const Group& group, Fragment<T, V>& sample) {
  sample.for_each(group, batch.transition.classes, [&](int v, int i) {
    sample.z[v] = load_at<T>(batch.logits, n, i);
    sample.u[v] = batch.transition.slack_at(i, y);
  });
}

// Completes the column after the parts have been added: with slack it is clamped and normalised. A
// sample whose label is ignored or bad gets a column of ones, so that its posterior is the softmax.
template <class S, class T, int V, class Group>
__device__ __forceinline__ void end_column(const ColumnBatch<S>& batch, int64_t n, int label,
                                           const Group& group, Fragment<T, V>& sample) {
  const int classes = batch.transition.classes;
  sample.for_each(group, classes, [&](int v, int i) {
    if (label < 0) {
      sample.u[v] = T(1);
    } else if (batch.row_sums) {
      const T sum = batch.row_sums[n * classes + i];
      sample.u[v] = normalised_entry(clamp_entry(sample.u[v]), sum, T(1) / T(classes));
    }
  });
}

// The softmax sums of a sample, and the terms that losses and posteriors are made of.
template <class T, int V, class Group>
struct SampleSums {
  const Fragment<T, V>& sample;
  ColumnSums<T> sums;
  T scale, floor;  // smoothed u = scale u + floor
  int classes;

  template <class S>
  __device__ __forceinline__ SampleSums(const ColumnBatch<S>& batch, const Fragment<T, V>& sample,
                                        Group& group)
      : sample(sample),
        scale(T(1) - batch.smoothing),
        floor(batch.smoothing_floor),
        classes(batch.transition.classes) {
    T top = -infinity<T>(), column_top = -infinity<T>();
    sample.for_each(group, classes, [&](int v, int) {
      top = max_of(top, sample.z[v]);
      if (sample.u[v] > T(0)) column_top = max_of(column_top, sample.z[v]);
    });
    sums.shift = sums.column_shift = group.max(top);
    if (!(floor > T(0))) {  // smoothing leaves no class out
      column_top = group.max(column_top);
      // A column without mass keeps the shift: no term overflows, and its sum is zero.
      if (column_top > -infinity<T>()) sums.column_shift = column_top;
    }
    T exp_sum = T(0), column_sum = T(0);
    sample.for_each(group, classes, [&](int v, int) {
      exp_sum += exponential(v);
      column_sum += joint(v);
    });
    sums.exp_sum = group.sum(exp_sum);
    sums.column_sum = group.sum(column_sum);
    if (!(floor > T(0)) && is_tiny_column(sums.column_sum)) {
      sums.column_shift -= T(kTinyColumnShift);
      T larger = T(0);
      sample.for_each(group, classes, [&](int v, int) { larger += joint(v); });
      sums.column_sum = group.sum(larger);
    }
  }

  // e_i of loss_terms.h.
  __device__ __forceinline__ T exponential(int v) const { return exp_of(sample.z[v] - sums.shift); }
  // e'_i of loss_terms.h, not saturated: it may be infinite.
  __device__ __forceinline__ T column_exponential(int v) const {
    return exp_of(sample.z[v] - sums.column_shift);
  }
  // e'_i u_i. It is zero if u_i is zero, even if e'_i is infinite.
  __device__ __forceinline__ T joint(int v) const {
    const T u = scale * sample.u[v] + floor;
    return u <= T(0) ? T(0) : column_exponential(v) * u;
  }
};

// Writes the factors of dL/dM (common/transition.h) from dL/du_i, class v of a thread's fragment:
//
//   entry_i = (1 - epsilon) dL/du_i / r_i,   row_i = entry_i u_i
//
// with u before smoothing. Without slack r_i = 1, and row is not written. If u_i is zero, entry_i
// may have overflowed, and saturates.
template <class S, class T, int V>
__device__ __forceinline__ void write_factors(const ColumnBatch<S>& batch,
                                              const MatrixGradient<T>& grads,
                                              const Fragment<T, V>& sample, int64_t n, int v, int i,
                                              T grad_u) {
  if (!grads.entry) return;
  const int64_t at = n * batch.transition.classes + i;
  T entry = (T(1) - batch.smoothing) * grad_u;
  if (batch.row_sums) entry *= inverse_row_sum(batch.row_sums[at]);
  if (sample.u[v] == T(0)) entry = saturated(entry);
  grads.entry[at] = entry;
  if (batch.row_sums) grads.row[at] = entry * sample.u[v];
}

}  // namespace ptd
