// As grouped.cuh, for the losses of 33 to 128 classes without slack and of up to kStagedParts
// parts, where rows are whole vectors: lanes have every 32nd class of a warp's four samples
// (warp_samples.cuh).
#pragma once

#include "grouped.cuh"
#include "warp_samples.cuh"

namespace ptd {

constexpr int kStridedSamples = 4;  // of a warp at once

template <class S>
using StridedBlock = GroupedBlock<S, 4, kStridedSamples, true>;

// One part: the entries of a lane's classes, but for that which is left over, and the weights of
// all four samples.
template <int A>
struct StridedPart {
  float entries[A];
  Vector<float, 4> weight;

  __device__ __forceinline__ StridedPart(const float* column, const Vector<float, 4>* weights)
      : weight(*weights) {
#pragma unroll
    for (int e = 0; e < A; ++e) entries[e] = read_often(column + kWarp * e);
  }
  __device__ __forceinline__ void add_to(float (&sums)[4][A + 1]) const {
#pragma unroll
    for (int e = 0; e < A; ++e) {
#pragma unroll
      for (int s = 0; s < 4; ++s) sums[s][e] += weight.of[s] * entries[e];
    }
  }
};

// sums += the next `count` parts of a column.
template <int A>
__device__ __forceinline__ void add_strided(int count, int classes, const float*& column,
                                            const Vector<float, 4>*& weights,  // shared
                                            float (&sums)[4][A + 1]) {
#pragma unroll 1
  for (; count >= 2; count -= 2, weights += 2) {
    const StridedPart<A> first(column, weights);
    column += classes;
    const StridedPart<A> second(column, weights + 1);
    column += classes;
    first.add_to(sums);
    second.add_to(sums);
  }
#pragma unroll 1
  for (; count > 0; --count, column += classes) StridedPart<A>(column, weights++).add_to(sums);
}

// visit(sample, left, samples) for all items of a warp; `sample` is the lane's own.
template <int A, class S, class Visit>
__device__ __forceinline__ void for_each_strided(const StridedBlock<S>& block, const Visit& visit) {
  constexpr int K = 4;
  const auto& batch = block.batch;
  const int classes = batch.classes, parts = batch.parts;
  list_samples(block);
  ListedSample<K> sample(block.list(), warp_id());
  if (!sample.exists()) return;
#pragma unroll 1
  while (true) {
    bring_weights(block, sample, 0, parts);
    sample.bits = opaque(sample.bits);  // the rest is worked out again: registers are scarce
    prefetch_row<K>(block.logits_of(sample.position()), classes);
    // Worked out again where it is needed.
    const auto left_over = [&] {
      return LeftOver(classes - kWarp * A, block.layout.left_inverse, opaque(lane_id()));
    };
    WarpSamples<A> samples;
#pragma unroll
    for (int s = 0; s < K; ++s) {
#pragma unroll
      for (int e = 0; e <= A; ++e) samples.column[s][e] = 0.0f;
    }
    const float* column = block.parts_of(sample) + opaque(lane_id());
    const Vector<float, 4>* weights = block.weights();
    add_strided<A>(parts, classes, column, weights, samples.column);
    // Logits now: what is asked for is answered in order, and the products wait for columns alone.
    {
      const LeftOver left = left_over();
      const int lane = opaque(lane_id());
#pragma unroll
      for (int s = 0; s < K; ++s) {
        const int position = __shfl_sync(0xffffffffu, sample.position(), s * (kWarp / K));
        const S* const row = opaque(block.logits_of(position));
#pragma unroll
        for (int e = 0; e < A; ++e) samples.z[s][e] = load_once<float>(row + lane + kWarp * e);
        // Lanes without a class of their own have another's.
        samples.z[s][A] = load_once<float>(row + kWarp * A + left.index());
      }
    }
    // The left-over class, of every so many parts; what is added is past the last of them.
    const LeftOver left = left_over();
    if (left.has()) {
      column += (left.turn - parts) * classes + kWarp * A + left.index() - opaque(lane_id());
      weights += left.turn - parts;
#pragma unroll 1
      for (int j = left.turn; j < parts; j += left.turns) {
        const float entry = read_often(column);
        const Vector<float, 4> weight = *weights;
        column += left.turns * classes;
        weights += left.turns;
#pragma unroll
        for (int s = 0; s < K; ++s) samples.column[s][A] += weight.of[s] * entry;
      }
    }
    __syncwarp();
    visit(sample, left_over(), samples);
    if (!sample.has_next()) return;
    sample = ListedSample<K>(block.list(), sample.next());
  }
}

}  // namespace ptd
