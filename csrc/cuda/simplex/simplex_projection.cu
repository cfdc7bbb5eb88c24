// simplex_projection: the nearest point of the simplex to every row, by Newton's method on the
// threshold theta of math/simplex.h, and its gradient
//
//   dx_k = g_k - mean of g over the support {p > 0} where p_k > 0, and 0 elsewhere.
//
// A short row (R <= 32) has eight lanes of a warp, a long one a block: row_operator.cuh.
// Bytes that must move: 2 rows R sizeof(T) forward, 3 rows R sizeof(T) backward.
#include "simplex/row_operator.cuh"
#include "simplex/simplex_launchers.h"

namespace ptd {

// x minus the largest entry of its row, `top`. Infinities are treated as limits.
template <class T>
__device__ __forceinline__ T below_top(T x, T top) {
  return x == top ? T(0) : x - top;
}

struct SimplexProjection {
  template <class T, int kLanes>
  static __device__ __forceinline__ void of_row(RowThreads<T, kLanes>& threads,
                                                const Row<T, kLanes>& x,
                                                T* __restrict__ out,  // [R]
                                                int parts) {
    T top = -infinity<T>();
    for_each_entry<kLanes>(parts, [&](Entry at) { top = larger_or_nan(top, x[at]); });
    top = threads.max_or_nan(top);  // with a NaN no entry exceeds theta: the row becomes NaN

    T theta = T(-1);
    for (;;) {
      T found[2] = {T(0), T(0)};  // the sum and the number of entries above theta
      for_each_entry<kLanes>(parts, [&](Entry at) {
        const T below = below_top(x[at], top);
        found[0] += below > theta ? below : T(0);
        found[1] += below > theta ? T(1) : T(0);
      });
      threads.sum(found);
      const T next = newton_threshold(found[0], found[1]);
      if (!(next > theta)) break;
      theta = next;
    }
    for_each_entry<kLanes>(
        parts, [&](Entry at) { out[at.column] = above_zero(below_top(x[at], top) - theta); });
  }

  template <class T, int kLanes>
  static __device__ __forceinline__ void gradient_of_row(RowThreads<T, kLanes>& threads,
                                                         const Row<T, kLanes>& g,
                                                         const Row<T, kLanes>& p,
                                                         T* __restrict__ out,  // [R]
                                                         int parts) {
    T found[2] = {T(0), T(0)};  // the sum of g over the support, and the size of that
    for_each_entry<kLanes>(parts, [&](Entry at) {
      const T g_k = g[at], p_k = p[at];
      found[0] += p_k > T(0) ? g_k : T(0);
      found[1] += p_k > T(0) ? T(1) : T(0);
    });
    threads.sum(found);
    const T mean = found[0] / found[1];
    for_each_entry<kLanes>(parts, [&](Entry at) {
      const T g_k = g[at], p_k = p[at];
      out[at.column] = p_k > T(0) ? g_k - mean : T(0) * p_k;  // NaN where p is NaN
    });
  }
};

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_simplex_projection(const T* x, T* projected, int64_t rows, int64_t parts,
                                      cudaStream_t stream) {
  return launch_row_operator<SimplexProjection>(x, projected, rows, parts, stream);
}

template <class T>
cudaError_t launch_simplex_projection_backward(const T* grad, const T* projected, T* grad_x,
                                               int64_t rows, int64_t parts, cudaStream_t stream) {
  return launch_row_operator_backward<SimplexProjection>(grad, projected, grad_x, rows, parts,
                                                         stream);
}

#define PTD_INSTANTIATE(T)                                                                         \
  template cudaError_t launch_simplex_projection<T>(const T*, T*, int64_t, int64_t, cudaStream_t); \
  template cudaError_t launch_simplex_projection_backward<T>(const T*, const T*, T*, int64_t,      \
                                                             int64_t, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
