// The samples of a chunk that have a given label, by all threads of a block.
#pragma once

#include "label_batch.cuh"
#include "reduce.cuh"

namespace ptd {

// In lane t, bit l says whether class k takes the label at begin + 32 t + l, for t < kSteps. Class
// 0 also takes labels that are no class.
template <int kSteps, class Label, class Unsigned>
__device__ __forceinline__ unsigned find_label(const Label* labels, int64_t stride, int begin,
                                               int end, int classes, int k) {
  const Label* from = labels + (begin + lane_id()) * stride;
  const int left = end - begin - lane_id();
  Label label[kSteps] = {};  // all are under way at once
  if (stride == 1) {
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      if (kWarp * t < left) label[t] = from[kWarp * t];
    }
  } else {
#pragma unroll
    for (int t = 0; t < kSteps; ++t, from += kWarp * stride) {
      if (kWarp * t < left) label[t] = *from;
    }
  }
  if (k == 0) {
#pragma unroll
    for (int t = 0; t < kSteps; ++t) {
      if (static_cast<Unsigned>(label[t]) >= static_cast<Unsigned>(classes)) label[t] = 0;
    }
  }
  unsigned found = 0;
#pragma unroll
  for (int t = 0; t < kSteps; ++t) {
    const unsigned having = __ballot_sync(0xffffffffu, label[t] == Label(k));
    if (lane_id() == t) found = having;
  }
  // Of the labels that lane t was given the bits of, those that there are.
  const int there = end - begin - kWarp * lane_id();
  return there >= kWarp ? found : there > 0 ? found & ((1u << there) - 1u) : 0u;
}

// Of the samples from `first` on, those at begin to end.
template <int kSteps, class S>
__device__ __forceinline__ unsigned find_label(const LabelBatch<S>& batch, int64_t first, int begin,
                                               int end, int k) {
  const int64_t left = batch.samples - first;
  if (left < end) end = static_cast<int>(left);
  const LabelView& labels = batch.labels;
  const int64_t at = first * labels.stride;
  return labels.is_int64
             ? find_label<kSteps, int64_t, uint64_t>(static_cast<const int64_t*>(labels.data) + at,
                                                     labels.stride, begin, end, batch.classes, k)
             : find_label<kSteps, int32_t, uint32_t>(static_cast<const int32_t*>(labels.data) + at,
                                                     labels.stride, begin, end, batch.classes, k);
}

// Lists the positions that find_label found, in order, and returns how many there are in all. A
// barrier before they are read is left to the caller.
template <int kSteps, int kWarps>
__device__ __forceinline__ int list_found(unsigned found, int begin,
                                          int* counts,       // shared, [kWarps]
                                          uint16_t* list) {  // shared
  const int mine = __popc(found);
  int up_to = mine;
#pragma unroll
  for (int offset = 1; offset < kSteps; offset *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, up_to, offset);
    if (lane_id() >= offset) up_to += before;
  }
  if (lane_id() == kSteps - 1) counts[warp_id()] = up_to;
  __syncthreads();
  int total = 0, at = up_to - mine;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp_id()) at += counts[w];
    total += counts[w];
  }
#pragma unroll 1
  for (unsigned left = found; left; left &= left - 1) {
    list[at++] = static_cast<uint16_t>(begin + kWarp * lane_id() + __ffs(left) - 1);
  }
  return total;
}

}  // namespace ptd
