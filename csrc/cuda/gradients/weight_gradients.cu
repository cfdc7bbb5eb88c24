// The gradient of the weights: dL/dh_j = <P^j, dL/dM>.
//
// A warp per sample, kGradientParts parts at a time. Without slack its lanes run along column y:
// N (C + R + 2) numbers must move, and the column comes from L2 for each sample. With slack they
// run over all entries (i, k), evaluating M again for every few parts: N (2 C + 2 R + 2) must move,
// and R C^2 comes from L2 for each sample.
#include "gradients/matrix_gradient.cuh"

namespace ptd {

template <class T, bool kSlack>
__global__ void __launch_bounds__(kGradientThreads, 8)
    weight_gradients(Transition<T> transition, Labels labels, MatrixGradient<T> grad,
                     T* __restrict__ grad_weights) {  // [N, R]
  constexpr int kParts = kGradientParts<T>;
  const int64_t n = int64_t(blockIdx.x) * (kGradientThreads / kWarp) + warp_id();
  if (n >= transition.samples) return;
  const int classes = transition.classes, parts = transition.parts;
  const ColumnFactor<T> factor(grad, labels, n, classes);
  // The columns that have a gradient.
  const int first_column = kSlack ? 0 : factor.label;
  const int end_column = !factor.counts() ? first_column : kSlack ? classes : first_column + 1;
  for (int first_part = 0; first_part < parts; first_part += kParts) {
    T sums[kParts] = {};
    for (int k = first_column; k < end_column; ++k) {
      const T* column = transition.column(k);
      const T factor_k = factor.at(k);
      for (int i = lane_id(); i < classes; i += kWarp) {
        if constexpr (kSlack) {
          T m = transition.slack_at(i, k);
#pragma unroll 4
          for (int j = 0; j < parts; ++j) {
            m += transition.weight(n, j) * column[int64_t(j) * classes + i];
          }
          if (m <= T(0)) continue;
        }
        const T dm = open_gradient<kSlack>(grad, factor_k, n * classes + i);
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          if (first_part + p < parts) sums[p] += column[int64_t(first_part + p) * classes + i] * dm;
        }
      }
    }
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const T sum = lanes_sum<kWarp>(sums[p]);
      if (lane_id() == 0 && first_part + p < parts) grad_weights[n * parts + first_part + p] = sum;
    }
  }
}

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_weight_gradients(const Transition<T>& transition, const Labels& labels,
                                    const MatrixGradient<T>& grad, T* grad_weights,
                                    cudaStream_t stream) {
  const unsigned blocks = blocks_for(transition.samples, kGradientThreads / kWarp);
  if (transition.slack.data) {
    PTD_LAUNCH((weight_gradients<T, true>), blocks, kGradientThreads, 0, stream, transition, labels,
               grad, grad_weights);
  } else {
    PTD_LAUNCH((weight_gradients<T, false>), blocks, kGradientThreads, 0, stream, transition,
               labels, grad, grad_weights);
  }
  return cudaGetLastError();
}

#define PTD_INSTANTIATE(T)                                                             \
  template cudaError_t launch_weight_gradients<T>(const Transition<T>&, const Labels&, \
                                                  const MatrixGradient<T>&, T*, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
