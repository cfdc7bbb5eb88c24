// Up to fourteen classes: samples that are neighbours in memory share a warp, and the parts are in
// shared memory, the same for the whole block.
//
// Rows of logits and weights go to shared memory as runs of 16-byte vectors, so that every byte is
// read once and in whole lines, and results go back the same way. Samples of a warp have different
// labels, so that its lanes read different columns of the parts at once: padding between columns
// puts all of them in different banks (narrow_layout.h).
#pragma once

#include "column.cuh"
#include "narrow_layout.h"
#include "tile.cuh"

namespace ptd {

// The samples of a warp: where they start, and how many there are.
template <int kSamples>
struct NarrowRange {
  unsigned turn;  // of so many samples each
  int64_t first;
  int count;

  __device__ __forceinline__ explicit NarrowRange(int64_t samples)
      : NarrowRange(samples, blockIdx.x * (blockDim.x / kWarp) + warp_id()) {}
  __device__ __forceinline__ NarrowRange(int64_t samples, unsigned turn)
      : turn(turn), first(int64_t(turn) * kSamples) {
    const unsigned whole = static_cast<unsigned>(uint64_t(samples) / kSamples);
    const int rest = static_cast<int>(uint64_t(samples) % kSamples);
    count = turn < whole ? kSamples : turn == whole ? rest : 0;
  }
  // Where their rows of `width` start: one product of 32 bits.
  __device__ __forceinline__ int64_t start(int width) const {
    return static_cast<int64_t>(uint64_t(turn) * static_cast<unsigned>(kSamples * width));
  }
};

// The parts to shared memory, by the whole block. Where the lanes' classes go past the last one,
// they read the padding too, and it must be there.
template <class S>
__device__ __forceinline__ void stage_parts(const LabelBatch<S>& batch, const NarrowLayout& layout,
                                            bool with_padding,
                                            float* to) {  // [padded]
  constexpr int kAtOnce = 4;
  const int classes = batch.classes, count = classes * batch.parts * classes;
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int start = threadIdx.x; start < count; start += kAtOnce * threads) {
    float held[kAtOnce];
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      const int e = start + a * threads;
      held[a] = e < count ? batch.columns[e] : 0.0f;
    }
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      const int e = start + a * threads;
      const int k = static_cast<int>(__umulhi(e, layout.by_column));
      const int row = static_cast<int>(__umulhi(e, layout.by_row));
      if (e < count) to[e + k * layout.column_padding + row * layout.row_padding] = held[a];
    }
  }
  if (!with_padding) return;
#pragma unroll 1
  for (int t = threadIdx.x; t < layout.padded; t += threads) {
    const int k = t / layout.column_pitch, in_column = t % layout.column_pitch;
    const bool a_part = in_column < batch.parts * layout.row_pitch && k < classes;
    if (!a_part || in_column % layout.row_pitch >= classes) to[t] = 0.0f;
  }
}

// The slack likewise, column after column.
template <class S>
__device__ __forceinline__ void stage_slack(const LabelBatch<S>& batch,
                                            float* to) {  // [C, 16]
#pragma unroll 1
  for (int t = threadIdx.x; t < kNarrowSlackPitch * batch.classes; t += blockDim.x) {
    const int i = t % kNarrowSlackPitch;
    to[t] = i < batch.classes ? slack_at(batch, i, t / kNarrowSlackPitch) : 0.0f;
  }
}

}  // namespace ptd
