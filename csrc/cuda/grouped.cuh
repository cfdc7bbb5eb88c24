// Up to 128 classes: samples grouped by label, a few of them to a warp.
//
// A column of the parts is R C numbers, far more than a sample's own C + R, and neighbouring
// samples have different labels. So a warp takes one label and a stretch of samples, looks through
// their labels (eight bytes each) and works on those that have it: the column comes from L2 once
// per block, and each load of it serves kSamples samples. Warps share nothing but that, and need no
// barrier.
//
// Lane l has V classes: 4 l onwards where rows are whole 16-byte vectors (kVector), else l, l + 32,
// and so on.
#pragma once

#include "column.cuh"
#include "label_batch.cuh"

namespace ptd {

constexpr int kGroupedThreads = 128;
constexpr int kGroupedWarps = kGroupedThreads / 32;
constexpr int kGroupedMaxClasses = 128;
constexpr int kLongestStretch = 512;  // samples
constexpr int kStagedParts = 32;

template <class T, int V>
constexpr int kGroupedSamples = (V == 1 ? 16 : 8) / int(sizeof(T));

// The lane's classes of a row of C numbers; beyond the last, anything.
template <class T, int V, bool kVector, class S>
__device__ __forceinline__ void load_lane(const S* row, int64_t stride, int classes, T (&to)[V]) {
  if constexpr (kVector) {
    static_assert(V == 4);
    struct alignas(4 * sizeof(S)) Four {
      S of[4];
    };
    const int i = 4 * lane_id();
    const Four four = *reinterpret_cast<const Four*>(row + (i < classes ? i : 0));
#pragma unroll
    for (int v = 0; v < 4; ++v) to[v] = load<T>(four.of + v);
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = lane_id() + kWarp * v;
      to[v] = load<T>(row + (i < classes ? i : 0) * stride);
    }
  }
}

template <class T, int V, bool kVector, class S>
__device__ __forceinline__ void store_lane(const T (&from)[V], int classes, S* row) {
  if constexpr (kVector) {
    struct alignas(4 * sizeof(S)) Four {
      S of[4];
    } four;
#pragma unroll
    for (int v = 0; v < 4; ++v) store(four.of + v, from[v]);
    if (4 * lane_id() < classes) *reinterpret_cast<Four*>(row + 4 * lane_id()) = four;
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = lane_id() + kWarp * v;
      if (i < classes) store(row + i, from[v]);
    }
  }
}

// Class 0 also takes labels that are no class.
template <class Label>
__device__ __forceinline__ bool takes(int k, Label label, int classes) {
  const bool is_class = static_cast<uint64_t>(label) < static_cast<uint64_t>(classes);
  return (is_class ? static_cast<int>(label) : 0) == k;
}

// Positions among `length` labels of those that class k takes. Returns how many.
template <class Label>
__device__ __forceinline__ int find_label(const Label* labels, int64_t stride, int length,
                                          int classes, int k,
                                          uint16_t* found) {  // shared, [length]
  constexpr int kLabels = 4;                                  // loads under way
  int count = 0;
  const Label* mine = labels + lane_id() * stride;
  for (int start = 0; start < length; start += kLabels * kWarp) {
    Label label[kLabels];
#pragma unroll
    for (int a = 0; a < kLabels; ++a) {
      const bool inside = start + a * kWarp + lane_id() < length;
      label[a] = inside ? *mine : Label(0);
      mine += kWarp * stride;
    }
#pragma unroll
    for (int a = 0; a < kLabels; ++a) {
      const int at = start + a * kWarp + lane_id();
      const bool taken = at < length && takes(k, label[a], classes);
      const unsigned having = __ballot_sync(0xffffffffu, taken);
      if (having == 0) continue;  // as most are where there are many classes
      if (taken) {
        const unsigned before = having & ((1u << lane_id()) - 1u);
        found[count + __popc(before)] = static_cast<uint16_t>(at);
      }
      count += __popc(having);
    }
  }
  __syncwarp();
  return count;
}

template <class S>
__device__ __forceinline__ int find_label(const LabelBatch<S>& batch, int64_t first, int stretch,
                                          int k, uint16_t* found) {
  const int64_t left = batch.samples - first;
  if (left <= 0) return 0;
  const int length = left < stretch ? static_cast<int>(left) : stretch;
  const LabelView& labels = batch.labels;
  const int64_t at = first * labels.stride;
  return labels.is_int64 ? find_label(static_cast<const int64_t*>(labels.data) + at, labels.stride,
                                      length, batch.classes, k, found)
                         : find_label(static_cast<const int32_t*>(labels.data) + at, labels.stride,
                                      length, batch.classes, k, found);
}

// The weights of some samples, part by part.
template <class T, int kSamples>
struct alignas(kSamples * sizeof(T) < 16 ? kSamples * sizeof(T) : 16) StagedWeights {
  T of[kSamples];
};

// column = column k of T(x), revised where there is slack, for the samples `n`.
template <class S, int V, bool kVector, int kAtOnce, int kSamples, class T>
__device__ __forceinline__ void combine_grouped(const LabelBatch<S>& batch,
                                                const int64_t (&n)[kSamples], int k,
                                                StagedWeights<T, kSamples>* staged,
                                                Share<T, V> (&share)[kSamples]) {
  const int classes = batch.classes, parts = batch.parts;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const int i = share[0].index(v);
    const T base = batch.slack && i < classes ? slack_at(batch, i, k) : T(0);
#pragma unroll
    for (int s = 0; s < kSamples; ++s) share[s].column[v] = base;
  }
  const T* column = batch.columns + int64_t(k) * parts * classes;
  for (int start = 0; start < parts; start += kStagedParts) {
    const int count = parts - start < kStagedParts ? parts - start : kStagedParts;
    __syncwarp();
    if (lane_id() < count) {
#pragma unroll
      for (int s = 0; s < kSamples; ++s) {
        staged[lane_id()].of[s] = weight_at(batch.weights, n[s], start + lane_id());
      }
    }
    __syncwarp();
#pragma unroll kAtOnce
    for (int j = 0; j < count; ++j) {
      T part[V];
      load_lane<T, V, kVector>(column, 1, classes, part);
      column += classes;
      const StagedWeights<T, kSamples> weight = staged[j];
#pragma unroll
      for (int s = 0; s < kSamples; ++s) {
#pragma unroll
        for (int v = 0; v < V; ++v) share[s].column[v] += weight.of[s] * part[v];
      }
    }
  }
#pragma unroll
  for (int s = 0; s < kSamples; ++s) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = share[s].index(v);
      T& entry = share[s].column[v];
      if (i >= classes) {
        share[s].z[v] = -infinity<T>();
        entry = T(0);
      } else if (batch.slack) {
        const T sum = batch.row_sums[n[s] * classes + i];
        entry = normalised_entry(clamp_entry(entry), sum, T(1) / T(classes));
      }
    }
  }
}

// visit(n, label, share) for every sample, by the 32 lanes of a warp. The grid is C * chunks
// blocks; a chunk is a stretch for each warp of the block. kAtOnce parts are loaded before they are
// used: more hide more of the latency, and need more registers.
template <class S, int V, bool kVector, int kAtOnce, class Visit>
__device__ __forceinline__ void for_each_grouped(const LabelBatch<S>& batch, int chunks,
                                                 int stretch, const Visit& visit) {
  using T = Accumulation<S>;
  constexpr int kSamples = kGroupedSamples<T, V>;
  __shared__ uint16_t found[kGroupedWarps][kLongestStretch];
  __shared__ StagedWeights<T, kSamples> staged[kGroupedWarps][kStagedParts];
  // Blocks of one label and neighbouring chunks follow each other.
  const int k = static_cast<int>(blockIdx.x) / chunks,
            chunk = static_cast<int>(blockIdx.x) % chunks;
  const int64_t first = (int64_t(chunk) * kGroupedWarps + warp_id()) * stretch;
  const int count = find_label(batch, first, stretch, k, found[warp_id()]);
  for (int at = 0; at < count; at += kSamples) {
    int64_t n[kSamples];
    Share<T, V> share[kSamples];
#pragma unroll
    for (int s = 0; s < kSamples; ++s) {
      n[s] = first + found[warp_id()][at + s < count ? at + s : at];
      share[s].first = kVector ? V * lane_id() : lane_id();
      share[s].step = kVector ? 1 : kWarp;
      load_lane<T, V, kVector>(batch.logits.data + n[s] * batch.logits.row_stride,
                               batch.logits.stride, batch.classes, share[s].z);
    }
    combine_grouped<S, V, kVector, kAtOnce, kSamples>(batch, n, k, staged[warp_id()], share);
#pragma unroll
    for (int s = 0; s < kSamples; ++s) {
      if (at + s < count) {
        // Class 0's samples may have labels that are no class.
        visit(n[s], class_of(batch, k == 0 ? label_at(batch.labels, n[s]) : k), share[s]);
      }
    }
  }
}

}  // namespace ptd
