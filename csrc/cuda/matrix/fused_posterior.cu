// noisy_posterior for few classes: out_k = sum_i g_i T_ik(x). With slack T is clamped, normalised.
//
// A group of kFusedPosteriorClasses lanes has kPosteriorSamples samples; a lane has class k, and
// softmax entry g_k, of each. Rows i of T(x) are computed one after another from the parts, all of
// which a block stages in shared memory. In the backward pass, with G = dL/dout:
//
//   d_i = sum_k T_ik G_k,   dz_i = g_i (d_i - <g, d>),   entry_i = g_i / r_i,   row_i = entry_i d_i
//
// N (2 C + R) numbers must move, with slack N C row sums more; backward N (3 C + R), and the
// factors entry and row where they are requested.
#include "common/reductions.cuh"
#include "common/scalars.cuh"
#include "math/revision.h"
#include "matrix/posterior_launchers.h"

namespace ptd {

constexpr int kFusedLanes = kFusedPosteriorClasses;
constexpr int kFusedGroups = kFusedPosteriorThreads / kFusedLanes;
constexpr int kFusedSamples = kFusedGroups * kPosteriorSamples;  // of a block

// A tile of kPosteriorSamples samples: an entry of T(x) + slack is computed for all of them, so
// that an entry of the parts is loaded once for the tile, and their weights are one vector load.
template <class T>
struct alignas(16) SampleTile {
  T of[kPosteriorSamples];
};

// Stages the weights of samples from `first` on in shared memory, as tiles. Samples beyond the last
// have weight zero. The caller synchronises.
template <class T>
__device__ __forceinline__ void stage_weights(const Transition<T>& transition, int64_t first,
                                              int count,            // a multiple of a tile's
                                              SampleTile<T>* to) {  // shared, [tiles, R]
  const int parts = transition.parts;
  for (int e = threadIdx.x; e < count * parts; e += blockDim.x) {
    const int s = e / parts, j = e % parts;
    const bool inside = first + s < transition.samples;
    to[s / kPosteriorSamples * parts + j].of[s % kPosteriorSamples] =
        inside ? transition.weight(first + s, j) : T(0);
  }
}

template <class T>
__device__ __forceinline__ SampleTile<T> filled_tile(T value) {
  SampleTile<T> tile;
#pragma unroll
  for (int s = 0; s < kPosteriorSamples; ++s) tile.of[s] = value;
  return tile;
}

// m += sum_j h_j part_j, where the parts of an entry are `stride` apart.
template <class T>
__device__ __forceinline__ void add_parts(const SampleTile<T>* weights,  // [R]
                                          const T* part, int64_t stride, int parts,
                                          SampleTile<T>& m) {
#pragma unroll 4
  for (int j = 0; j < parts; ++j) {
    const T entry = part[j * stride];
    const SampleTile<T> h = weights[j];
#pragma unroll
    for (int s = 0; s < kPosteriorSamples; ++s) m.of[s] += h.of[s] * entry;
  }
}

// A group's samples.
template <class S>
struct FusedSamples {
  using T = Accumulation<S>;

  const Transition<T>& transition;
  const T* parts;                // shared, [R, C, C]
  const SampleTile<T>* weights;  // shared, [R]
  int64_t first;
  int k;            // the class of this lane
  bool is_class;    // k < C
  SampleTile<T> g;  // softmax entry k of each sample

  __device__ __forceinline__ FusedSamples(const Transition<T>& transition,
                                          const Rows<const S>& logits, T* shared)
      : transition(transition) {
    const int classes = transition.classes, count = transition.parts;
    auto* const tiles = reinterpret_cast<SampleTile<T>*>(shared);  // [groups, R]
    T* const staged = shared + kFusedSamples * count;
    const int64_t block_first = int64_t(blockIdx.x) * kFusedSamples;
    stage_weights(transition, block_first, kFusedSamples, tiles);
    for (int e = threadIdx.x; e < classes * count * classes; e += kFusedPosteriorThreads) {
      const int column = e / (count * classes), rest = e % (count * classes);
      staged[rest * classes + column] = transition.columns[e];
    }
    __syncthreads();
    const int group = static_cast<int>(threadIdx.x) / kFusedLanes;
    parts = staged;
    weights = tiles + group * count;
    first = block_first + group * kPosteriorSamples;
    k = static_cast<int>(threadIdx.x) % kFusedLanes;
    is_class = k < classes;
#pragma unroll
    for (int s = 0; s < kPosteriorSamples; ++s) {
      const T z = has(s) ? load_at<T>(logits, first + s, k) : -infinity<T>();
      const T shift = lanes_max<kFusedLanes>(z);
      const T e = is_class ? exp_of(z - shift) : T(0);
      g.of[s] = e / lanes_sum<kFusedLanes>(e);
    }
  }

  __device__ __forceinline__ bool has(int s) const {
    return is_class && first + s < transition.samples;
  }
  __device__ __forceinline__ int64_t at(int s) const {
    return (first + s) * transition.classes + k;
  }

  // Entry (i, k) of T(x). With slack it is clamped and normalised by the row sum; without slack the
  // returned row_sum is 1.
  __device__ __forceinline__ SampleTile<T> row(int i, SampleTile<T>& row_sum) const {
    const int classes = transition.classes;
    SampleTile<T> m = filled_tile(is_class ? transition.slack_at(i, k) : T(0));
    const int entry = i * classes + (is_class ? k : 0);
    add_parts(weights, parts + entry, int64_t(classes) * classes, transition.parts, m);
    row_sum = filled_tile(T(1));
    if (!transition.slack.data) return m;
#pragma unroll
    for (int s = 0; s < kPosteriorSamples; ++s) {
      m.of[s] = is_class ? clamp_entry(m.of[s]) : T(0);
      row_sum.of[s] = lanes_sum<kFusedLanes>(m.of[s]);
      m.of[s] = normalised_entry(m.of[s], row_sum.of[s], T(1) / T(classes));
    }
    return m;
  }
};

template <class S>
__global__ void __launch_bounds__(kFusedPosteriorThreads, 4)
    fused_posterior(Rows<const S> logits, Transition<Accumulation<S>> transition,
                    Accumulation<S>* __restrict__ posterior,   // [N, C]
                    Accumulation<S>* __restrict__ row_sums) {  // [N, C], with slack
  using T = Accumulation<S>;
  PTD_DYNAMIC_SHARED(T, shared);
  const FusedSamples<S> samples(transition, logits, shared);
  SampleTile<T> out = filled_tile(T(0));
  for (int i = 0; i < transition.classes; ++i) {
    SampleTile<T> row_sum;
    const SampleTile<T> row = samples.row(i, row_sum);
#pragma unroll
    for (int s = 0; s < kPosteriorSamples; ++s) {
      const T g_i = __shfl_sync(lanes_mask<kFusedLanes>(), samples.g.of[s], i, kFusedLanes);
      out.of[s] += g_i * row.of[s];
      if (i == samples.k && samples.has(s) && transition.slack.data) {
        row_sums[samples.at(s)] = row_sum.of[s];
      }
    }
  }
#pragma unroll
  for (int s = 0; s < kPosteriorSamples; ++s) {
    if (samples.has(s)) posterior[samples.at(s)] = out.of[s];
  }
}

template <class S>
__global__ void __launch_bounds__(kFusedPosteriorThreads, 4)
    fused_posterior_backward(Rows<const S> logits, Transition<Accumulation<S>> transition,
                             PosteriorGradients<S> grads) {
  using T = Accumulation<S>;
  PTD_DYNAMIC_SHARED(T, shared);
  const FusedSamples<S> samples(transition, logits, shared);
  SampleTile<T> grad, d, inverse;
#pragma unroll
  for (int s = 0; s < kPosteriorSamples; ++s) {
    grad.of[s] = samples.has(s) ? grads.grad[samples.at(s)] : T(0);
    d.of[s] = inverse.of[s] = T(0);
  }
  for (int i = 0; i < transition.classes; ++i) {
    SampleTile<T> row_sum;
    const SampleTile<T> row = samples.row(i, row_sum);
#pragma unroll
    for (int s = 0; s < kPosteriorSamples; ++s) {
      const T product = samples.is_class ? row.of[s] * grad.of[s] : T(0);
      const T sum = lanes_sum<kFusedLanes>(product);
      if (i == samples.k) {
        d.of[s] = sum;
        inverse.of[s] = inverse_row_sum(row_sum.of[s]);
      }
    }
  }
#pragma unroll
  for (int s = 0; s < kPosteriorSamples; ++s) {
    const T g = samples.g.of[s], mean = lanes_sum<kFusedLanes>(g * d.of[s]);
    if (!samples.has(s)) continue;
    const int64_t at = samples.at(s);
    if (grads.logits) store(grads.logits + at, g * (d.of[s] - mean));
    if (!grads.matrix.entry) continue;
    grads.matrix.entry[at] = g * inverse.of[s];
    if (transition.slack.data) grads.matrix.row[at] = g * inverse.of[s] * d.of[s];
  }
}

#ifndef __CUDACC_RTC__

FusedPosteriorPlan::FusedPosteriorPlan(int64_t samples, int64_t classes, int64_t parts)
    : blocks(blocks_for(samples, kFusedSamples)),
      shared(size_t(parts * (classes * classes + kFusedSamples)) * sizeof(float)) {
  fits =
      classes <= kFusedPosteriorClasses && shared <= shared_memory_budget(kFusedPosteriorThreads);
}

template <class S>
cudaError_t launch_fused_posterior(const FusedPosteriorPlan& plan, const Rows<const S>& logits,
                                   const Transition<Accumulation<S>>& transition,
                                   Accumulation<S>* posterior, Accumulation<S>* row_sums,
                                   cudaStream_t stream) {
  PTD_LAUNCH(fused_posterior<S>, plan.blocks, kFusedPosteriorThreads, plan.shared, stream, logits,
             transition, posterior, row_sums);
  return cudaGetLastError();
}

template <class S>
cudaError_t launch_fused_posterior_backward(const FusedPosteriorPlan& plan,
                                            const Rows<const S>& logits,
                                            const Transition<Accumulation<S>>& transition,
                                            const PosteriorGradients<S>& grads,
                                            cudaStream_t stream) {
  PTD_LAUNCH(fused_posterior_backward<S>, plan.blocks, kFusedPosteriorThreads, plan.shared, stream,
             logits, transition, grads);
  return cudaGetLastError();
}

#define PTD_INSTANTIATE(S)                                                                 \
  template cudaError_t launch_fused_posterior<S>(                                          \
      const FusedPosteriorPlan&, const Rows<const S>&, const Transition<Accumulation<S>>&, \
      Accumulation<S>*, Accumulation<S>*, cudaStream_t);                                   \
  template cudaError_t launch_fused_posterior_backward<S>(                                 \
      const FusedPosteriorPlan&, const Rows<const S>&, const Transition<Accumulation<S>>&, \
      const PosteriorGradients<S>&, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(Half)
PTD_INSTANTIATE(BFloat16)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
