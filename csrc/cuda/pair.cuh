// Up to fourteen classes: two lanes per sample, each with V classes, V = 5 or 7. With slack all of
// T(x) is formed, column after column, and a sample's weights, kept in the warp's tile, are read
// C + 1 times.
#pragma once

#include "narrow.cuh"

namespace ptd {

// A warp's sixteen samples: lane l has classes (l / 16) V onwards of sample l % 16.
template <class S, int V, bool kSlack>
struct PairTile {
  static_assert(sizeof(Accumulation<S>) == 4 && V % 2 == 1, "see narrow_layout");

  const LabelBatch<S>& batch;
  const NarrowLayout& layout;
  const unsigned char* shared;
  int slot, begin;  // sample of the warp, first class
  float* rows;      // [16, R], then [16, C]
  S* logits;        // [16, C], in the same place before and after

  __device__ __forceinline__ PairTile(const LabelBatch<S>& batch, const NarrowLayout& layout,
                                      unsigned char* shared)
      : batch(batch),
        layout(layout),
        shared(shared),
        slot(lane_id() % kPairSamples),
        begin(lane_id() / kPairSamples * V) {
    unsigned char* const tile = shared + layout.tiles + warp_id() * layout.tile_bytes;
    rows = reinterpret_cast<float*>(tile);
    logits = reinterpret_cast<S*>(tile);
  }

  // The warp's rows, the parts and the slack, by all threads of the block: all that is read, at
  // once. Returns the label of `sample`; z receives this lane's logits.
  __device__ __forceinline__ int stage(const NarrowRange<kPairSamples>& range, int sample,
                                       unsigned char* to, float (&z)[V]) const {
    const int classes = batch.classes, parts = batch.parts;
    TileInFlight<S, 2> rows_of_z;
    TileInFlight<float, V == 5 ? 4 : 1> h;  // of up to 32 or 16 parts; the rest follows
    rows_of_z.load(batch.logits, range, classes);
    if (batch.weights.data) h.load(batch.weights, range, parts);
    const int64_t y = range.count > 0 ? label_at(batch.labels, range.first + sample) : 0;
    stage_parts(batch, layout, 2 * V > classes, reinterpret_cast<float*>(to));
    if constexpr (kSlack) stage_slack(batch, reinterpret_cast<float*>(to + layout.slack));
    rows_of_z.store(batch.logits, range, classes, logits);
    __syncwarp();
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const bool inside = begin + v < classes && range.count > 0;
      z[v] = inside ? load<float>(logits + sample * classes + begin + v) : -infinity<float>();
    }
    __syncwarp();  // logits make room for weights
    if (batch.weights.data) {
      h.store(batch.weights, range, parts, rows);
    } else if (lane_id() < range.count) {
      rows[lane_id()] = 1.0f;
    }
    __syncthreads();
    return class_of(batch, y);
  }

  // m = this lane's classes of column k of T(x) + slack.
  __device__ __forceinline__ void combine(int sample, int k, float (&m)[V]) const {
    const float* part = reinterpret_cast<const float*>(shared) + k * layout.column_pitch + begin;
    const float* slack = reinterpret_cast<const float*>(shared + layout.slack) + begin;
    const float* h = rows + sample * batch.parts;
#pragma unroll
    for (int v = 0; v < V; ++v) m[v] = kSlack ? slack[k * kNarrowSlackPitch + v] : 0.0f;
    const auto add = [&](float weight) {
#pragma unroll
      for (int v = 0; v < V; ++v) m[v] += weight * part[v];
      part += layout.row_pitch;
    };
    for_each_weight<V == 5>(h, add);
  }

  // add(h_j) for all parts in turn, loaded two or (kFour) four at a time, where there are as many
  // registers.
  template <bool kFour, class Add>
  __device__ __forceinline__ void for_each_weight(const float* h, const Add& add) const {
    if (kFour && batch.parts % 4 == 0) {
#pragma unroll 1
      for (int j = 0; j < batch.parts; j += 4) {
        const float4 four = *reinterpret_cast<const float4*>(h + j);
        add(four.x);
        add(four.y);
        add(four.z);
        add(four.w);
      }
    } else if (batch.parts % 2 == 0) {
#pragma unroll 1
      for (int j = 0; j < batch.parts; j += 2) {
        const float2 two = *reinterpret_cast<const float2*>(h + j);
        add(two.x);
        add(two.y);
      }
    } else {
#pragma unroll 1
      for (int j = 0; j < batch.parts; ++j) add(h[j]);
    }
  }

  // r_i = sum_k max(m_ik, 0) of this lane's classes. Where there are registers for it, a lane has
  // half the columns instead of half the classes: all samples of the half need the same of the
  // parts, and one load brings two entries.
  __device__ __forceinline__ void row_sums(int sample, float (&sums)[V]) const {
    if constexpr (V != 5) {
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] = 0.0f;
#pragma unroll 1
      for (int k = 0; k < batch.classes; ++k) {
        float m[V];
        combine(sample, k, m);
#pragma unroll
        for (int v = 0; v < V; ++v) sums[v] += clamp_entry(m[v]);
      }
    } else {
      row_sums_by_half(sample, sums);
    }
  }

  __device__ __forceinline__ void row_sums_by_half(int sample, float (&sums)[V]) const {
    const int classes = batch.classes, half = (classes + 1) / 2;
    float all[2 * V];
#pragma unroll
    for (int i = 0; i < 2 * V; ++i) all[i] = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < half; ++turn) {
      const int k = begin ? turn + half : turn;
      float m[2 * V];
      combine_all(sample, k < classes ? k : turn, m);
#pragma unroll
      for (int i = 0; i < 2 * V; ++i) all[i] += k < classes ? clamp_entry(m[i]) : 0.0f;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float given = begin ? all[v] : all[v + V];  // the classes of the other lane
      sums[v] = (begin ? all[v + V] : all[v]) + __shfl_xor_sync(0xffffffffu, given, kPairSamples);
    }
  }

  // m = all classes of column k of T(x) + slack. Pitches are even.
  __device__ __forceinline__ void combine_all(int sample, int k, float (&m)[2 * V]) const {
    const float* part = reinterpret_cast<const float*>(shared) + k * layout.column_pitch;
    const float* slack = reinterpret_cast<const float*>(shared + layout.slack);
    const float* h = rows + sample * batch.parts;
#pragma unroll
    for (int i = 0; i < 2 * V; ++i) m[i] = slack[k * kNarrowSlackPitch + i];
    const auto add = [&](float weight) {
#pragma unroll
      for (int i = 0; i < 2 * V; i += 2) {
        const float2 two = *reinterpret_cast<const float2*>(part + i);
        m[i] += weight * two.x;
        m[i + 1] += weight * two.y;
      }
      part += layout.row_pitch;
    };
    for_each_weight<V == 5>(h, add);
  }

  // The row sum of this lane's class v that the forward pass kept.
  __device__ __forceinline__ float kept_sum(int64_t n, int v) const {
    const bool inside = begin + v < batch.classes;
    return inside ? batch.row_sums[n * batch.classes + begin + v] : 1.0f;
  }

  // This lane's logits z and column k; sum_of(v) is the row sum of its class v. A sample beyond the
  // last stands in for another, so that all lanes go the same way.
  template <class SumOf>
  __device__ __forceinline__ Share<float, V> share(int sample, int k, const float (&z)[V],
                                                   const SumOf& sum_of) const {
    const int classes = batch.classes;
    Share<float, V> share;
    share.first = begin;
    share.step = 1;
    combine(sample, k, share.column);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int i = begin + v;
      float& entry = share.column[v];
      share.z[v] = z[v];
      if (kSlack) entry = normalised_entry(clamp_entry(entry), sum_of(v), 1.0f / float(classes));
      if (i >= classes) entry = 0.0f;
    }
    return share;
  }
};

}  // namespace ptd
