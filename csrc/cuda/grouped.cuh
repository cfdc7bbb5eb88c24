// Up to 128 classes: samples grouped by label.
//
// A column of the parts is R C numbers, far more than a sample's own C + R, and neighbouring
// samples have different labels. So a block takes a few labels and a chunk of the samples: it looks
// through the chunk's labels, lists the samples that have one of its own (label_list.cuh), and
// brings the columns of its labels to shared memory: once, if all parts fit, else a piece at a time
// for every round of the block's warps. There is one such block on a multiprocessor, so that labels
// are looked through, and parts staged, as few times as possible.
//
// A warp takes K samples of one label at a time. Their columns of T(x) are formed with the classes
// divided among all 32 lanes, so that what is read of the parts serves K samples. For the rest a
// sample has lanes of its own (sample_lanes.cuh): what is needed once per sample is then computed
// for K at a time.
#pragma once

#include "column.cuh"
#include "grouped_layout.h"
#include "label_list.cuh"
#include "sample_lanes.cuh"

namespace ptd {

// The sample of a lane.
struct GroupedSample {
  int64_t n;
  bool counts;  // else it stands in for one beyond the last of its label
};

// The weights of a warp's samples for one part.
template <class T, int K>
using PartWeights = Vector<T, K>;

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
  // A row of the chunk; if kVector, 32 bits are enough for offsets in it.
  template <class Number>
  __device__ __forceinline__ const Number* row_of(const Rows<const Number>& rows,
                                                  int position) const {
    if constexpr (kVector) {
      const int stride = static_cast<int>(rows.row_stride);
      return rows.data + int64_t(blockIdx.x) * (layout.length * stride) + position * stride;
    } else {
      return rows.data + (start() + position) * rows.row_stride;
    }
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
  // Asks for a sample's logits and weights, 32 bytes to a lane. They are on their way while samples
  // are listed: DRAM would be idle for long without.
  __device__ __forceinline__ void prefetch_sample(int position) const {
    if constexpr (kVector) {
      constexpr int kHalf = kWarp / 2, kSector = 32;
      const int at = lane_id() % kHalf * kSector;
      const bool weights = lane_id() >= kHalf;
      const auto* row = reinterpret_cast<const char*>(row_of(batch.logits, position));
      int bytes = batch.classes * int(sizeof(S));
      if (weights) {
        row = reinterpret_cast<const char*>(row_of(batch.weights, position));
        bytes = batch.weights.data ? batch.parts * int(sizeof(T)) : 0;
      }
      if (at < bytes) prefetch(row + at);
    }
  }
  __device__ __forceinline__ ListEntry entry(int at) const { return {list()[at]}; }
  // Or what there is instead.
  __device__ __forceinline__ int label_of(const ListEntry& entry) const {
    return class_of(batch, entry.slot() == kRestSlot
                               ? label_at(batch.labels, start() + entry.position())
                               : first_label() + entry.slot());
  }
  // The class whose column it is, counted from the block's first: 0 where there is none.
  __device__ __forceinline__ int column_of(const ListEntry& entry) const {
    return entry.slot() == kRestSlot ? 0 : entry.slot();
  }
};

constexpr int kColumnWarps = kGroupedWarps / 2;

// The block's columns on their way to shared memory: parts from `part` on of all its labels, each a
// row, which the first kColumnWarps warps take in turn.
template <class Block>
struct GroupedColumns {
  using T = typename Block::T;
  using Entries = typename Block::Entries;
  static constexpr int E = sizeof(Entries) / sizeof(T), kHeld = 7;
  int first, rows;  // of [C R, C]
  Entries held[kHeld];

  __device__ __forceinline__ GroupedColumns(const Block& block, int part) {
    first = block.first_label() * block.batch.parts + part;
    rows = block.parts_from(part) * block.labels();
  }
  __device__ __forceinline__ Entries load(const Block& block, int row) const {
    const int classes = block.batch.classes;  // so few that offsets have 32 bits
    const T* const from = block.batch.columns + ((first + row) * classes + E * lane_id());
    Entries entries;
    if constexpr (Block::kVectors) {
      if (row < rows && E * lane_id() < classes) entries = *reinterpret_cast<const Entries*>(from);
    } else {
#pragma unroll
      for (int e = 0; e < E; ++e) {
        entries.of[e] = row < rows && E * lane_id() + e < classes ? from[e] : T(0);
      }
    }
    return entries;
  }
  __device__ __forceinline__ void store(const Block& block, int row, const Entries& entries) const {
    Entries* const to = block.columns() + lane_id() * block.layout.pitch;
    if (row < rows && E * lane_id() < block.batch.classes) to[row] = entries;
  }
  // The first few, so that other work fits in before they are there.
  __device__ __forceinline__ void load(const Block& block) {
    if (warp_id() >= kColumnWarps) return;
#pragma unroll
    for (int a = 0; a < kHeld; ++a) held[a] = load(block, warp_id() + a * kColumnWarps);
  }
  __device__ __forceinline__ void store(const Block& block) const {
    if (warp_id() >= kColumnWarps) return;
#pragma unroll
    for (int a = 0; a < kHeld; ++a) store(block, warp_id() + a * kColumnWarps, held[a]);
    copy(block, kHeld);
  }
  // One after the other, but for the first few of each warp.
  __device__ __forceinline__ void copy(const Block& block, int done = 0) const {
    if (warp_id() >= kColumnWarps) return;
#pragma unroll 1
    for (int row = warp_id() + done * kColumnWarps; row < rows; row += kColumnWarps) {
      store(block, row, load(block, row));
    }
  }
};

// A lane's weights of its own sample, on their way to shared memory.
template <class Block>
struct GroupedWeights {
  using T = typename Block::T;
  static constexpr int K = Block::kSamples, kLanes = kWarp / K, kHeld = kStagedParts / kLanes;
  T held[kHeld];

  // At most kStagedParts, from `part` on.
  __device__ __forceinline__ void load(const Block& block, int position, int part, int count) {
    const Rows<const T>& rows = block.batch.weights;
    const int j = sample_lane<K>();
    const T* const from =
        block.row_of(rows, position) + (part + j) * (Block::kVectors ? 1 : rows.stride);
#pragma unroll
    for (int a = 0; a < kHeld; ++a) {
      held[a] = T(1);
      if (!rows.data || j + a * kLanes >= count) continue;
      held[a] = from[a * kLanes * (Block::kVectors ? 1 : rows.stride)];
    }
  }
  __device__ __forceinline__ void store(int count, PartWeights<T, K>* to) const {
    const int j = sample_lane<K>();
#pragma unroll
    for (int a = 0; a < kHeld; ++a) {
      if (j + a * kLanes < count) to[j + a * kLanes].of[own_sample<K>()] = held[a];
    }
  }
};

// sums += `count` parts of a column: lane l has classes E l onwards, of all K samples.
template <class T, int K, int E>
__device__ __forceinline__ void add_parts(int count, const Vector<T, E>* column,  // shared
                                          const PartWeights<T, K>* weights,       // shared
                                          T (&sums)[K][E]) {
  const auto add = [&](const T(&weight)[K], const Vector<T, E>& entries) {
#pragma unroll
    for (int s = 0; s < K; ++s) {
#pragma unroll
      for (int e = 0; e < E; ++e) sums[s][e] += weight[s] * entries.of[e];
    }
  };
  struct alignas(16) TwoParts {
    T of[2][K];
  };
  constexpr int kAtOnce = K == 4 ? 2 : 4;
#pragma unroll 1
  for (; count >= kAtOnce; count -= kAtOnce, column += kAtOnce, weights += kAtOnce) {
#pragma unroll
    for (int j = 0; j < kAtOnce; j += 2) {
      const TwoParts two = *reinterpret_cast<const TwoParts*>(weights + j);
      add(two.of[0], column[j]);
      add(two.of[1], column[j + 1]);
    }
  }
#pragma unroll 1
  for (; count > 0; --count) add((weights++)->of, *column++);
}

// Labels first: all else waits for them.
template <class Label, class Block>
__device__ __forceinline__ void look_through_labels(const Block& block,
                                                    GroupedColumns<Block>& columns) {
  const LabelView& view = block.batch.labels;
  const ChunkLabels<Block::kVectors, Label> labels(view, block.start(), block.samples());
  labels.find(block.batch.classes, block.first_label(), block.labels(), block.found(),
              [&](int position) { block.prefetch_sample(position); });
  columns.load(block);
}

// visit(sample, label, share) for all samples, by whole warps. The grid is [chunks, groups].
template <class S, int E, int K, bool kVector, bool kSlack, class Visit>
__device__ __forceinline__ void for_each_grouped(const LabelBatch<S>& batch,
                                                 const GroupedLayout& layout, const Visit& visit) {
  using T = Accumulation<S>;
  constexpr int V = E * K;
  using Block = GroupedBlock<S, E, K, kVector>;
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  __shared__ int counts[kGroupedSlots + 1];
  const int& items = counts[kGroupedSlots];  // read again and again, for registers are scarce
  const Block block{batch, layout, shared};
  const int classes = batch.classes, parts = batch.parts;
  GroupedColumns<Block> columns(block, 0);
  if (batch.labels.is_int64) {
    look_through_labels<LongLabel>(block, columns);
  } else {
    look_through_labels<ShortLabel>(block, columns);
  }
  __syncthreads();
  list_labels<K>(block.found(), block.samples(), counts, block.list());
  columns.store(block);
  __syncthreads();

#pragma unroll 1
  for (int round = 0; round < items; round += kGroupedWarps) {
    const int item = round + warp_id();
    const bool any = item < items;  // to do for this warp
    const ListEntry entry = block.entry(any ? K * item + own_sample<K>() : 0);
    Share<T, V> share = sample_share<T, E, K>();
    // All warps' weights first: columns are formed while logits are on their way.
    GroupedWeights<Block> weights;
    weights.load(block, entry.position(), 0, any ? block.parts_from(0) : 0);
    __syncthreads();
    load_sample<kVector>(block.row_of(batch.logits, entry.position()), batch.logits.stride,
                         any ? classes : 0, -infinity<T>(), share, share.z);
    T sums[K][E];
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const int i = E * lane_id() + e;
      const T base = kSlack && any && i < classes
                         ? slack_at(batch, i, block.first_label() + block.column_of(entry))
                         : T(0);
#pragma unroll
      for (int s = 0; s < K; ++s) sums[s][e] = base;
    }
    const Vector<T, E>* const column = block.columns() +
                                       block.column_of(entry) * layout.staged_parts +
                                       (E * lane_id() < classes ? lane_id() : 0) * layout.pitch;
#pragma unroll 1
    for (int part = 0; part < parts; part += layout.staged_parts) {
      const int count = block.parts_from(part);
      if (layout.staged_parts < parts && (round > 0 || part > 0)) {
        __syncthreads();
        GroupedColumns<Block>(block, part).copy(block);
        __syncthreads();
      }
      if (any) {
        if (part > 0) weights.load(block, entry.position(), part, count);
        __syncwarp();
        weights.store(count, block.weights());
        __syncwarp();
        add_parts(count, column, block.weights(), sums);
      }
    }
    if (!any) continue;
    to_sample_lanes(sums, share.column);
    const GroupedSample sample{block.start() + entry.position(), !entry.fills()};
    if constexpr (kSlack) {
      SampleLoad<kVector, T, V> row_sums(block.row_of(batch.row_sums, entry.position()), classes);
      const T uniform = T(1) / opaque(T(classes));  // not kept from round to round
#pragma unroll
      for (int v = 0; v < V; ++v) {
        share.column[v] =
            normalised_entry(clamp_entry(share.column[v]), row_sums.get(share, v), uniform);
      }
    }
    visit(sample, block.label_of(entry), share);
  }
}

}  // namespace ptd
