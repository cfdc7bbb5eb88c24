// Up to 128 classes: samples grouped by label.
//
// A column of the parts is R C numbers, far more than a sample's own C + R, and neighbouring
// samples have different labels. So a block takes one label and a chunk of the samples: it looks
// through their labels (eight bytes each), lists those that have it, and brings their column to
// shared memory: once for all of them up to 31 parts (32, of fewer than 128 classes), else a piece
// at a time for every round of the block's warps.
//
// A warp takes K samples at a time. Their columns of T(x) are formed with the classes divided among
// all 32 lanes, so that what is read of the parts serves K samples. For the rest a sample has lanes
// of its own (sample_lanes.cuh): what is needed once per sample is then computed for K at a time.
#pragma once

#include "column.cuh"
#include "find_label.cuh"
#include "grouped_layout.h"
#include "sample_lanes.cuh"

namespace ptd {

// What all samples of a block have in common. It is in shared memory, for registers are scarce.
struct GroupedBlock {
  int64_t first;  // sample of the chunk
  int label;      // or class 0, for labels that are no class
  int total;      // samples with it
};

// The sample of a lane.
struct GroupedSample {
  int64_t n;
  bool counts;  // else it stands in for one beyond the last
};

// The weights of a warp's samples for one part.
template <class T, int K>
using PartWeights = Vector<T, K>;

// Column k of `count` parts to shared memory, by all threads of the block; zeros in the padding.
// Each thread's vectors up to `first`, of the ColumnInFlight, are left out.
template <bool kVector, class T>
__device__ __forceinline__ void stage_column(const T* column, int count, int classes, int pitch,
                                             int first, T* to) {  // shared, [count, pitch]
  if constexpr (kVector) {
#pragma unroll 1
    for (int at = threadIdx.x + first * kGroupedThreads; at < count * classes / 4;
         at += kGroupedThreads) {
      reinterpret_cast<Vector<T, 4>*>(to)[at] = reinterpret_cast<const Vector<T, 4>*>(column)[at];
    }
  } else {
#pragma unroll 1
    for (int j = warp_id(); j < count; j += kGroupedWarps) {
#pragma unroll 1
      for (int i = lane_id(); i < pitch; i += kWarp) {
        to[j * pitch + i] = i < classes ? column[j * classes + i] : T(0);
      }
    }
  }
}

// The first vectors of the column, under way while labels are looked through.
template <bool kVector, class T>
struct ColumnInFlight {
  static constexpr int kHeld = kVector ? 2 : 0;
  Vector<T, 4> held[kHeld + 1];

  __device__ __forceinline__ void load(const T* column, int size) {
#pragma unroll
    for (int a = 0; a < kHeld; ++a) {
      const int at = static_cast<int>(threadIdx.x) + a * kGroupedThreads;
      if (at < size / 4) held[a] = reinterpret_cast<const Vector<T, 4>*>(column)[at];
    }
  }
  __device__ __forceinline__ void store(int size, T* to) const {
#pragma unroll
    for (int a = 0; a < kHeld; ++a) {
      const int at = static_cast<int>(threadIdx.x) + a * kGroupedThreads;
      if (at < size / 4) reinterpret_cast<Vector<T, 4>*>(to)[at] = held[a];
    }
  }
};

// sums += `count` parts of the column: lane l has classes E l onwards, of all K samples. n is the
// lane's own sample, whose weights it brings.
template <class S, class T, int K, int E>
__device__ __forceinline__ void add_parts(const LabelBatch<S>& batch, int64_t n, int start,
                                          int count, int pitch,
                                          const T* staged,             // shared, [count, pitch]
                                          PartWeights<T, K>* weights,  // shared, [count]
                                          T (&sums)[K][E]) {
  __syncwarp();
  constexpr int kLanes = kWarp / K;
  const int64_t step = kLanes * batch.weights.stride;
  const T* given = batch.weights.data + n * batch.weights.row_stride +
                   (start + sample_lane<K>()) * batch.weights.stride;
#pragma unroll 1
  for (int j = sample_lane<K>(); j < count; j += 2 * kLanes, given += 2 * step) {
    // Two are under way at once.
    const bool both = j + kLanes < count;
    const T one = batch.weights.data ? given[0] : T(1);
    const T other = batch.weights.data && both ? given[step] : T(1);
    weights[j].of[own_sample<K>()] = one;
    if (both) weights[j + kLanes].of[own_sample<K>()] = other;
  }
  __syncwarp();
  const T* part = staged + (E * lane_id() < pitch ? E * lane_id() : 0);
  const auto add = [&](const T(&weight)[K]) {
    const auto entries = *reinterpret_cast<const Vector<T, E>*>(part);
    part += pitch;
#pragma unroll
    for (int s = 0; s < K; ++s) {
#pragma unroll
      for (int e = 0; e < E; ++e) sums[s][e] += weight[s] * entries.of[e];
    }
  };
  struct alignas(16) TwoParts {
    T of[2][K];
  };
  int j = 0;
#pragma unroll 2
  for (; j + 2 <= count; j += 2) {
    const TwoParts two = *reinterpret_cast<const TwoParts*>(weights + j);
    add(two.of[0]);
    add(two.of[1]);
  }
  if (j < count) add(weights[j].of);
}

// visit(sample, label, share) for all samples, by whole warps. The grid is [chunks, C].
template <class S, int E, int K, bool kVector, bool kSlack, class Visit>
__device__ __forceinline__ void for_each_grouped(const LabelBatch<S>& batch,
                                                 const GroupedLayout& layout, const Visit& visit) {
  using T = Accumulation<S>;
  constexpr int V = E * K;
  PTD_DYNAMIC_SHARED(unsigned char, shared);
  __shared__ __align__(16) PartWeights<T, K> weights[kGroupedWarps][kStagedParts];
  __shared__ int counts[kGroupedWarps];
  __shared__ GroupedBlock block;
  T* const staged = reinterpret_cast<T*>(shared);
  uint16_t* const list = reinterpret_cast<uint16_t*>(shared + layout.list);
  const int classes = batch.classes, parts = batch.parts;
  using InFlight = ColumnInFlight<kVector, T>;
  const auto count_from = [&](int start) {
    return parts - start < layout.staged_parts ? parts - start : layout.staged_parts;
  };
  const auto stage = [&](int label, int start, int first) {
    const T* column = batch.columns + (int64_t(label) * parts + start) * classes;
    stage_column<kVector>(column, count_from(start), classes, layout.pitch, first, staged);
  };
  {
    const int label = static_cast<int>(blockIdx.y);
    const int64_t first = int64_t(blockIdx.x) * layout.length;
    const int each = layout.length / kGroupedWarps, begin = warp_id() * each;
    InFlight column;
    column.load(batch.columns + int64_t(label) * parts * classes, count_from(0) * classes);
    const unsigned found = find_label<kGroupedSteps>(batch, first, begin, begin + each, label);
    column.store(count_from(0) * classes, staged);
    stage(label, 0, InFlight::kHeld);
    const int total = list_found<kGroupedSteps, kGroupedWarps>(found, begin, counts, list);
    if (threadIdx.x == 0) block = {first, label, total};
    __syncthreads();
  }

#pragma unroll 1
  for (int round = 0; round < block.total; round += kGroupedWarps * K) {
    const int at = round + warp_id() * K, own = at + own_sample<K>();
    const bool any = at < block.total;  // to do for this warp
    GroupedSample sample;
    sample.counts = own < block.total;
    sample.n = block.first + list[sample.counts ? own : block.total - 1];
    T sums[K][E];
#pragma unroll
    for (int e = 0; e < E; ++e) {
      const int i = E * lane_id() + e;
      const T base = kSlack && i < classes ? slack_at(batch, i, block.label) : T(0);
#pragma unroll
      for (int s = 0; s < K; ++s) sums[s][e] = base;
    }
#pragma unroll 1
    for (int start = 0; start < parts; start += layout.staged_parts) {
      if (layout.staged_parts < parts && (round > 0 || start > 0)) {
        __syncthreads();
        stage(block.label, start, 0);
        __syncthreads();
      }
      if (any) {
        add_parts(batch, sample.n, start, count_from(start), layout.pitch, staged,
                  weights[warp_id()], sums);
      }
    }
    if (!any) continue;
    Share<T, V> share = sample_share<T, E, K>();
    to_sample_lanes(sums, share.column);
    if constexpr (kSlack) {
      SampleLoad<kVector, T, V> row_sums(batch.row_sums + sample.n * classes, classes);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        share.column[v] = normalised_entry(clamp_entry(share.column[v]), row_sums.get(share, v),
                                           T(1) / T(classes));
      }
    }
    const S* const row = batch.logits.data + sample.n * batch.logits.row_stride;
    load_sample<kVector>(row, batch.logits.stride, classes, -infinity<T>(), share, share.z);
    // Class 0's samples may have labels that are no class.
    const int label = block.label;
    visit(sample, class_of(batch, label == 0 ? label_at(batch.labels, sample.n) : label), share);
  }
}

}  // namespace ptd
