// What the warps of the kernels for up to sixteen classes have, and how it gets to shared memory
// and back (noisy_posterior_lanes.cuh).
#pragma once

#include "noisy_posterior_stage.cuh"

namespace ptd {

constexpr int kLanesMostWarps = 16;

// The dynamic shared memory of a block, set out by the launcher, in bytes: the parts, and for each
// warp weights [samples, pitch] and rows [samples, C].
struct LanesLayout {
  int half;             // of the rows of T(x), rounded up
  int pairs;            // of parts, rounded up to an even number,
  int share;            // and how many of them a thread stages
  int weights, rows;    // where those of the first warp begin
  int of_warp;          // from a warp to the next
  int pitch;            // numbers: an odd multiple of four, so that samples differ in banks
  int of_sample;        // weights of a sample
  int weights_apart;    // from those of a lane's first sample to those of its second,
  int rows_apart;       // and the same of rows
  int inverse_quarter;  // 65536 / (R / 4), rounded up
  int whole, rest;      // warps of samples in the batch, and the samples left over
  int bytes;            // of all
};

template <int Q, int K>
struct LanesMemory {
  static constexpr int kColumns = Q * K, kSquare = kColumns * kColumns, kRecord = 4 * kColumns;
  static constexpr int kGroups = kWarp / (2 * Q), kSamples = 2 * kGroups;

  const TiledBatch& batch;
  const LanesLayout& layout;
  float* shared;

  // What follows from thread and block is worked out anew each time: kept in registers it would
  // take the room that sums need.
  __device__ __forceinline__ int tile() const {
    return block_number() * batch.tiles + warp_number();
  }
  __device__ __forceinline__ int count() const {  // of samples
    const int at = warp_number() < batch.tiles ? tile() : layout.whole + 1;
    return at < layout.whole ? kSamples : at == layout.whole ? layout.rest : 0;
  }
  // Where the numbers of this warp begin, in an array that has so many of each sample.
  __device__ __forceinline__ int64_t first(int of_sample) const {
    return int64_t(tile()) * (kSamples * of_sample);
  }
  // Shared memory of this warp: weights [kSamples, pitch] and rows [kSamples, C]. Offsets of 32
  // bits, in bytes, are what loads take as they are.
  __device__ __forceinline__ int weights() const {
    return layout.weights + warp_number() * layout.of_warp;
  }
  __device__ __forceinline__ int rows() const {
    return layout.rows + warp_number() * layout.of_warp;
  }
  template <class V = float>
  __device__ __forceinline__ V& at(int bytes) const {
    return *reinterpret_cast<V*>(reinterpret_cast<char*>(shared) + bytes);
  }

  // Lanes of a group have the same samples: neighbours among them, and lanes two apart the same
  // entries, so that two registers of a load arrive at once.
  static __device__ __forceinline__ int group() { return lane_number() / 2 % kGroups; }
  static __device__ __forceinline__ int of_group() {
    return lane_number() / (2 * kGroups) * 2 + lane_number() % 2;
  }
  static __device__ __forceinline__ int upper() { return lane_number() / (kWarp / 2); }
  // Four columns that are neighbours, and one of the rest.
  static __device__ __forceinline__ int column(int v) {
    const int at = of_group() % Q;
    return v < 4 ? 4 * at + v : 4 * Q + at;
  }
  // The sample that this lane goes on with.
  static __device__ __forceinline__ int own() { return group() + upper() * kGroups; }

  // Rows of an [N, C] of this warp's samples between memories, in whole vectors where pointers
  // allow it.
  struct Rows {
    Four<float> of[2];  // enough for all
  };
  // visit(u, place) for the four numbers of this lane, counted from the first of the warp.
  template <class Visit>
  __device__ __forceinline__ void each_four(const Visit& visit) const {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int at = kTile * (lane_number() + u * kWarp);
      if (at < kSamples * batch.classes) visit(u, at);
    }
  }
  template <class S>
  __device__ __forceinline__ Rows load_rows(const S* from) const {
    Rows held = {};
    const int size = count() * batch.classes;
    from += first(batch.classes);
    each_four([&](int u, int at) {
      if (batch.aligned && at + kTile <= size) {
        held.of[u] = load_four(from + at);
        return;
      }
#pragma unroll
      for (int v = 0; v < kTile; ++v) {
        if (at + v < size) held.of[u].of[v] = load<float>(from + at + v);
      }
    });
    return held;
  }
  __device__ __forceinline__ void put_rows(const Rows& held) const {
    const int to = rows();
    each_four([&](int u, int n) { at<Four<float>>(to + 4 * n) = held.of[u]; });
  }
  template <class S>
  __device__ __forceinline__ void write_rows(S* to) const {
    const int size = count() * batch.classes, from = rows();
    to += first(batch.classes);
    each_four([&](int, int n) {
      const Four<float> four = at<Four<float>>(from + 4 * n);
      if (batch.aligned && n + kTile <= size) return store_four(to + n, four);
#pragma unroll
      for (int v = 0; v < kTile; ++v) {
        if (n + v < size) store(to + n + v, four.of[v]);
      }
    });
  }

  // This lane's columns of its sample, from `rows` and back. visit(v, place).
  template <class Visit>
  __device__ __forceinline__ void each_own(const Visit& visit) const {
    const int row = rows() + 4 * own() * batch.classes;
    const int from = row + 4 * column(0), left = batch.classes - column(0);
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      if (v < left) visit(v, at(from + 4 * v));
    }
    if (K == 5 && column(4) < batch.classes) visit(4, at(row + 4 * column(4)));
  }
  __device__ __forceinline__ void get_own(float (&value)[K], float beyond) const {
#pragma unroll
    for (int v = 0; v < K; ++v) value[v] = beyond;
    each_own([&](int v, float& own) { value[v] = own; });
  }
  __device__ __forceinline__ void put_own(const float (&value)[K]) const {
    each_own([&](int v, float& own) { own = value[v]; });
  }
  // The same between global memory and registers: all rows pass through shared memory.
  template <class S>
  __device__ __forceinline__ void fetch(const S* from, float (&value)[K], float beyond) const {
    const Rows held = load_rows(from);
    __syncwarp();
    put_rows(held);
    __syncwarp();
    get_own(value, beyond);
  }
  template <class S>
  __device__ __forceinline__ void write(const float (&value)[K], S* to) const {
    __syncwarp();
    put_own(value);
    __syncwarp();
    write_rows(to);
  }

  // Weights of this warp's samples; zero beyond the last sample and the last part. Whole vectors
  // are loaded before the parts, as far as there is room, and put where they belong after them.
  struct Weights {
    static constexpr int kAtOnce = 3;  // enough for twenty parts
    Four<float> of[kAtOnce];
  };
  __device__ __forceinline__ Weights load_weights(int from = 0) const {
    Weights held = {};
    if (!batch.whole_weights) return held;
    const int size = count() * batch.parts;
    const float* const weights = batch.weights + first(batch.parts);
#pragma unroll
    for (int u = 0; u < Weights::kAtOnce; ++u) {
      const int at = from + kTile * (lane_number() + u * kWarp);
      if (at < size) held.of[u] = load_four(weights + at);
    }
    return held;
  }
  __device__ __forceinline__ void put_weights(Weights held) const {
    constexpr int kStep = Weights::kAtOnce * kTile * kWarp;
    const int parts = batch.parts, to = weights();
    if (batch.whole_weights) {
#pragma unroll 1
      for (int from = 0;;) {
#pragma unroll
        for (int u = 0; u < Weights::kAtOnce; ++u) {
          const int t = from / kTile + lane_number() + u * kWarp;
          const int n = t * layout.inverse_quarter >> 16, gap = layout.pitch - parts;
          if (n < kSamples) at<Four<float>>(to + 4 * gap * n + 16 * t) = held.of[u];
        }
        if ((from += kStep) >= kSamples * parts) return;
        held = load_weights(from);
      }
    }
    const float* const from = batch.weights ? batch.weights + first(parts) : nullptr;
    const int samples = count();
#pragma unroll 1
    for (int t = lane_number(); t < kSamples * layout.pitch; t += kWarp) {
      const int n = t / layout.pitch, j = t - n * layout.pitch;
      float weight = 0.0f;
      if (j < parts && n < samples) weight = from ? from[n * parts + j] : 1.0f;
      at(to + 4 * t) = weight;
    }
  }

  // The slack and the parts, by the whole block. Threads have an entry of T each, of some of the
  // parts; where kAcross, rows take the place of columns.
  template <bool kAcross>
  __device__ __forceinline__ void stage_slack() const {
    if (!batch.matrix.slacks) return;
    for (int e = static_cast<int>(thread_number()); e < kSquare;
         e += static_cast<int>(blockDim.x)) {
      const int i = e / kColumns, k = e % kColumns, a = kAcross ? k : i, c = kAcross ? i : k;
      if (a >= 2 * layout.half) continue;
      const bool inside = i < batch.classes && k < batch.classes;
      const float slack = inside ? batch.matrix.slack[i * batch.classes + k] : 0.0f;
      at<float2>(place(a, c)) = make_float2(slack, slack);
    }
  }
  // Slack comes first in a kernel: a load of it that follows those of samples waits for them.
  template <bool kAcross>
  __device__ __forceinline__ void stage_parts() const {
    if (batch.classes == kColumns) return stage_parts<kAcross, true>();
    stage_parts<kAcross, false>();
  }
  template <bool kAcross, bool kWhole>
  __device__ __forceinline__ void stage_parts() const {
    constexpr int kAtOnce = 5;
    const int classes = kWhole ? kColumns : batch.classes, square = classes * classes;
    const int turn = static_cast<int>(thread_number() / kSquare);
    const int begin = turn * layout.share, slacks = batch.matrix.slacks;
    int pairs = layout.pairs - begin;
    if (pairs > layout.share) pairs = layout.share;
    if (pairs <= 0) return;
    for (int e = static_cast<int>(thread_number() % kSquare); e < kSquare;
         e += static_cast<int>(blockDim.x)) {
      const int i = static_cast<unsigned>(e) / kColumns, k = static_cast<unsigned>(e) % kColumns;
      const int a = kAcross ? k : i, c = kAcross ? i : k;
      if (!kWhole && a >= 2 * layout.half) continue;
      const bool inside = kWhole || (i < classes && k < classes);
      const int entry = i * classes + k;
      const float* from = batch.matrix.parts + (entry + 2 * begin * square);
      int parts = inside ? batch.parts - 2 * begin : 0;
      int to = place(a, c) + (slacks + begin) * 4 * kRecord;
#pragma unroll 1
      for (int left = pairs; left > 0; left -= kAtOnce) {
        float2 held[kAtOnce];
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          held[u].x = 2 * u < parts ? from[2 * u * square] : 0.0f;
          held[u].y = 2 * u + 1 < parts ? from[(2 * u + 1) * square] : 0.0f;
        }
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          if (u < left) at<float2>(to + u * 4 * kRecord) = held[u];
        }
        from += 2 * kAtOnce * square;
        parts -= 2 * kAtOnce;
        to += kAtOnce * 4 * kRecord;
      }
    }
  }
  // Where entry (a, c) of the first record is.
  __device__ __forceinline__ int place(int a, int c) const {
    const int upper = a >= layout.half;
    const int lane = upper * Q + (c < 4 * Q ? c / 4 : c - 4 * Q);
    const int records = batch.matrix.slacks + layout.pairs;
    return 4 * kRecord * records * (a - upper * layout.half) +
           4 * (c < 4 * Q ? c % 4 / 2 * (8 * Q) + 4 * lane + c % 2 * 2 : 16 * Q + 2 * lane);
  }
};

}  // namespace ptd
