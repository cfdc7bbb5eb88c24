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

#include "grouped_stage.cuh"

namespace ptd {

// The sample of a lane.
struct GroupedSample {
  int64_t n;
  bool counts;  // else it stands in for one beyond the last of its label
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
  constexpr int kAtOnce = 4;
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
  ChunkLabels<Block::kVectors, Label> labels;
  if (finds_labels()) labels.load(block.batch.labels, block.start(), block.samples());
  __syncthreads();
  if (finds_labels()) {
    labels.find(block.samples(), block.batch.classes, block.first_label(), block.labels(),
                block.found(),
                [&](int position, bool listed) { block.prefetch_weights(position, listed); });
  } else {
    columns.load(block);
  }
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
  LabelList list;
  if (lists_labels()) list.count(block.found(), block.samples(), counts);
  __syncthreads();
  if (lists_labels()) list.write<K>(counts, block.list());
  if (!finds_labels()) columns.store(block);
  __syncthreads();

#pragma unroll 1
  for (int round = 0; round < items; round += kGroupedWarps) {
    const int item = round + warp_id();
    const bool any = item < items;  // to do for this warp
    const ListEntry entry = block.entry(any ? K * item + own_sample<K>() : 0);
    Share<T, V> share = sample_share<T, E, K>();
    // Weights first: columns are formed while logits are on their way.
    const auto bring_weights = [&](int part, int count) {
      GroupedWeights<Block> weights;
      weights.load(block, entry.position(), part, count);
      __syncwarp();
      weights.store(count, block.weights());
      __syncwarp();
    };
    const auto load_logits = [&] {
      load_sample<kVector>(block.chunk_of(batch.logits),
                           block.offset_in(batch.logits, entry.position()), batch.logits.stride,
                           classes, -infinity<T>(), share, share.z);
    };
    // With slack, registers are too few for logits of four samples while columns are formed.
    constexpr bool kLogitsLast = kSlack && K == 4 && kVector;
    if (any) {
      bring_weights(0, block.parts_from(0));
      if constexpr (kLogitsLast) {
        prefetch_sample(block.row_of(batch.logits, entry.position()), classes, share);
        prefetch_sample(block.row_of(batch.row_sums, entry.position()), classes, share);
      } else {
        load_logits();
      }
    }
    T sums[K][E];
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const int i = E * lane_id() + e;
      const T base = kSlack && i < classes
                         ? slack_at(batch, i, block.first_label() + block.column_of(entry))
                         : T(0);
#pragma unroll
      for (int s = 0; s < K; ++s) sums[s][e] = base;
    }
    // Its place is not kept from round to round, except where that takes a register more.
    const int lane = kVector && sizeof(S) < 4 && K == 2 ? lane_id() : opaque(lane_id());
    const Vector<T, E>* const column = block.columns() +
                                       block.column_of(entry) * layout.staged_parts +
                                       (E * lane < classes ? lane : 0) * layout.pitch;
#pragma unroll 1
    for (int part = 0; part < parts; part += layout.staged_parts) {
      const int count = block.parts_from(part);
      if (layout.staged_parts < parts && (round > 0 || part > 0)) {
        __syncthreads();
        GroupedColumns<Block>(block, part).copy(block);
        __syncthreads();
      }
      if (any) {
        if (part > 0) bring_weights(part, count);
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
            quickly_normalised(clamp_entry(share.column[v]), row_sums.get(share, v), uniform);
      }
    }
    if constexpr (kLogitsLast) load_logits();
    visit(sample, block.label_of(entry), share);
  }
}

}  // namespace ptd
