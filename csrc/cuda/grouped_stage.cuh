// Columns of the parts and samples' weights, on their way to a grouped block's shared memory.
#pragma once

#include "grouped_block.cuh"
#include "sample_lanes.cuh"

namespace ptd {

constexpr int kColumnWarps = kFirstFinder;

// The block's columns on their way to shared memory: parts from `part` on of all its labels, each a
// row, which the warps that find no labels take in turn.
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
#pragma unroll
    for (int a = 0; a < kHeld; ++a) held[a] = load(block, warp_id() + a * kColumnWarps);
  }
  __device__ __forceinline__ void store(const Block& block) const {
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

}  // namespace ptd
