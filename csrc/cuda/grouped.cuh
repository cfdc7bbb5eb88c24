// Up to 128 classes: samples grouped by label.
//
// A column of the parts is R C numbers, far more than a sample's own C + R, and neighbouring
// samples have different labels. So a block takes a few labels and a chunk of the samples: it looks
// through the chunk's labels and lists the samples that have one of its own (label_list.cuh). From
// then on its warps go their own ways. The columns of the block's labels, read again and again,
// stay in the first-level cache; what is read once goes past it. There is one such block on a
// multiprocessor, so that labels are looked through, and columns come from L2, as few times as
// possible.
//
// A warp takes K samples of one label at a time. Their columns of T(x) are formed with the classes
// divided among all 32 lanes, so that what is read of the parts serves K samples. For the rest a
// sample has lanes of its own (sample_lanes.cuh): what is needed once per sample is then computed
// for K at a time.
#pragma once

#include "grouped_block.cuh"

namespace ptd {

// Brings weights of a warp's samples to shared memory: of `count` parts, at most kStagedParts, from
// `part` on.
template <class S, int E, int K, bool kVector>
__device__ __forceinline__ void bring_weights(const GroupedBlock<S, E, K, kVector>& block,
                                              const ListedSample<K>& sample, int part, int count) {
  using T = Accumulation<S>;
  constexpr int kLanes = kWarp / K, kHeld = kStagedParts / kLanes;
  const auto& rows = block.batch.weights;
  const int64_t stride = kVector ? 1 : rows.stride;
  const int thread = opaque(static_cast<int>(threadIdx.x));  // what comes of it is not kept
  const int j = thread % kLanes;
  T held[kHeld];
  if (rows.data) {
    const T* const from = opaque(block.weights_of(sample.position()) + (part + j) * stride);
#pragma unroll
    for (int a = 0; a < kHeld; ++a) {
      if (j + a * kLanes < count) held[a] = read_once(from + a * kLanes * stride);
    }
  } else {
#pragma unroll
    for (int a = 0; a < kHeld; ++a) held[a] = T(1);
  }
  __syncwarp();
  T* const to = reinterpret_cast<T*>(block.shared);
  const int own =
      opaque((thread / kWarp * block.layout.weight_rows + j) * K + thread % kWarp / kLanes);
#pragma unroll
  for (int a = 0; a < kHeld; ++a) {
    if (j + a * kLanes < count) to[own + a * kLanes * K] = held[a];
  }
  __syncwarp();
}

// A lane's entries of one part of a column after another.
template <class T, int E, bool kVector>
struct ColumnParts {
  const T* next;  // its first class
  int classes;

  // Lanes without a class take those of another, or zeros.
  __device__ __forceinline__ ColumnParts(const T* column, int classes, int lane)
      : next(column + (class_of_lane<E, kVector>(lane, 0) < classes
                           ? class_of_lane<E, kVector>(lane, 0)
                           : 0)),
        classes(classes) {}

  __device__ __forceinline__ Vector<T, E> take() {
    Vector<T, E> entries;
    if constexpr (kVector) {
      entries = read_often(reinterpret_cast<const Vector<T, E>*>(next));
    } else {
      entries.of[0] = read_often(next);
#pragma unroll
      for (int e = 1; e < E; ++e) {
        entries.of[e] = T(0);
        if (class_of_lane<E, kVector>(lane_id(), e) < classes) {
          entries.of[e] = read_often(next + kWarp * e);
        }
      }
    }
    next = bytes_on(next, opaque(classes) * unsigned(sizeof(T)));
    return entries;
  }
};

// A lane's entries of two parts.
template <class T, int E>
struct TwoParts {
  Vector<T, E> of[2];

  template <bool kVector>
  __device__ __forceinline__ explicit TwoParts(ColumnParts<T, E, kVector>& column)
      : of{column.take(), column.take()} {}
};

// sums += the next `count` parts of a column. While two are added, the next two are on their way.
// kEven says that there is none left over.
template <bool kEven, class T, int K, int E, bool kVector>
__device__ __forceinline__ void add_parts(int count, ColumnParts<T, E, kVector>& column,
                                          const PartWeights<T, K>*& weights,  // shared
                                          T (&sums)[K][E]) {
  const auto add = [&](const T(&weight)[K], const Vector<T, E>& entries) {
#pragma unroll
    for (int s = 0; s < K; ++s) {
#pragma unroll
      for (int e = 0; e < E; ++e) sums[s][e] += weight[s] * entries.of[e];
    }
  };
  struct alignas(16) TwoWeights {
    T of[2][K];
  };
  const auto add_two = [&](const TwoParts<T, E>& parts) {
    const TwoWeights two = *reinterpret_cast<const TwoWeights*>(weights);
    weights += 2;
    add(two.of[0], parts.of[0]);
    add(two.of[1], parts.of[1]);
  };
  if (count >= 2) {
    TwoParts<T, E> even(column);
#pragma unroll 1
    for (; count >= 6; count -= 4) {
      const TwoParts<T, E> odd(column);
      add_two(even);
      even = TwoParts<T, E>(column);
      add_two(odd);
    }
    if (count >= 4) {
      const TwoParts<T, E> odd(column);
      add_two(even);
      even = odd;
    }
    add_two(even);
  }
  if constexpr (!kEven) {
    // As a loop: an `if` would have its products issued, to no effect, where there is nothing left.
#pragma unroll 1
    for (int left = count % 2; left != 0; --left) add((weights++)->of, column.take());
  }
}

// Lists the chunk's samples. Labels first: all else waits for them.
template <class Label, class Block>
__device__ __forceinline__ void list_labels(const Block& block) {
  ChunkLabels<Block::kVectors, Label> labels;
  labels.load(block.batch.labels, block.start(), block.samples());
  block.list().begin();
  __syncthreads();
  block.prefetch_columns();
  labels.list(block.samples(), block.batch.classes, block.first_label(), block.labels(),
              block.list());
}

template <class Block>
__device__ __forceinline__ void list_samples(const Block& block) {
  if (block.batch.labels.is_int64) {
    list_labels<LongLabel>(block);
  } else {
    list_labels<ShortLabel>(block);
  }
  if (warp_id() == kGroupedWarps - 1) {
    __syncwarp();  // a branch: others have nothing to do with it
    if (lane_id() == 0) block.prepare();
  }
  __syncthreads();
}

// Lists the chunk's samples, and then visit(sample) for all items of a warp, `sample` being the
// lane's own. The grid is [chunks, groups].
template <class S, int E, int K, bool kVector, class Visit>
__device__ __forceinline__ void for_each_item(const GroupedBlock<S, E, K, kVector>& block,
                                              const Visit& visit) {
  list_samples(block);
  ListedSample<K> sample(block.list());
  if (!sample.exists()) return;
#pragma unroll 1
  do {
    visit(sample);
  } while (sample.draw(block.list()));
}

// visit(sample, label, share) for all samples, by whole warps.
template <bool kSlack, class S, int E, int K, bool kVector, class Visit>
__device__ __forceinline__ void for_each_grouped(const GroupedBlock<S, E, K, kVector>& block,
                                                 const Visit& visit) {
  using T = Accumulation<S>;
  constexpr int V = E * K;
  const LabelBatch<S>& batch = block.batch;
  const int classes = batch.classes, parts = batch.parts;
  for_each_item(block, [&](ListedSample<K>& sample) {
    Share<T, V> share = sample_share<T, E, K, kVector>();
    const auto load_logits = [&] {
      load_sample<kVector>(block.logits_of(sample.position()), batch.logits.stride, classes, share,
                           share.z);
    };
    // With slack, registers are too few for logits of four samples while columns are formed.
    constexpr bool kLogitsLast = kSlack && K == 4 && kVector;
    const int staged = parts < kStagedParts ? parts : kStagedParts;
    bring_weights(block, sample, 0, staged);
    sample.bits = opaque(sample.bits);  // the rest is worked out again: registers are scarce
    // Logits after the weights of all warps; and after columns, of which some go first.
    if constexpr (kVector) {
      prefetch_row<K>(block.logits_of(sample.position()), classes);
      if constexpr (kSlack) {
        prefetch_row<K>(block.row_of(batch.row_sums, sample.position()), classes);
      }
    }
    T sums[K][E];
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const int i = class_of_lane<E, kVector>(lane_id(), e);
      const T base = kSlack && i < classes ? slack_at(batch, i, block.column_of(sample)) : T(0);
#pragma unroll
      for (int s = 0; s < K; ++s) sums[s][e] = base;
    }
    ColumnParts<T, E, kVector> column(block.parts_of(sample), classes, opaque(lane_id()));
    const PartWeights<T, K>* weights = block.weights();
    int part = kVector ? staged / 4 * 2 : 0, count = staged - part;
    add_parts<true>(part, column, weights, sums);
    if constexpr (!kLogitsLast) load_logits();
#pragma unroll 1
    while (true) {
      add_parts<false>(count, column, weights, sums);
      part += count;
      if (part == parts) break;
      count = parts - part < kStagedParts ? parts - part : kStagedParts;
      bring_weights(block, sample, part, count);
      weights = block.weights();
    }
    to_sample_lanes(sums, share.column);
    if constexpr (kSlack) {
      SampleLoad<kVector, T, V> row_sums(block.row_of(batch.row_sums, sample.position()), classes);
      const T uniform = T(1) / opaque(T(classes));  // not kept from round to round
#pragma unroll
      for (int v = 0; v < V; ++v) {
        share.column[v] =
            quickly_normalised(clamp_entry(share.column[v]), row_sums.get(share, v), uniform);
      }
    }
    if constexpr (kLogitsLast) load_logits();
    leave_out_beyond<kVector>(classes, share);
    visit(sample, block.label_of(sample), share);
  });
}

}  // namespace ptd
