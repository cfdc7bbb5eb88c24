// As grouped.cuh, for the losses of 33 to 128 classes without slack and of up to kStagedParts
// parts, where rows are whole vectors: classes stay in the lanes where columns are formed
// (warp_samples.cuh).
#pragma once

#include "grouped.cuh"
#include "warp_samples.cuh"

namespace ptd {

template <class S, int E>
using QuartetBlock = GroupedBlock<S, E, kQuartet, true>;

// visit(sample, samples) for all items of a warp; `sample` is the lane's own.
template <class S, int E, class Visit>
__device__ __forceinline__ void for_each_quartet(const QuartetBlock<S, E>& block,
                                                 const Visit& visit) {
  constexpr int K = kQuartet;
  const auto& batch = block.batch;
  const int classes = batch.classes, parts = batch.parts;
  for_each_item(block, [&](ListedSample<K>& sample) {
    bring_weights(block, sample, 0, parts);
    sample.bits = opaque(sample.bits);  // the rest is worked out again: registers are scarce
    prefetch_row<K>(block.logits_of(sample.position()), classes);
    WarpSamples<E> samples;
#pragma unroll
    for (int s = 0; s < K; ++s) {
#pragma unroll
      for (int e = 0; e < E; ++e) samples.column[s][e] = 0.0f;
    }
    ColumnParts<float, E, true> column(block.parts_of(sample), classes, opaque(lane_id()));
    const PartWeights<float, K>* weights = block.weights();
    add_parts<false>(parts, column, weights, samples.column);
    // Logits now: what is asked for is answered in order, and the products wait for columns alone.
    const int first = E * opaque(lane_id());
    samples.has_classes = first < classes;
    const S* const own = opaque(block.logits_of(0) + (samples.has_classes ? first : 0));
    const int own_row =  // in bytes: multiplied once, and then handed round
        sample.position() * static_cast<int>(batch.logits.row_stride) * int(sizeof(S));
#pragma unroll
    for (int s = 0; s < K; ++s) {
      const auto some =
          read_once(reinterpret_cast<const Vector<S, E>*>(bytes_on(own, of_sample(own_row, s))));
#pragma unroll
      for (int e = 0; e < E; ++e) samples.z[s][e] = load<float>(some.of + e);
    }
    // Keeps what follows from being mixed with the conversions, which takes too many registers.
    __syncwarp();
    visit(sample, samples);
  });
}

}  // namespace ptd
