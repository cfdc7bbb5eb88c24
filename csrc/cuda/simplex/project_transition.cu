// project_transition: rows clamped at zero and divided by their sum, and their gradient.
//
//   B = max(M, 0)     r = sum_k B_k     T_k = B_k / r     (uniform for an empty row)
//   dM_k = [M_k > 0] (G_k - sum_l G_l T_l) / r
//
// A short row (C <= 32) has eight lanes of a warp, a long one a block: row_operator.cuh.
// Bytes that must move: 2 rows C sizeof(T) forward, 3 rows C sizeof(T) backward.
#include "math/revision.h"
#include "simplex/row_operator.cuh"
#include "simplex/simplex_launchers.h"

namespace ptd {

struct ProjectTransition {
  template <class T, int kLanes>
  static __device__ __forceinline__ void of_row(RowThreads<T, kLanes>& threads,
                                                const Row<T, kLanes>& m,
                                                T* __restrict__ out,  // [C]
                                                int classes) {
    T sum[1] = {T(0)};
    for_each_entry<kLanes>(classes, [&](Entry at) { sum[0] += clamp_entry(m[at]); });
    threads.sum(sum);
    const T uniform = T(1) / T(classes);
    for_each_entry<kLanes>(classes, [&](Entry at) {
      out[at.column] = normalised_entry(clamp_entry(m[at]), sum[0], uniform);
    });
  }

  template <class T, int kLanes>
  static __device__ __forceinline__ void gradient_of_row(RowThreads<T, kLanes>& threads,
                                                         const Row<T, kLanes>& g,
                                                         const Row<T, kLanes>& m,
                                                         T* __restrict__ out,  // [C]
                                                         int classes) {
    T sums[2] = {T(0), T(0)};  // r, and the sum of G B
    for_each_entry<kLanes>(classes, [&](Entry at) {
      const T clamped = clamp_entry(m[at]);
      sums[0] += clamped;
      sums[1] += g[at] * clamped;
    });
    threads.sum(sums);
    const T inverse = inverse_row_sum(sums[0]);
    const T mean = sums[1] * inverse;
    for_each_entry<kLanes>(classes, [&](Entry at) {
      // A clamped entry is zero, and so is its gradient.
      out[at.column] = clamp_entry(m[at]) == T(0) ? T(0) : (g[at] - mean) * inverse;
    });
  }
};

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_project_transition(const T* matrix, T* projected, int64_t rows, int64_t classes,
                                      cudaStream_t stream) {
  return launch_row_operator<ProjectTransition>(matrix, projected, rows, classes, stream);
}

template <class T>
cudaError_t launch_project_transition_backward(const T* grad, const T* matrix, T* grad_matrix,
                                               int64_t rows, int64_t classes, cudaStream_t stream) {
  return launch_row_operator_backward<ProjectTransition>(grad, matrix, grad_matrix, rows, classes,
                                                         stream);
}

#define PTD_INSTANTIATE(T)                                                                         \
  template cudaError_t launch_project_transition<T>(const T*, T*, int64_t, int64_t, cudaStream_t); \
  template cudaError_t launch_project_transition_backward<T>(const T*, const T*, T*, int64_t,      \
                                                             int64_t, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
