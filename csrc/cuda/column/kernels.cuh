// The losses and clean_posterior: kernels that apply Op to one column of T(x) per sample.
//
//   column_thread_per_sample  few classes: a block stages the parts in shared memory; the loss with
//                             slack computes the row sums too
//   column_warp_per_sample    a block has one label and a chunk of samples; it stages the label's
//                             column in shared memory, and its warps visit the samples with it
//   column_block_per_sample   many classes: the column is read from L2
//
// Bytes that must move: a sample's logits, weights and label, its row sums with slack, and the
// results; the parts once.
#pragma once

#include "column/loss_sum.cuh"
#include "column/sample.cuh"
#include "common/tuning.h"

namespace ptd {

// The stride of columns in shared memory. It is odd, so that threads with different labels have few
// bank conflicts.
PTD_HD int staged_pitch(int parts, int classes) { return parts * classes | 1; }

// Row sums of T(x) + slack of sample n, by one thread. All threads read the same staged numbers.
// The loops over V columns have no branch: columns beyond the last repeat it, and are not added up.
template <int V, class T>
__device__ __forceinline__ void write_row_sums(const Transition<T>& transition,
                                               const T* staged,  // [C, pitch]
                                               int64_t n, bool has_sample,
                                               T* row_sums) {  // [N, C]
  const int classes = transition.classes, parts = transition.parts;
  const int pitch = staged_pitch(parts, classes);
  const int64_t own = has_sample ? n : transition.samples - 1;
  const auto column = [&](int k) { return k < classes ? k : classes - 1; };
#pragma unroll 1
  for (int i = 0; i < classes; ++i) {
    T m[V], sum = T(0);
#pragma unroll
    for (int k = 0; k < V; ++k) m[k] = *transition.slack.at(i, column(k));
#pragma unroll 1
    for (int j = 0; j < parts; ++j) {
      const T h = transition.weight(own, j);
      const T* part = staged + j * classes + i;
#pragma unroll
      for (int k = 0; k < V; ++k) m[k] += h * part[column(k) * pitch];
    }
#pragma unroll
    for (int k = 0; k < V; ++k) sum += k < classes ? clamp_entry(m[k]) : T(0);
    if (has_sample) row_sums[n * classes + i] = sum;
  }
}

template <class S, class Op>
__global__ void __launch_bounds__(kColumnThreads, resident_blocks<Accumulation<S>>(4))
    column_thread_per_sample(ColumnBatch<S> batch, Op op, int block_samples) {
  using T = Accumulation<S>;
  constexpr int V = kThreadPerSampleClasses;
  PTD_DYNAMIC_SHARED(T, staged);  // [C, pitch]
  const Transition<T>& transition = batch.transition;
  const int classes = transition.classes, parts = transition.parts;
  const int size = parts * classes, pitch = staged_pitch(parts, classes);
  // All threads take part, even if a small batch gives a block fewer samples than threads.
  for (int e = threadIdx.x; e < classes * size; e += kColumnThreads) {
    staged[e / size * pitch + e % size] = transition.columns[e];
  }
  __syncthreads();

  LossSums thread_sums;
  const int64_t n = int64_t(blockIdx.x) * block_samples + threadIdx.x;
  const bool has_sample = int(threadIdx.x) < block_samples && n < transition.samples;
  if constexpr (Op::kWritesRowSums) {
    if (batch.row_sums_out) {
      write_row_sums<V>(transition, staged, n, has_sample, batch.row_sums_out);
    }
  }
  if (has_sample) {
    const int label = batch.labels.class_of(n, classes), y = label < 0 ? 0 : label;
    ThreadGroup group;
    Fragment<T, V> sample;
    begin_sample(batch, n, y, group, sample);
    for (int j = 0; j < parts; ++j) {
      const T h = transition.weight(n, j);
      const T* part = staged + y * pitch + j * classes;
      sample.for_each(group, classes, [&](int v, int i) { sample.u[v] += h * part[i]; });
    }
    end_column(batch, n, label, group, sample);
    op.visit(batch, n, label, sample, group, thread_sums);
  }
  op.finish(thread_sums);
}

// Grid: [chunks of samples, C + 1]. Blocks with blockIdx.y == C take ignored and bad labels.
template <class S, class Op>
__global__ void __launch_bounds__(kColumnThreads, resident_blocks<Accumulation<S>>(4))
    column_warp_per_sample(ColumnBatch<S> batch, Op op) {
  using T = Accumulation<S>;
  constexpr int V = kWarpPerSampleItems<T>;
  PTD_DYNAMIC_SHARED(T, staged);  // [R, C]
  const Transition<T>& transition = batch.transition;
  const int classes = transition.classes, parts = transition.parts;
  const int y = static_cast<int>(blockIdx.y);
  const int64_t begin = int64_t(blockIdx.x) * kLabelChunk;
  const int64_t end =
      begin + kLabelChunk < transition.samples ? begin + kLabelChunk : transition.samples;
  const auto belongs = [&](int label) { return y < classes ? label == y : label < 0; };
  __shared__ int counts[kColumnThreads / kWarp];
  int count = 0;  // of the block's samples
  for (int64_t n = begin + threadIdx.x; n < end; n += kColumnThreads) {
    count += belongs(batch.labels.class_of(n, classes));
  }
  LossSums thread_sums;
  if (block_sum(count, counts) == 0) {
    op.finish(thread_sums);
    return;
  }
  if (y < classes) {
    const T* column = transition.column(y);
    for (int e = threadIdx.x; e < parts * classes; e += kColumnThreads) staged[e] = column[e];
  }
  __syncthreads();

  for (int64_t first = begin + warp_id() * kWarp; first < end; first += kColumnThreads) {
    const int64_t own = first + lane_id();
    const int own_label = own < end ? batch.labels.class_of(own, classes) : classes;
    const bool is_own = own < end && belongs(own_label);
    // The lanes whose samples belong to this block, in order.
    for (unsigned left = __ballot_sync(0xffffffffu, is_own); left; left &= left - 1) {
      const int lane = __ffs(static_cast<int>(left)) - 1;
      const int label = __shfl_sync(0xffffffffu, own_label, lane);
      const int64_t n = first + lane;
      WarpGroup group;
      Fragment<T, V> sample;
      begin_sample(batch, n, label < 0 ? 0 : label, group, sample);
      for (int start = 0; start < parts && label >= 0; start += kWarp) {
        const int count = parts - start < kWarp ? parts - start : kWarp;
        const T weight = lane_id() < count ? transition.weight(n, start + lane_id()) : T(0);
        for (int j = 0; j < count; ++j) {
          const T h = __shfl_sync(0xffffffffu, weight, j);
          const T* part = staged + (start + j) * classes;
          sample.for_each(group, classes, [&](int v, int i) { sample.u[v] += h * part[i]; });
        }
      }
      end_column(batch, n, label, group, sample);
      op.visit(batch, n, label, sample, group, thread_sums);
    }
  }
  op.finish(thread_sums);
}

template <class S, class Op>
__global__ void __launch_bounds__(kBlockPerSampleThreads)
    column_block_per_sample(ColumnBatch<S> batch, Op op) {
  using T = Accumulation<S>;
  constexpr int V = kBlockPerSampleItems<T>;
  __shared__ T scratch[2 * kWarp];
  const Transition<T>& transition = batch.transition;
  const int classes = transition.classes, parts = transition.parts;
  BlockGroup<T> group{scratch};
  LossSums thread_sums;
  for (int64_t n = blockIdx.x; n < transition.samples; n += gridDim.x) {
    const int label = batch.labels.class_of(n, classes), y = label < 0 ? 0 : label;
    Fragment<T, V> sample;
    begin_sample(batch, n, y, group, sample);
    for (int j = 0; j < parts; ++j) {
      const T h = transition.weight(n, j);
      const T* part = transition.column(y, j);
      sample.for_each(group, classes, [&](int v, int i) { sample.u[v] += h * part[i]; });
    }
    end_column(batch, n, label, group, sample);
    op.visit(batch, n, label, sample, group, thread_sums);
  }
  op.finish(thread_sums);
}

}  // namespace ptd
