// simplex_projection: the nearest point of the simplex to every row, by Newton's method on the
// threshold theta of math/simplex.h, and its gradient
//
//   dx_k = g_k - mean of g over the support {p > 0} where p_k > 0, and 0 elsewhere.
//
// A short row (R <= 32) has eight lanes of a warp, a long one a block: row_threads.cuh.
// Bytes that must move: 2 rows R sizeof(T) forward, 3 rows R sizeof(T) backward.
#include "simplex/row_threads.cuh"
#include "simplex/simplex_launchers.h"

namespace ptd {

// x less the largest entry of its row, `top`; infinities as limits.
template <class T>
__device__ __forceinline__ T below_top(T x, T top) {
  return x == top ? T(0) : x - top;
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    simplex_projection_rows(const T* __restrict__ x,    // [rows, R]
                            T* __restrict__ projected,  // [rows, R]
                            int64_t rows, int parts) {
  using Threads = RowThreads<T, kLanes>;
  __shared__ typename Threads::Scratch scratch;
  Threads threads(scratch);
  const int64_t row = int64_t(blockIdx.x) * threads.rows_per_block() + threads.row_of_block();
  if (row >= rows) return;
  const Row<T, kLanes> entries(x + row * parts, parts);

  T top = -infinity<T>();
  for_each_entry<kLanes>(parts, [&](Entry at) { top = larger_or_nan(top, entries[at]); });
  top = threads.max_or_nan(top);  // NaN leaves no entry above theta, and NaN in the whole row

  T theta = T(-1);
  for (;;) {
    T found[2] = {T(0), T(0)};  // the sum and the number of entries above theta
    for_each_entry<kLanes>(parts, [&](Entry at) {
      const T below = below_top(entries[at], top);
      found[0] += below > theta ? below : T(0);
      found[1] += below > theta ? T(1) : T(0);
    });
    threads.sum(found);
    const T next = newton_threshold(found[0], found[1]);
    if (!(next > theta)) break;
    theta = next;
  }
  T* const out = projected + row * parts;
  for_each_entry<kLanes>(
      parts, [&](Entry at) { out[at.column] = above_zero(below_top(entries[at], top) - theta); });
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    simplex_projection_rows_backward(const T* __restrict__ grad,       // [rows, R]
                                     const T* __restrict__ projected,  // [rows, R]
                                     T* __restrict__ grad_x,           // [rows, R]
                                     int64_t rows, int parts) {
  using Threads = RowThreads<T, kLanes>;
  __shared__ typename Threads::Scratch scratch;
  Threads threads(scratch);
  const int64_t row = int64_t(blockIdx.x) * threads.rows_per_block() + threads.row_of_block();
  if (row >= rows) return;
  const Row<T, kLanes> g(grad + row * parts, parts), p(projected + row * parts, parts);

  T found[2] = {T(0), T(0)};  // the sum of g over the support, and the size of that
  for_each_entry<kLanes>(parts, [&](Entry at) {
    const T g_k = g[at], p_k = p[at];
    found[0] += p_k > T(0) ? g_k : T(0);
    found[1] += p_k > T(0) ? T(1) : T(0);
  });
  threads.sum(found);
  const T mean = found[0] / found[1];
  T* const out = grad_x + row * parts;
  for_each_entry<kLanes>(parts, [&](Entry at) {
    const T g_k = g[at], p_k = p[at];
    out[at.column] = p_k > T(0) ? g_k - mean : T(0) * p_k;  // NaN where p is NaN
  });
}

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_simplex_projection(const T* x, T* projected, int64_t rows, int64_t parts,
                                      cudaStream_t stream) {
  return launch_rows(rows, parts, [&]<int kLanes>(unsigned grid, unsigned block) {
    PTD_LAUNCH((simplex_projection_rows<T, kLanes>), grid, block, 0, stream, x, projected, rows,
               static_cast<int>(parts));
  });
}

template <class T>
cudaError_t launch_simplex_projection_backward(const T* grad, const T* projected, T* grad_x,
                                               int64_t rows, int64_t parts, cudaStream_t stream) {
  return launch_rows(rows, parts, [&]<int kLanes>(unsigned grid, unsigned block) {
    PTD_LAUNCH((simplex_projection_rows_backward<T, kLanes>), grid, block, 0, stream, grad,
               projected, grad_x, rows, static_cast<int>(parts));
  });
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
