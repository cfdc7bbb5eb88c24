// noisy_posterior with slack, for more classes than the fused kernel takes: kernels between the
// matrix products (csrc/noisy_posterior.h) and the sums of clamped entries (row_sums/row_sums.cu).
//
//   forward   row sums -> r   softmax_over_rows -> g / r   product, clamped entries -> out
//   backward  product and clamped entries of the gradient -> r d
//             noisy_posterior_gradients -> dz, entry, row
//
// Both kernels have a warp per sample; they move N (3 C + 1) and up to N 6 C numbers.
#include "common/reductions.cuh"
#include "common/scalars.cuh"
#include "math/revision.h"
#include "matrix/posterior_launchers.h"

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
