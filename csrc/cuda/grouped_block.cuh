// A block of the grouped kernels (grouped.cuh): its place in the batch, and what is in its shared
// memory.
#pragma once

#include "column.cuh"
#include "global_memory.cuh"
#include "grouped_layout.h"
#include "label_list.cuh"
#include "sample_lanes.cuh"

namespace ptd {

// The weights of a warp's samples for one part.
template <class T, int K>
using PartWeights = Vector<T, K>;

// blockIdx.y, read where it is needed and not kept.
__device__ __forceinline__ int group_of_labels() {
#if defined(__CUDA_ARCH__)
  int group;
  asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(group));
  return group;
#else
  return static_cast<int>(blockIdx.y);
#endif
}

// What the chunk of a block begins with, in shared memory: read there when it is needed, for
// registers are scarce.
template <class S>
struct ChunkRows {
  const S* logits;
  const Accumulation<S>* weights;
};

template <class S, int E, int K, bool kVector>
struct GroupedBlock {
  using T = Accumulation<S>;
  static constexpr bool kVectors = kVector;
  const LabelBatch<S>& batch;
  const GroupedLayout& layout;
  unsigned char* shared;
  unsigned *counts, *listed, *drawn;  // shared, of the list
  ChunkRows<S>* chunk;                // shared, if kVector
  unsigned warps;                     // that take samples

  __device__ __forceinline__ int64_t start() const { return int64_t(blockIdx.x) * layout.length; }
  __device__ __forceinline__ int samples() const {
    return blockIdx.x + 1 == gridDim.x ? layout.last_length : layout.length;
  }
  __device__ __forceinline__ int first_label() const { return group_of_labels() * layout.labels; }
  // How many there are: the last block may have fewer.
  __device__ __forceinline__ int labels() const {
    const int left = batch.classes - first_label();
    return left < layout.labels ? left : layout.labels;
  }
  __device__ __forceinline__ PartWeights<T, K>* weights() const {
    return reinterpret_cast<PartWeights<T, K>*>(shared) + warp_id() * layout.weight_rows;
  }
  __device__ __forceinline__ LabelList list() const {
    return {counts, reinterpret_cast<uint16_t*>(shared + layout.list), listed, drawn, layout.length,
            warps};
  }
  // Called by one thread, before a barrier that comes before any of the rows.
  __device__ __forceinline__ void prepare() const {
    if constexpr (kVector) {
      *chunk = {first_row(batch.logits), first_row(batch.weights)};
    }
  }
  __device__ __forceinline__ const S* logits_of(int position) const {
    if constexpr (kVector) return chunk->logits + position * int(batch.logits.row_stride);
    return batch.logits.data + (start() + position) * batch.logits.row_stride;
  }
  __device__ __forceinline__ const T* weights_of(int position) const {
    if constexpr (kVector) return chunk->weights + position * int(batch.weights.row_stride);
    return batch.weights.data + (start() + position) * batch.weights.row_stride;
  }
  // Of a contiguous [N, C].
  __device__ __forceinline__ const T* row_of(const T* rows, int position) const {
    const int classes = batch.classes;
    return rows + int64_t(blockIdx.x) * (layout.length * classes) + position * classes;
  }
  // The class whose column a sample's is: any where its label is none.
  __device__ __forceinline__ int column_of(const ListedSample<K>& sample) const {
    const int label = first_label() + sample.slot();
    return label < batch.classes ? label : 0;
  }
  // The parts of its column; so few that offsets have 32 bits.
  __device__ __forceinline__ const T* parts_of(const ListedSample<K>& sample) const {
    return batch.columns + column_of(sample) * (batch.parts * batch.classes);
  }
  // Asks for the first columns of the block's labels. The others are left to the warps that need
  // them, so that weights, which all products wait for, come before.
  __device__ __forceinline__ void prefetch_columns() const {
    constexpr int kSector = 32, kAhead = 8 * 1024;
    const int bytes = labels() * batch.parts * batch.classes * int(sizeof(T));
    const int at = kSector * static_cast<int>(threadIdx.x);
    const T* const first = batch.columns + first_label() * (batch.parts * batch.classes);
    if (at < bytes && at < kAhead) prefetch_near(reinterpret_cast<const char*>(first) + at);
  }
  // The class of a slot, or what there is instead.
  __device__ __forceinline__ int label_of(int slot) const {
    const int label = first_label() + slot;
    return label == batch.ignore_index ? kIgnored : label;
  }
  __device__ __forceinline__ int label_of(const ListedSample<K>& sample) const {
    if (sample.slot() < labels()) return label_of(sample.slot());
    return class_of(batch, label_at(batch.labels, start() + sample.position()));
  }

 private:
  template <class Number>
  __device__ __forceinline__ const Number* first_row(const Rows<const Number>& rows) const {
    return rows.data + start() * rows.row_stride;
  }
};

template <class S, int E, int K, bool kVector>
__device__ __forceinline__ GroupedBlock<S, E, K, kVector> grouped_block(
    const LabelBatch<S>& batch, const GroupedLayout& layout, unsigned warps = kGroupedWarps) {
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  __shared__ unsigned counts[kGroupedSlots], listed[kLongestChunk / kWarp], drawn;
  __shared__ ChunkRows<S> chunk;
  return {batch, layout, shared, counts, listed, &drawn, &chunk, warps};
}

}  // namespace ptd
