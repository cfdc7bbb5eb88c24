// noisy_posterior with slack, for more classes than the fused kernel takes: a few launches with
// [N, C] numbers between them.
//
//   forward   row_sums -> r   softmax_over_rows -> g / r   clamped_product -> out
//   backward  clamped_product of the gradient -> r d   noisy_posterior_gradients -> dz, entry, row
//
// softmax_over_rows and noisy_posterior_gradients have a warp per sample; they move N (3 C + 1) and
// up to N 6 C numbers. In clamped_product a thread has one column a of kPosteriorSamples samples; a
// block's warps have the same columns, so that three of four warps hit L1.
// N (2 C + R) numbers must move, R C^2 comes from L2 for every block: N R C^2 multiply-adds.
#include "matrix/posterior_launchers.h"
#include "matrix/sample_tile.cuh"

namespace ptd {

constexpr int kPosteriorWarps = kPosteriorThreads / kWarp;

// Softmax of one sample by a warp: g_i = exp(z_i - shift) / sum.
template <class S>
struct WarpSoftmax {
  using T = Accumulation<S>;
  const Rows<const S>& logits;
  int64_t n;
  T shift, sum;

  __device__ __forceinline__ WarpSoftmax(const Rows<const S>& logits, int64_t n, int classes)
      : logits(logits), n(n) {
    T top = -infinity<T>(), total = T(0);
    for (int i = lane_id(); i < classes; i += kWarp) top = max_of(top, load_at<T>(logits, n, i));
    shift = lanes_max<kWarp>(top);
    for (int i = lane_id(); i < classes; i += kWarp) {
      total += exp_of(load_at<T>(logits, n, i) - shift);
    }
    sum = lanes_sum<kWarp>(total);
  }
  __device__ __forceinline__ T operator[](int i) const {
    return exp_of(load_at<T>(logits, n, i) - shift) / sum;
  }
};

template <class S>
__global__ void __launch_bounds__(kPosteriorThreads)
    softmax_over_rows(Rows<const S> logits,                          // [N, C]
                      const Accumulation<S>* __restrict__ row_sums,  // [N, C]
                      Accumulation<S>* __restrict__ scaled,          // [N, C]
                      Accumulation<S>* __restrict__ uniform,         // [N]
                      int64_t samples, int classes) {
  using T = Accumulation<S>;
  const int64_t n = int64_t(blockIdx.x) * kPosteriorWarps + warp_id();
  if (n >= samples) return;  // a whole warp
  const WarpSoftmax<S> g(logits, n, classes);
  T uniform_mass = T(0);
  for (int i = lane_id(); i < classes; i += kWarp) {
    const T row_sum = row_sums[n * classes + i], g_i = g[i];
    // An empty row is uniform: it adds the same to every column.
    if (is_empty_row(row_sum)) uniform_mass += g_i / T(classes);
    scaled[n * classes + i] = g_i * inverse_row_sum(row_sum);
  }
  uniform_mass = lanes_sum<kWarp>(uniform_mass);
  if (lane_id() == 0) uniform[n] = uniform_mass;
}

template <class T>
__global__ void __launch_bounds__(kPosteriorThreads, 8)
    clamped_product(ClampedProduct<T> product, bool staged) {  // true if h is in shared memory
  constexpr int kSamples = kPosteriorSamples;
  PTD_DYNAMIC_SHARED(SampleTile<T>, shared);  // [warps, R]
  const Transition<T>& transition = product.transition;
  const int64_t samples = transition.samples;
  const int classes = transition.classes, parts = transition.parts;
  const int64_t block_first = int64_t(blockIdx.x) * kPosteriorWarps * kSamples;
  if (staged) stage_weights(transition, block_first, kPosteriorWarps * kSamples, shared);
  __syncthreads();
  const int64_t first = block_first + warp_id() * kSamples;
  const int a = static_cast<int>(blockIdx.y) * kWarp + lane_id();
  if (a >= classes || first >= samples) return;

  SampleTile<T> sum = filled_tile(T(0));
  for (int b = 0; b < classes; ++b) {
    SampleTile<T> m = filled_tile(transition.slack_at(a, b));
    const T* matrix = transition.column(b) + a;
    if (staged) {
      add_parts(shared + warp_id() * parts, matrix, classes, parts, m);
    } else {
      for (int j = 0; j < parts; ++j) {
#pragma unroll
        for (int s = 0; s < kSamples; ++s) {
          if (first + s < samples) {
            m.of[s] += transition.weight(first + s, j) * matrix[int64_t(j) * classes];
          }
        }
      }
    }
#pragma unroll
    for (int s = 0; s < kSamples; ++s) {
      if (first + s >= samples) break;
      sum.of[s] += product.factors[(first + s) * classes + b] * clamp_entry(m.of[s]);
    }
  }
#pragma unroll
  for (int s = 0; s < kSamples; ++s) {
    if (first + s >= samples) break;
    const T start = product.start ? product.start[first + s] : T(0);
    product.out[(first + s) * classes + a] = start + sum.of[s];
  }
}

template <class S>
__global__ void __launch_bounds__(kPosteriorThreads)
    noisy_posterior_gradients(Rows<const S> logits,                          // [N, C]
                              const Accumulation<S>* __restrict__ row_sums,  // [N, C]
                              const Accumulation<S>* __restrict__ row_dots,  // [N, C]
                              PosteriorGradients<S> grads, int64_t samples, int classes) {
  using T = Accumulation<S>;
  const int64_t n = int64_t(blockIdx.x) * kPosteriorWarps + warp_id();
  if (n >= samples) return;  // a whole warp
  const int64_t at = n * classes;
  const WarpSoftmax<S> g(logits, n, classes);
  T uniform_d = T(0), mean = T(0);  // d_i of a uniform row; <g, d>
  for (int k = lane_id(); k < classes; k += kWarp) uniform_d += grads.grad[at + k];
  uniform_d = lanes_sum<kWarp>(uniform_d) / T(classes);
  const auto d = [&](int i) {
    return normalised_entry(row_dots[at + i], row_sums[at + i], uniform_d);
  };
  for (int i = lane_id(); i < classes; i += kWarp) mean += g[i] * d(i);
  mean = lanes_sum<kWarp>(mean);
  for (int i = lane_id(); i < classes; i += kWarp) {
    const T g_i = g[i], d_i = d(i);
    if (grads.logits) store(grads.logits + at + i, g_i * (d_i - mean));
    if (!grads.matrix.entry) continue;
    const T entry = g_i * inverse_row_sum(row_sums[at + i]);
    grads.matrix.entry[at + i] = entry;
    grads.matrix.row[at + i] = entry * d_i;
  }
}

#ifndef __CUDACC_RTC__

template <class S>
cudaError_t launch_softmax_over_rows(const Rows<const S>& logits, const Accumulation<S>* row_sums,
                                     Accumulation<S>* scaled, Accumulation<S>* uniform,
                                     int64_t samples, int64_t classes, cudaStream_t stream) {
  PTD_LAUNCH(softmax_over_rows<S>, blocks_for(samples, kPosteriorWarps), kPosteriorThreads, 0,
             stream, logits, row_sums, scaled, uniform, samples, int(classes));
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_clamped_product(const ClampedProduct<T>& product, cudaStream_t stream) {
  const Transition<T>& transition = product.transition;
  const size_t bytes = size_t(transition.parts) * kPosteriorWarps * sizeof(SampleTile<T>);
  const bool staged = bytes <= shared_memory_budget(kPosteriorThreads);
  const dim3 grid(blocks_for(transition.samples, kPosteriorWarps * kPosteriorSamples),
                  blocks_for(transition.classes, kWarp));
  PTD_LAUNCH(clamped_product<T>, grid, kPosteriorThreads, staged ? bytes : 0, stream, product,
             staged);
  return cudaGetLastError();
}

template <class S>
cudaError_t launch_noisy_posterior_gradients(const Rows<const S>& logits,
                                             const Accumulation<S>* row_sums,
                                             const Accumulation<S>* row_dots,
                                             const PosteriorGradients<S>& grads, int64_t samples,
                                             int64_t classes, cudaStream_t stream) {
  PTD_LAUNCH(noisy_posterior_gradients<S>, blocks_for(samples, kPosteriorWarps), kPosteriorThreads,
             0, stream, logits, row_sums, row_dots, grads, samples, int(classes));
  return cudaGetLastError();
}

template cudaError_t launch_clamped_product<float>(const ClampedProduct<float>&, cudaStream_t);
template cudaError_t launch_clamped_product<double>(const ClampedProduct<double>&, cudaStream_t);
#define PTD_INSTANTIATE(S)                                                                       \
  template cudaError_t launch_softmax_over_rows<S>(const Rows<const S>&, const Accumulation<S>*, \
                                                   Accumulation<S>*, Accumulation<S>*, int64_t,  \
                                                   int64_t, cudaStream_t);                       \
  template cudaError_t launch_noisy_posterior_gradients<S>(                                      \
      const Rows<const S>&, const Accumulation<S>*, const Accumulation<S>*,                      \
      const PosteriorGradients<S>&, int64_t, int64_t, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
PTD_INSTANTIATE(Half)
PTD_INSTANTIATE(BFloat16)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
