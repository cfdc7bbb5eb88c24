// A block of the grouped kernels (grouped.cuh): its place in the batch, and what is in its shared
// memory.
#pragma once

#include "column.cuh"
#include "grouped_layout.h"
#include "label_list.cuh"

namespace ptd {

// The weights of a warp's samples for one part.
template <class T, int K>
using PartWeights = Vector<T, K>;

// 32 bits are enough for offsets in a chunk if kVector.
template <bool kVector>
struct ChunkOffset {
  using type = int64_t;
};
template <>
struct ChunkOffset<true> {
  using type = int;
};

// A block's place in the batch, and its shared memory.
template <class S, int E, int K, bool kVector>
struct GroupedBlock {
  using T = Accumulation<S>;
  using Entries = Vector<T, E>;
  static constexpr int kSamples = K;
  static constexpr bool kVectors = kVector;
  const LabelBatch<S>& batch;
  const GroupedLayout& layout;
  unsigned char* shared;

  __device__ __forceinline__ int64_t start() const { return int64_t(blockIdx.x) * layout.length; }
  __device__ __forceinline__ int samples() const {
    return blockIdx.x + 1 == gridDim.x ? layout.last_length : layout.length;
  }
  __device__ __forceinline__ int first_label() const {
    return static_cast<int>(blockIdx.y) * layout.labels;
  }
  // How many there are: the last block may have fewer.
  __device__ __forceinline__ int labels() const {
    const int left = batch.classes - first_label();
    return left < layout.labels ? left : layout.labels;
  }
  __device__ __forceinline__ Entries* columns() const { return reinterpret_cast<Entries*>(shared); }
  __device__ __forceinline__ FoundLabels* found() const {
    return reinterpret_cast<FoundLabels*>(shared + layout.weights);
  }
  __device__ __forceinline__ PartWeights<T, K>* weights() const {
    return reinterpret_cast<PartWeights<T, K>*>(shared + layout.weights) +
           warp_id() * layout.weight_rows;
  }
  // The chunk's rows, and where one of them begins; those of the batch unless kVector.
  using Offset = typename ChunkOffset<kVector>::type;
  template <class Number>
  __device__ __forceinline__ const Number* chunk_of(const Rows<const Number>& rows) const {
    if constexpr (!kVector) return rows.data;
    return rows.data + int64_t(blockIdx.x) * (layout.length * int(rows.row_stride));
  }
  template <class Number>
  __device__ __forceinline__ Offset offset_in(const Rows<const Number>& rows, int position) const {
    return Offset(kVector ? position : start() + position) * Offset(rows.row_stride);
  }
  template <class Number>
  __device__ __forceinline__ const Number* row_of(const Rows<const Number>& rows,
                                                  int position) const {
    return chunk_of(rows) + offset_in(rows, position);
  }
  __device__ __forceinline__ uint16_t* list() const {
    return reinterpret_cast<uint16_t*>(shared + layout.list);
  }
  // Parts that are staged at once, from `part` on.
  __device__ __forceinline__ int parts_from(int part) const {
    const int left = batch.parts - part;
    return left < layout.staged_parts ? left : layout.staged_parts;
  }
  // Of a contiguous [N, C].
  __device__ __forceinline__ const T* row_of(const T* rows, int position) const {
    const int classes = batch.classes;
    return rows + int64_t(blockIdx.x) * (layout.length * classes) + position * classes;
  }
  // Asks for a sample's first weights, which are on their way while samples are listed. Without
  // branches: several are asked for side by side.
  __device__ __forceinline__ void prefetch_weights(int position, bool wanted) const {
    if constexpr (kVector) {
      constexpr int kSector = 32, kMost = kStagedParts * int(sizeof(T));
      const int bytes = batch.weights.data ? batch.parts * int(sizeof(T)) : 0;
      const auto* row = reinterpret_cast<const char*>(row_of(batch.weights, position));
#pragma unroll
      for (int at = 0; at < kMost; at += kSector) prefetch(row + at, wanted && at < bytes);
    }
  }
  __device__ __forceinline__ ListEntry entry(int at) const { return {list()[at]}; }
  // Or what there is instead.
  __device__ __forceinline__ int label_of(const ListEntry& entry) const {
    if (entry.slot() == kRestSlot) {
      return class_of(batch, label_at(batch.labels, start() + entry.position()));
    }
    const int label = first_label() + entry.slot();
    return label == batch.ignore_index ? kIgnored : label;
  }
  // The class whose column it is, counted from the block's first: 0 where there is none.
  __device__ __forceinline__ int column_of(const ListEntry& entry) const {
    return entry.slot() == kRestSlot ? 0 : entry.slot();
  }
};

}  // namespace ptd
